"""The private parts of the Kafka client that are relied on are there, and no others are used."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import kafka
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

import stream_icd.kafka
from stream_icd.kafka.client.workarounds import KafkaTCPTransport, NetworkSelector

ROOM = Path(next(iter(stream_icd.kafka.__path__)))
WORKAROUNDS = ROOM / "client" / "workarounds.py"
# Not all are private by name, but none is documented.
PARTS = {
    "kafka:KafkaConsumer": "_client _cluster _coordinator _fetcher _subscription",
    "kafka:KafkaProducer": "_accumulator _sender _transaction_manager",
    "kafka.cluster:ClusterMetadata": "config",
    "kafka.consumer.fetcher:Fetcher": "config PartitionRecords _next_partition_records",
    "kafka.consumer.fetcher:Fetcher.PartitionRecords": "topic_partition next_fetch_offset take "
    "_unpack_records _next_inline_exception",
    "kafka.consumer.subscription_state:SubscriptionState": "assignment",
    "kafka.consumer.subscription_state:TopicPartitionState": "position",
    "kafka.coordinator.base:BaseCoordinator": "heartbeat request_rejoin reset_generation rejoining "
    "_net",
    "kafka.coordinator.consumer:ConsumerCoordinator": "time_to_next_poll _assignors "
    "_offset_fetch_futures fetch_committed_offsets fetch_committed_offsets_async",
    "kafka.coordinator.heartbeat:Heartbeat": "config last_receive last_reset",
    "kafka.net.compat:KafkaNetClient": "_manager",
    "kafka.net.connection:KafkaConnection": "close_future connection_lost connection_made pause",
    "kafka.net.manager:KafkaConnectionManager": "cluster _connect bootstrapped get_connection "
    "least_loaded_node send",
    "kafka.producer.record_accumulator:RecordAccumulator": "config",
    "kafka.producer.sender:Sender": "force_close",
    "kafka.producer.transaction_manager:TransactionManager": "begin_transaction "
    "_pending_txn_offset_commits",
    "kafka.record.default_records:DefaultRecordBatch": "_buffer _read_msg next_offset",
}
EACH: list[tuple[Any, str]] = [
    (resolve_name(owner), name) for owner, names in PARTS.items() for name in names.split()
]
EACH += [(KafkaTCPTransport, "_sock_recv"), (NetworkSelector, "wait_read")]
EACH += [(StickyPartitionAssignor, "member_assignment")]


def test_the_client_still_has_them() -> None:
    missing = [
        f"{owner.__qualname__}.{name}"
        for owner, name in EACH
        if not (hasattr(owner, name) or f"self.{name} =" in inspect.getsource(owner))
    ]
    assert not missing, (
        f"kafka-python {kafka.__version__} lacks what {WORKAROUNDS} relies on: see there what for, "
        "and whether it is still needed"
    )


def test_no_other_private_part_is_relied_on() -> None:
    listed = {name for _, name in EACH}
    for path in sorted(ROOM.rglob("*.py")):
        for name, line in private_parts_of_others(path):
            assert path == WORKAROUNDS, f"{path}:{line}: {name} belongs in a workaround"
            assert name in listed, f"{path}:{line}: {name} is not listed in {Path(__file__).name}"


def private_parts_of_others(path: Path) -> Iterator[tuple[str, int]]:
    """Names like `_this` that are taken of anything but `self`, and their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_self(node.value):
            yield node.attr, node.lineno


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_self(node: Any) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
