"""The private parts of the Kafka client that are relied on are there, and no others are used."""

from __future__ import annotations

import ast
import contextlib
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import kafka
import pytest
from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka import errors as client
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

import stream_icd.kafka
from stream_icd.kafka.client.connections import open_consumer
from stream_icd.kafka.client.workarounds import ConsumerParts, KafkaTCPTransport, NetworkSelector
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.topics import create_topics
from tests.kafka.echo import publish
from tests.testbed.brokers import Broker, KafkaNode, wait_until

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


# What the client does wrong as a member of a group, and the workarounds prevent: a group reads on
# where it has committed by now; a member that was thrown out keeps no partition, and claims none.


class Stop(ConsumerRebalanceListener):  # type: ignore[misc]
    """Has the broker stand still, until the end of `pause`, when partitions are assigned."""

    def __init__(self, node: KafkaNode, pause: contextlib.ExitStack) -> None:
        self._node = node
        self._pause = pause
        self.assigned = False

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if assigned:  # at first the topic may not be known yet
            self._pause.enter_context(self._node.paused())
            self.assigned = True

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        pass


@pytest.fixture
def node(kafka: Broker) -> KafkaNode:
    if kafka.node is None:
        pytest.skip("it pauses the broker: unset STREAM_ICD_TEST_KAFKA, so that it is one of ours")
    return kafka.node


@contextlib.contextmanager
def opened(broker: Broker, **options: Any) -> Iterator[Any]:
    consumer = open_consumer(broker.steady(), group_id="test-committed-offsets", **options)
    try:
        yield consumer
    finally:
        consumer.close(timeout_ms=5000)


def poll(consumer: Any) -> Any:
    """As our member of a group does: without the second line, it may never join again."""
    records = consumer.poll(timeout_ms=100)
    ConsumerParts(consumer).keep_joining()
    return records


def position(consumer: Any, partition: TopicPartition) -> int | None:
    """Where it reads next; None where it does not know."""
    try:
        return consumer.position(partition, timeout_ms=0)  # type: ignore[no-any-return]
    except client.KafkaError:
        return None


def commit(consumer: Any, partition: TopicPartition, offset: int) -> None:
    consumer.commit({partition: OffsetAndMetadata(offset, "", -1)})


@pytest.mark.kafka
def test_an_answer_that_comes_too_late_does_not_say_where_a_partition_is_read(
    kafka: Broker, node: KafkaNode, topic_name: str
) -> None:
    """Neither to who asks for what is committed, nor to a member to which it comes back."""
    create_topics(kafka.settings(), [TopicSpec(topic_name)])
    publish(kafka.settings(), topic_name, 2)
    partition = TopicPartition(topic_name, 0)
    with opened(kafka) as consumer:
        consumer.assign([partition])
        commit(consumer, partition, 3)
        with node.paused(), pytest.raises(client.KafkaTimeoutError):
            consumer.committed(partition, timeout_ms=100)
        commit(consumer, partition, 2)  # the answer, 3, comes before that of the commit
        assert consumer.committed(partition) == 2
    with opened(kafka) as consumer, opened(kafka) as other:
        other.assign([partition])
        commit(other, partition, 1)
        with contextlib.ExitStack() as pause:
            stop = Stop(node, pause)
            consumer.subscribe([partition.topic], listener=stop)
            wait_until(lambda: poll(consumer) or stop.assigned)
            poll(consumer)  # asks for the committed offset
            assert position(consumer, partition) is None
        consumer.unsubscribe()
        commit(other, partition, 2)
        consumer.subscribe([partition.topic])
        wait_until(lambda: poll(consumer) or position(consumer, partition) is not None)
        assert position(consumer, partition) == 2


def test_a_join_that_is_refused_is_prepared_again_and_claims_nothing(broker: Broker) -> None:
    with opened(broker, partition_assignment_strategy=(CooperativeStickyAssignor,)) as consumer:
        consumer.subscribe(["t"])
        coordinator = consumer._coordinator
        (assignor,) = coordinator._assignors.values()
        assignor.member_assignment = [TopicPartition("t", 0)]
        consumer._subscription.assign_from_subscribed([TopicPartition("t", 0)])
        assert assignor.metadata({"t"}).owned_partitions
        coordinator.rejoining = True  # the join was prepared while the member was one

        coordinator.reset_generation()  # and the broker does not know it

        assert not coordinator.rejoining
        assert not assignor.metadata({"t"}).owned_partitions
