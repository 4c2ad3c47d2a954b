"""What a subscriber can rely on when a detector works on a stream; on both brokers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from stream_icd.core.arrays import Labels
from stream_icd.core.child_process import stop_children
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadCommunities, TooManyDeadLetters
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.seen_results import SeenResults, result_of
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.communities import encode_communities
from tests.fixtures.stream import cliques
from tests.streaming.workers.remembered import detected, results_in
from tests.testbed.brokers import Broker, timeouts, wait_until
from tests.testbed.drifting import outgoing
from tests.testbed.handlers import Calls
from tests.testbed.starting import start_forked
from tests.testbed.streams import as_read, beside, held, publish

PLAIN = DetectSettings(threads=1)


class Stream:
    """A topic of snapshots and one of results of one test's own, and a detector between them."""

    def __init__(self, broker: Broker, topics: tuple[str, str], model: VersionedModel) -> None:
        self.broker, (self.source, self.target), self.model = broker, topics, model

    @contextmanager
    def detecting(self, limit: DeadLetterLimit | None = None) -> Iterator[list[BaseException]]:
        """A detector at work in the background; yields the errors that ended it."""
        detector = Detector(lambda: self.model, replace(PLAIN, topic=self.target))
        handler = Calls(Runner(detector, limit or DeadLetterLimit()).handle)
        settings, source = self.broker.settings(), self.source
        with beside(partial(run_consumer, settings, source, source, handler)) as errors:
            yield errors

    def found(self, limit: int) -> list[Communities]:
        where = {"settings": self.broker.settings(), "topic": self.target}
        return list(subscribe(start="beginning", limit=limit, **where))


@pytest.fixture
def stream(broker: Broker, topics: tuple[str, str], model: VersionedModel) -> Stream:
    return Stream(broker, topics, model)


def test_every_snapshot_gets_its_communities_in_order(stream: Stream) -> None:
    sent = [replace(cliques(0), n_communities=None), *(cliques(i) for i in range(1, 12))]
    publish(stream.broker, [outgoing(snapshot, stream.source) for snapshot in sent])
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
    publish(stream.broker, [good, bad, oddly_named, after])
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
    publish(stream.broker, [OutgoingRecord(stream.source, b"garbage", b"test")] * 6)
    with stream.detecting(DeadLetterLimit(share=0.5, window=4)) as errors:
        wait_until(lambda: errors)
    (error,) = errors
    assert isinstance(error, TooManyDeadLetters)
    assert "4 of the last 4 records became dead letters" in str(error)


@pytest.mark.brokers("embedded")
def test_two_detectors_of_a_graph_each_find_all_of_it_in_their_default_groups(
    broker: Broker, topic_name: str, tmp_path: Path, model_folder: Path
) -> None:
    create_topics(broker.settings())
    sizes = {f"{topic_name}-a": 20, f"{topic_name}-b": 12}
    sent = [cliques(i, graph) for graph, size in sizes.items() for i in range(size)]
    publish(broker, [outgoing(snapshot, SNAPSHOTS) for snapshot in sent])
    options = ("--model", str(model_folder), "-b", broker.bootstrap_servers)
    quick = os.environ | timeouts(broker.settings())
    detectors = [
        start_forked(("consume", "detect", *options, "--graph", graph), tmp_path / graph, env=quick)
        for graph in sizes
    ]
    where = {"start": "beginning", "settings": broker.settings(), "topic": COMMUNITIES}
    try:
        for graph, size in sizes.items():
            ids = [result.snapshot_id for result in subscribe(graph, limit=size, **where)]
            assert ids == [f"{graph}/{i}" for i in range(size)]
    finally:
        statuses = stop_children(detectors, 30)
    assert statuses == [0, 0]
    for graph in sizes:
        assert f'"group": "stream-icd-detect-{graph}"' in (tmp_path / graph).read_text()


@pytest.fixture
def result(model: VersionedModel) -> Callable[..., Record]:
    """The record of a snapshot's result, by a detector that was given these settings."""

    def detect(snapshot: Snapshot, offset: int = 0, **settings: Any) -> Record:
        (record,) = as_read([outgoing(snapshot, "snapshots")], first=offset)
        done = RecordDetection(model, replace(PLAIN, **settings))(record)
        assert isinstance(done, Processed)
        return as_read(done.outgoing)[0]

    return detect


def test_what_changes_the_answer_makes_another_result(result: Callable[..., Record]) -> None:
    with_k = cliques(0)
    plain = replace(with_k, n_communities=None)
    src, dst = (plain.nodes.take(end) for end in plain.edges[:, 1:].tolist())
    corrected = snapshot_from_pairs(src, dst, graph=plain.graph, id=plain.id, window=plain.window)
    found = [
        result(plain),
        result(with_k),
        result(corrected),
        result(plain, seed=1),
        result(plain, n_communities=2),
        result(plain, n_communities=2, method="icd"),
        result(cliques(1)),
    ]
    seen = SeenResults()
    assert all(seen.is_new(result_of(record)) for record in found)
    decoded = results_in(found)
    assert len({communities.identity() for communities in decoded}) == len(found)
    assert len({dict(record.headers)["ce_id"] for record in found}) == len(found)
    said = [(communities.k_given, communities.seed) for communities in decoded[:5]]
    assert said == [(None, 0), (3, 0), (None, 0), (None, 1), (2, 0)]
    assert decoded[0].content == plain.content
    seen = SeenResults()
    seen.add(result_of(result(with_k)))
    again = [
        result(replace(with_k, source="urn:other")),
        result(with_k, threads=2),
        result(with_k, n_communities=5),  # the snapshot says its own K
        result(with_k, offset=7),  # sent again
    ]
    assert not any(seen.is_new(result_of(record)) for record in again)


