"""The private parts of the Kafka client that are relied on are there, and no others are used."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager
from kafka.record.default_records import DefaultRecordBatch

import stream_icd.kafka
from stream_icd.kafka.client.workarounds import KafkaTCPTransport, NetworkSelector

ROOM = Path(next(iter(stream_icd.kafka.__path__)))
WORKAROUNDS = ROOM / "client" / "workarounds.py"
# By the section of the workarounds that relies on them. Not all are private by name, but none is
# documented.
PARTS: dict[str, dict[type, str]] = {
    "consumers": {
        kafka.KafkaConsumer: "_coordinator _fetcher _cluster",
        BaseCoordinator: "heartbeat request_rejoin reset_generation rejoining _net",
        ConsumerCoordinator: "time_to_next_poll _assignors _offset_fetch_futures "
        "fetch_committed_offsets fetch_committed_offsets_async",
        Fetcher: "config",
        Heartbeat: "config last_receive last_reset",
        StickyPartitionAssignor: "member_assignment",
    },
    "fetched_records": {
        kafka.KafkaConsumer: "_fetcher _subscription",
        SubscriptionState: "assignment",
        TopicPartitionState: "position",
        Fetcher: "PartitionRecords _next_partition_records",
        Fetcher.PartitionRecords: "topic_partition next_fetch_offset take _unpack_records "
        "_next_inline_exception",
        DefaultRecordBatch: "_buffer _read_msg next_offset",
    },
    "connections": {
        kafka.KafkaConsumer: "_client",
        KafkaNetClient: "_manager",
        KafkaConnectionManager: "cluster _connect bootstrapped get_connection least_loaded_node "
        "send",
        ClusterMetadata: "config",
        KafkaTCPTransport: "_sock_recv",
        KafkaConnection: "close_future connection_lost connection_made pause",
        NetworkSelector: "wait_read",
    },
    "producers": {
        kafka.KafkaProducer: "_accumulator _sender _transaction_manager",
        RecordAccumulator: "config",
        Sender: "force_close",
        TransactionManager: "begin_transaction _pending_txn_offset_commits",
    },
}
EACH = [
    (section, owner, name)
    for section, parts in PARTS.items()
    for owner, names in parts.items()
    for name in names.split()
]


def test_the_client_still_has_them() -> None:
    missing = [
        f"{owner.__qualname__}.{name} ({section})"
        for section, owner, name in EACH
        if not (hasattr(owner, name) or f"self.{name} =" in inspect.getsource(owner))
    ]
    assert not missing, (
        f"kafka-python {kafka.__version__} lacks what {WORKAROUNDS} relies on: see there what for, "
        "and whether it is still needed"
    )


def test_no_other_private_part_is_relied_on() -> None:
    known = {name for _, _, name in EACH}
    for path in sorted(ROOM.rglob("*.py")):
        for name, line in private_parts_of_others(path):
            assert path == WORKAROUNDS, f"{path}:{line}: {name} belongs in a workaround"
            assert name in known, f"{path}:{line}: {name} is not listed in {Path(__file__).name}"


def private_parts_of_others(path: Path) -> Iterator[tuple[str, int]]:
    """Names like `_this` that are taken of anything but `self`, and their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_self(node.value):
            yield node.attr, node.lineno


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_self(node: Any) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
