"""What a subscriber can rely on when a detector works on a stream; on both brokers."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from stream_icd.core.child_process import stop_children
from stream_icd.core.communities import Communities
from stream_icd.core.errors import TooManyDeadLetters
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.seen_results import SeenResults, result_of
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.communities import decode_communities
from tests.fixtures.stream import cliques
from tests.testbed.brokers import Broker, timeouts, wait_until
from tests.testbed.drifting import outgoing
from tests.testbed.handlers import Calls
from tests.testbed.starting import consuming, start_forked
from tests.testbed.streams import as_read, beside, held, publish

PLAIN = DetectSettings(threads=1)


class Stream:
    """A topic of snapshots and one of results of one test's own, and a detector between them."""

    def __init__(self, broker: Broker, topics: tuple[str, str], model: VersionedModel) -> None:
        self.broker, (self.source, self.target), self.model = broker, topics, model

    def publish(self, *records: OutgoingRecord) -> None:
        publish(self.broker, records)

    @contextmanager
    def detecting(self, limit: DeadLetterLimit | None = None) -> Iterator[list[BaseException]]:
        """A detector at work in the background; yields the errors that ended it."""
        settings = replace(PLAIN, topic=self.target)
        runner = Runner(Detector(lambda: self.model, settings), limit or DeadLetterLimit())
        handler, source = Calls(runner.handle), self.source
        with beside(
            partial(run_consumer, self.broker.settings(), source, source, handler)
        ) as errors:
            yield errors

    def found(self, limit: int) -> list[Communities]:
        where = {"settings": self.broker.settings(), "topic": self.target}
        return list(subscribe(start="beginning", limit=limit, **where))


@pytest.fixture
def stream(broker: Broker, topics: tuple[str, str], model: VersionedModel) -> Stream:
    return Stream(broker, topics, model)


def test_every_snapshot_gets_its_communities_in_order(stream: Stream) -> None:
    sent = [replace(cliques(0), n_communities=None), *(cliques(i) for i in range(1, 12))]
    stream.publish(*(outgoing(one, stream.source) for one in sent))
    with stream.detecting():
        results = stream.found(len(sent))
    assert [one.snapshot_id for one in results] == [one.id for one in sent]
    assert results[0].k_given is None, "K is estimated where nobody says it"
    for result, one in zip(results, sent, strict=True):
        assert (result.graph, result.model) == ("test", "test@0")
        assert (result.window, result.n_edges) == (one.window, one.n_edges)
        assert result.nodes.equals(one.nodes)
        # Three cliques, loosely joined: each is one community.
        assert sorted(result.sizes) == [8, 8, 8]
        assert all(len(set(result.labels[c * 8 : c * 8 + 8])) == 1 for c in range(3))
        assert result.modularity == pytest.approx(0.6322, abs=1e-3)
        assert set(result.milliseconds) == {"decode", "features", "encode", "cluster"}


@pytest.mark.brokers("memory")
def test_a_bad_snapshot_is_dead_lettered_whole_and_the_stream_goes_on(stream: Stream) -> None:
    good, after = (outgoing(cliques(i), stream.source) for i in (0, 1))
    of_a_result = ("icd_model", b"m@1")
    bad = replace(good, value=b"\x00 not Arrow \xff", headers=(*good.headers, of_a_result))
    odd_name = (b"caf\xe9".decode(errors="surrogateescape"), b"\xff")
    oddly_named = replace(good, headers=(odd_name, *good.headers))
    stream.publish(good, bad, oddly_named, after)
    with stream.detecting():
        assert [result.snapshot_id for result in stream.found(2)] == ["test/0", "test/1"]
    letters = held(stream.broker, f"{stream.source}.dlq")
    for letter, sent in zip(letters, (bad, oddly_named), strict=True):
        assert (letter.key, letter.value) == (sent.key, sent.value)
        assert letter.headers[: len(sent.headers)] == sent.headers
    why, other = (dict(letter.headers) for letter in letters)
    assert why["icd_dlq_topic"] == stream.source.encode()
    assert (why["icd_dlq_partition"], why["icd_dlq_offset"]) == (b"0", b"1")
    assert (why["icd_dlq_stage"], why["icd_dlq_exception"]) == (b"decode", b"BadSnapshot")
    assert b"not an Arrow IPC stream" in why["icd_dlq_message"]
    assert rb"name is not UTF-8: b'caf\xe9'" in other["icd_dlq_message"]


@pytest.mark.brokers("memory")
def test_a_worker_whose_input_is_mostly_bad_stops_and_says_so(stream: Stream) -> None:
    stream.publish(*[OutgoingRecord(stream.source, b"garbage", b"test")] * 6)
    with stream.detecting(DeadLetterLimit(share=0.5, window=4)) as errors:
        wait_until(lambda: errors)
    (error,) = errors
    assert isinstance(error, TooManyDeadLetters)
    assert "4 of the last 4 records became dead letters" in str(error)


def test_a_producer_in_another_language_needs_only_the_contract(stream: Stream) -> None:
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
    producer = confluent.Producer({"bootstrap.servers": stream.broker.bootstrap_servers})
    value = sink.getvalue().to_pybytes()
    producer.produce(stream.source, value, b"letters", headers=list(headers.items()))
    assert producer.flush(20) == 0
    with stream.detecting():
        (result,) = stream.found(1)
    assert (result.graph, result.snapshot_id) == ("letters", "letters/1")
    assert result.nodes.to_pylist() == ["a", "b", "c", "lonely", "x", "y", "z"]
    assert result.n_communities == 3