@pytest.mark.parametrize("method", ["bp", "icd"])
def test_there_are_no_more_communities_than_nodes(model: VersionedModel, method: str) -> None:
    sent = [outgoing(replace(cliques(i), n_communities=None), "snapshots") for i in range(2)]
    settings = replace(PLAIN, method=method, n_communities=1000)
    with capture_logs() as logs:
        results = list(Runner(Detector(lambda: model, settings)).handle(as_read(sent)))
    assert [line["log_level"] for line in logs].count("warning") == 1
    for found in results_in(results):
        assert (found.n_communities, found.k_given) == (24, 1000)


# A detector that says which communities are one on further levels: `consume detect --levels`.

MODEL = open_model("default")
N_SMALL, SIZE, OF_LARGE = 24, 25, 4


def planted(
    count: int, n_small: int, size: int, chances: Sequence[float], graph: str = "g"
) -> Iterator[tuple[Snapshot, Labels]]:
    """Windows of communities, four of which are one on each further level, and the smallest ones.

    The chances are those of an edge in the same community of each level, and of any other edge.
    """
    rng, small = np.random.default_rng(3), np.repeat(np.arange(n_small), size)
    for number in range(count):
        moved = rng.random(len(small)) < 0.02
        small = np.where(moved, rng.integers(0, n_small, len(small)), small)
        chance = np.full((len(small), len(small)), chances[-1])
        for level, inside in reversed(list(enumerate(chances[:-1]))):
            of_level = small // OF_LARGE**level
            chance = np.where(of_level[:, None] == of_level, inside, chance)
        src, dst = np.nonzero(np.triu(rng.random(chance.shape) < chance, 1))
        start = datetime(2026, 1, 1, tzinfo=UTC) + number * timedelta(days=1)
        day = Window(start, start + timedelta(days=1))
        snapshot = snapshot_from_pairs(src, dst, graph=graph, id=f"{graph}/{number}", window=day)
        yield snapshot, small.astype(np.int32)


def windows(count: int, graph: str = "g") -> list[Snapshot]:
    """Windows of small communities, four of which are a large one; some nodes move."""
    return [snapshot for snapshot, _ in planted(count, N_SMALL, SIZE, (0.5, 0.03, 0.004), graph)]


def results(count: int, **settings: Any) -> list[Communities]:
    return detected(MODEL, DetectSettings(threads=1, **settings), windows(count))


def parents_of(result: Communities) -> dict[int, int]:
    assert result.levels is not None
    assert result.community_ids is not None
    return dict(zip(result.community_ids.tolist(), result.levels[0].tolist(), strict=True))


def test_ids_last_on_each_level() -> None:
    first, *later = results(5, memory="auto", group="g", levels=True)
    parents = parents_of(first)
    assert len(parents) == N_SMALL
    assert len(set(parents.values())) == N_SMALL // OF_LARGE
    assert all(parents[parent] == parent <= own for own, parent in parents.items())
    assert all(parents_of(result) == parents for result in later)


def test_ids_last_on_each_of_several_levels() -> None:
    memory, ancestors = None, []
    for snapshot, small in planted(5, 48, 16, (0.9, 0.08, 0.01, 0.001)):
        found = detect_remembering(
            snapshot, MODEL.model, memory, levels="above", find=lambda *_, now=small: now, threads=1
        )
        memory = found.memory
        ancestors.append(found.levels.ancestors(found.community_ids))
        assert [len(np.unique(level)) for level in ancestors[-1]] == [3, 12]
    for of_window in ancestors:
        assert [set(level) for level in of_window] == [set(level) for level in ancestors[0]]


def test_without_memory_levels_are_of_the_numbers_of_communities() -> None:
    (found,) = results(1, levels=True)
    assert found.levels is not None
    assert found.community_ids is None
    assert set(found.levels[0]) <= set(range(N_SMALL))


@pytest.mark.parametrize("memory", ["auto", "off"])
def test_levels_change_nothing_else_but_the_revision(memory: str) -> None:
    off, on = (results(2, memory=memory, group="g", levels=levels) for levels in (False, True))
    for without, with_levels in zip(off, on, strict=True):
        assert without.levels is None
        assert without.labels.tolist() == with_levels.labels.tolist()
        assert without.revision != with_levels.revision
        the_rest = encode_communities(replace(with_levels, levels=None)).value
        assert encode_communities(without).value == the_rest


def test_levels_that_cannot_be_are_refused() -> None:
    (found,) = results(1, levels=True)
    assert found.levels is not None
    for levels, reason in (
        (np.arange(3), r"levels have shape \(3,\); need \(L, 24\)"),
        (np.ones((1, N_SMALL), np.int64), "level 0 does not unite communities of the level"),
        (np.stack([np.arange(N_SMALL), found.levels[0]]), "level 0 does not unite"),
    ):
        with pytest.raises(BadCommunities, match=reason):
            replace(found, levels=levels)
    none = encode_communities(replace(found, levels=np.empty((0, N_SMALL), np.int64)))
    (again,) = results_in([OutgoingRecord("t", none.value, none.key, none.headers)])
    assert again.levels is not None
    assert again.levels.shape == (0, N_SMALL)
