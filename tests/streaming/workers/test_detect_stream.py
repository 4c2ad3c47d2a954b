"""What a subscriber can rely on when a detector works on a stream; on both brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pytest

from stream_icd.core.communities import Communities
from stream_icd.core.errors import TooManyDeadLetters
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside, publish

Outgoing = Callable[[Snapshot, str], OutgoingRecord]
Topics = tuple[str, str]


@contextmanager
def detecting(
    broker: Broker, topics: Topics, model: VersionedModel, limit: DeadLetterLimit | None = None
) -> Iterator[list[BaseException]]:
    """A detector at work in the background; yields the errors that ended it."""
    settings = DetectSettings(topic=topics[1], threads=1)
    runner = Runner(Detector(lambda: model, settings), limit or DeadLetterLimit())
    handler = Calls(runner.handle)
    with beside(partial(run_consumer, broker.settings(), topics[0], topics[0], handler)) as errors:
        yield errors


def found(broker: Broker, topics: Topics, limit: int) -> list[Communities]:
    return list(
        subscribe(start="beginning", limit=limit, settings=broker.settings(), topic=topics[1])
    )


def test_every_snapshot_gets_its_communities_in_order(
    broker: Broker,
    topics: Topics,
    model: VersionedModel,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
) -> None:
    sent = [snapshot(i) for i in range(12)]
    publish(broker, [outgoing(one, topics[0]) for one in sent])
    with detecting(broker, topics, model):
        results = found(broker, topics, len(sent))
    assert [one.snapshot_id for one in results] == [one.id for one in sent]
    for result, one in zip(results, sent, strict=True):
        assert result.graph == "test"
        assert result.model == "test@0"
        assert result.window == one.window
        assert result.nodes.equals(one.nodes)
        assert result.n_edges == one.n_edges
        # Three cliques, loosely joined: each is one community.
        assert sorted(result.sizes) == [8, 8, 8]
        assert all(len(set(result.labels[c * 8 : c * 8 + 8])) == 1 for c in range(3))
        assert result.modularity == pytest.approx(0.6322, abs=1e-3)
        assert set(result.milliseconds) == {"decode", "features", "encode", "cluster"}


@pytest.mark.brokers("memory")
def test_a_bad_snapshot_is_dead_lettered_whole_and_the_stream_goes_on(
    broker: Broker,
    topics: Topics,
    model: VersionedModel,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
) -> None:
    good = outgoing(snapshot(0), topics[0])
    of_a_result = ("icd_model", b"m@1")
    bad = OutgoingRecord(topics[0], b"\x00 not Arrow \xff", good.key, (*good.headers, of_a_result))
    odd_name = (b"caf\xe9".decode(errors="surrogateescape"), b"\xff")
    oddly_named = OutgoingRecord(topics[0], good.value, good.key, (odd_name, *good.headers))
    after = outgoing(snapshot(1), topics[0])
    publish(broker, [good, bad, oddly_named, after])
    with detecting(broker, topics, model):
        results = found(broker, topics, 2)
        dead_letters = open_reader(
            broker.settings(), f"{topics[0]}.dlq", start="beginning", limit=2
        )
        with dead_letters as records:
            dead, other = list(records)
    assert [result.snapshot_id for result in results] == ["test/0", "test/1"]
    assert (dead.key, dead.value) == (bad.key, bad.value)
    assert dead.headers[: len(bad.headers)] == bad.headers
    why = dict(dead.headers)
    assert why["icd_dlq_topic"] == topics[0].encode()
    assert (why["icd_dlq_partition"], why["icd_dlq_offset"]) == (b"0", b"1")
    assert (why["icd_dlq_stage"], why["icd_dlq_exception"]) == (b"decode", b"BadSnapshot")
    assert b"not an Arrow IPC stream" in why["icd_dlq_message"]
    assert (other.key, other.value) == (oddly_named.key, oddly_named.value)
    assert other.headers[: len(oddly_named.headers)] == oddly_named.headers
    assert rb"name is not UTF-8: b'caf\xe9'" in dict(other.headers)["icd_dlq_message"]


@pytest.mark.brokers("memory")
def test_a_worker_whose_input_is_mostly_bad_stops_and_says_so(
    broker: Broker, topics: Topics, model: VersionedModel
) -> None:
    publish(broker, [OutgoingRecord(topics[0], b"garbage", b"test")] * 6)
    with detecting(broker, topics, model, DeadLetterLimit(share=0.5, window=4)) as errors:
        wait_until(lambda: errors)
    (error,) = errors
    assert isinstance(error, TooManyDeadLetters)
    assert "4 of the last 4 records became dead letters" in str(error)


def test_a_producer_in_another_language_needs_only_the_contract(
    broker: Broker, topics: Topics, model: VersionedModel
) -> None:
    """librdkafka and pyarrow, nothing of ours: headers and columns as docs/wire.md says."""
    confluent = pytest.importorskip("confluent_kafka")
    edges = pa.table(
        {
            "src": ["a", "b", "a", "x", "y", "x", "c", "lonely"],
            "dst": ["b", "c", "c", "y", "z", "z", "x", None],
            "weight": [1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.0],
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, edges.schema) as writer:
        writer.write_table(edges)
    headers = {
        "ce_specversion": "1.0",
        "ce_type": "stream_icd.snapshot.v1",
        "ce_source": "urn:elsewhere",
        "ce_id": "letters/1",
        "ce_time": "2026-01-01T00:01:00Z",
        "content-type": "application/vnd.apache.arrow.stream",
        "icd_window_start": "2026-01-01T00:00:00Z",
        "icd_window_end": "2026-01-01T00:01:00Z",
        "icd_k": "3",
    }
    producer = confluent.Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(
        topics[0], sink.getvalue().to_pybytes(), b"letters", headers=list(headers.items())
    )
    assert producer.flush(20) == 0
    with detecting(broker, topics, model):
        (result,) = found(broker, topics, 1)
    assert (result.graph, result.snapshot_id) == ("letters", "letters/1")
    assert result.nodes.to_pylist() == ["a", "b", "c", "lonely", "x", "y", "z"]
    assert result.n_communities == 3


@pytest.mark.brokers("memory")
def test_k_is_estimated_where_nobody_says_it(
    broker: Broker,
    topics: Topics,
    model: VersionedModel,
    snapshot: Callable[..., Snapshot],
    outgoing: Outgoing,
) -> None:
    record = outgoing(snapshot(0, cliques=5), topics[0])
    unsaid = tuple(pair for pair in record.headers if pair[0] != "icd_k")
    publish(broker, [OutgoingRecord(topics[0], record.value, record.key, unsaid)])
    with detecting(broker, topics, model):
        (result,) = found(broker, topics, 1)
    assert result.n_communities == 5