@pytest.mark.brokers("embedded")
def test_two_detectors_of_a_graph_each_find_all_of_it_in_their_default_groups(
    broker: Broker, topic_name: str, tmp_path: Path, model_folder: Path
) -> None:
    create_topics(broker.settings())
    sizes = {f"{topic_name}-a": 20, f"{topic_name}-b": 12}
    sent = [cliques(i, graph) for graph, size in sizes.items() for i in range(size)]
    publish(broker, [outgoing(one, SNAPSHOTS) for one in sent])
    options = ("--model", str(model_folder), "-b", broker.bootstrap_servers)
    quick = os.environ | timeouts(broker.settings())
    detectors = [
        start_forked(("consume", "detect", *options, "--graph", graph), tmp_path / graph, env=quick)
        for graph in sizes
    ]
    where = {"start": "beginning", "settings": broker.settings(), "topic": COMMUNITIES}
    try:
        for graph, size in sizes.items():
            results = subscribe(graph, limit=size, **where)
            assert [one.snapshot_id for one in results] == [f"{graph}/{i}" for i in range(size)]
    finally:
        statuses = stop_children(detectors, 30)
    assert statuses == [0, 0]
    for graph in sizes:
        assert f'"group": "stream-icd-detect-{graph}"' in (tmp_path / graph).read_text()


def bomb() -> bytes:
    """A table of 640 MB that is less than one on the wire, as long as nobody decompresses it."""
    zeros = pa.array(np.zeros(10**6, np.int64))
    batch = pa.record_batch({"src": zeros, "dst": zeros})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(40):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever had."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) * 1024


@pytest.mark.brokers("embedded")
def test_a_snapshot_above_the_limit_is_dead_lettered_and_never_unpacked(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    settings, graph, log = broker.settings(), topic_name, tmp_path / "detector.log"
    create_topics(settings)
    first, last = (outgoing(cliques(i, graph), SNAPSHOTS) for i in (0, 1))
    results = subscribe(graph, start="beginning", limit=2, settings=settings)
    limit = {"STREAM_ICD_LIMITS_DECODED_BYTES": str(10**6)}
    with consuming(broker, graph, log, "detect", "--model", "lfr", **limit) as detector:
        publish(broker, [first])
        found = [next(results).snapshot_id]
        before = peak_bytes(detector.pid)
        publish(broker, [replace(first, value=bomb()), last])
        found += [result.snapshot_id for result in results]
        grown = peak_bytes(detector.pid) - before
    assert found == [f"{graph}/0", f"{graph}/1"], log.read_text()
    assert grown < 150e6
    letters = [one for one in held(broker, f"{SNAPSHOTS}.dlq") if one.key == first.key]
    (dead,) = [dict(letter.headers) for letter in letters]
    assert dead["icd_dlq_exception"] == b"LimitExceeded"
    assert b"the limit is 1000000" in dead["icd_dlq_message"]


@pytest.fixture
def result(model: VersionedModel) -> Callable[..., Record]:
    """The record of a snapshot's result, by a detector that was given these settings."""

    def detect(snapshot: Snapshot, settings: DetectSettings = PLAIN, offset: int = 0) -> Record:
        (record,) = as_read([outgoing(snapshot, "snapshots")], first=offset)
        done = RecordDetection(model, settings)(record)
        assert isinstance(done, Processed)
        return as_read(done.outgoing)[0]

    return detect


def test_all_that_changes_the_answer_makes_it_another_result_and_nothing_else(
    result: Callable[..., Record],
) -> None:
    one = cliques(0)
    plain = replace(one, n_communities=None)
    src, dst = (plain.nodes.take(end) for end in plain.edges[:, 1:].tolist())
    corrected = snapshot_from_pairs(src, dst, graph=plain.graph, id=plain.id, window=plain.window)
    found = [
        result(plain),
        result(one),
        result(corrected),
        result(plain, replace(PLAIN, seed=1)),
        result(plain, replace(PLAIN, n_communities=2)),
        result(plain, replace(PLAIN, method="icd", n_communities=2)),
        result(cliques(1)),
    ]
    seen = SeenResults()
    assert all(seen.is_new(result_of(each)) for each in found)
    decoded = [decode_communities(each.key, each.value, each.headers) for each in found]
    assert len({communities.identity() for communities in decoded}) == len(found)
    assert len({dict(each.headers)["ce_id"] for each in found}) == len(found)
    assert [(communities.k_given, communities.seed) for communities in decoded[:5]] == [
        (None, 0), (3, 0), (None, 0), (None, 1), (2, 0),
    ]  # fmt: skip
    assert decoded[0].content == plain.content
    seen = SeenResults()
    seen.add(result_of(result(one)))
    again = [
        result(replace(one, source="urn:other")),
        result(one, replace(PLAIN, threads=2)),
        result(one, replace(PLAIN, n_communities=5)),  # the snapshot says its own K
        result(one, offset=7),  # sent again
    ]
    assert not any(seen.is_new(result_of(each)) for each in again)


@pytest.mark.parametrize("method", ["bp", "icd"])
def test_more_communities_than_nodes_are_as_many_as_there_are_nodes(
    model: VersionedModel, method: str
) -> None:
    sent = [outgoing(replace(cliques(i), n_communities=None), "snapshots") for i in range(2)]
    settings = replace(PLAIN, method=method, n_communities=1000)
    with capture_logs() as said:
        results = list(Runner(Detector(lambda: model, settings)).handle(as_read(sent)))
    assert len([line for line in said if line["log_level"] == "warning"]) == 1
    for one in results:
        found = decode_communities(one.key, one.value, one.headers)
        assert (found.n_communities, found.k_given) == (24, 1000)
