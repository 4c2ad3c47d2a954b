"""What makes two results the same result: everything that changes the answer."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog

from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.seen_results import (
    WITHIN,
    MixedModels,
    SeenResults,
    result_of,
)
from stream_icd.streaming.workers.detect import Detector
from stream_icd.wire.communities import decode_communities

Outgoing = Callable[[Snapshot, str], OutgoingRecord]
PLAIN = DetectSettings(threads=1)


@pytest.fixture
def result(model: VersionedModel, outgoing: Outgoing) -> Callable[..., Record]:
    """The record of a snapshot's result, by a detector that was given these settings."""

    def detect(snapshot: Snapshot, settings: DetectSettings = PLAIN, offset: int = 0) -> Record:
        sent = outgoing(snapshot, "snapshots")
        record = Record("snapshots", 0, offset, 0, sent.key, sent.value, sent.headers)
        done = RecordDetection(model, settings)(record)
        assert isinstance(done, Processed)
        (found,) = done.outgoing
        return Record("found", 0, 0, 0, found.key, found.value, found.headers)

    return detect


def corrected(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with an edge less."""
    src, dst = (snapshot.nodes.take(end) for end in snapshot.edges[:, 1:].tolist())
    named = {"graph": snapshot.graph, "id": snapshot.id, "window": snapshot.window}
    return snapshot_from_pairs(src, dst, **named)  # type: ignore[arg-type]


def test_all_that_changes_the_answer_makes_it_another_result(result, snapshot) -> None:
    plain = replace(snapshot(0), n_communities=None)
    found = [
        result(plain),
        result(snapshot(0)),
        result(corrected(plain)),
        result(plain, replace(PLAIN, seed=1)),
        result(plain, replace(PLAIN, n_communities=2)),
        result(plain, replace(PLAIN, method="icd", n_communities=2)),
        result(snapshot(1)),
    ]
    seen = SeenResults()
    assert all(seen.is_new(result_of(one)) for one in found)
    decoded = [decode_communities(one.key, one.value, one.headers) for one in found]
    assert len({communities.identity() for communities in decoded}) == len(found)
    assert len({dict(one.headers)["ce_id"] for one in found}) == len(found)
    assert [(communities.k_given, communities.seed) for communities in decoded[:5]] == [
        (None, 0), (3, 0), (None, 0), (None, 1), (2, 0),
    ]  # fmt: skip
    assert decoded[0].content == plain.content


def test_what_changes_no_answer_makes_no_other_result(result, snapshot) -> None:
    one = snapshot(0)
    seen = SeenResults()
    seen.add(result_of(result(one)))
    again = [
        result(replace(one, source="urn:other")),
        result(one, replace(PLAIN, threads=2)),
        result(one, replace(PLAIN, n_communities=5)),  # the snapshot says its own K
        result(one, offset=7),  # sent again
    ]
    assert not any(seen.is_new(result_of(each)) for each in again)


def test_more_communities_than_nodes_are_as_many_as_there_are_nodes(
    model: VersionedModel, snapshot, outgoing: Outgoing
) -> None:
    sent = [outgoing(replace(snapshot(i), n_communities=None), "snapshots") for i in range(2)]
    records = [Record("snapshots", 0, i, 0, r.key, r.value, r.headers) for i, r in enumerate(sent)]
    for method in ("bp", "icd"):
        detector = Detector(lambda: model, replace(PLAIN, method=method, n_communities=1000))
        with structlog.testing.capture_logs() as said:
            outcomes = [outcome for _, outcome in detector.work(records)]
        assert len([line for line in said if line["log_level"] == "warning"]) == 1
        for outcome in outcomes:
            assert isinstance(outcome, Processed)
            (message,) = outcome.outgoing
            found = decode_communities(message.key, message.value, message.headers)
            assert (found.n_communities, found.k_given) == (24, 1000)


def test_models_that_take_turns_in_a_graph_are_told_once() -> None:
    models = MixedModels()
    changed = [models.look_at("g", model) for model in ("a", "a", "b", "b")]
    assert changed == [None] * 4
    turns = [models.look_at("g", model) for model in ("a", "b", "a")]
    assert "graph g has results of 2 models by turns, a, b" in str(turns[1])
    assert [turns[0], turns[2]] == [None, None]
    assert models.look_at("h", "a") is None
    assert {models.look_at("g", str(number)) for number in range(100)} == {None}


def test_models_that_were_replaced_before_take_no_turns() -> None:
    models = MixedModels()
    for version in range(50):  # retraining, day after day
        for _ in range(WITHIN):
            assert models.look_at("g", f"{version:03}") is None
    said = [models.look_at("g", model) for model in ("old", "049", "old")]
    assert "results of 2 models by turns, 049, old: two" in str(said[-1])


def test_a_promotion_and_its_rollback_are_no_turns() -> None:
    models = MixedModels()
    sent = ["a"] * 5 + ["b"] * 5 + ["a"] * WITHIN + ["c"] * 5 + ["a"] * WITHIN
    assert {models.look_at("g", model) for model in sent} == {None}


def identity(
    graph: bytes, snapshot: bytes, model: bytes = b"m", revision: bytes = b"", place: bytes = b""
) -> Any:
    """The result that a record with these headers holds."""
    said = {"snapshot_id": snapshot, "model": model, "revision": revision, "snapshot_place": place}
    headers = tuple((f"icd_{name}", text) for name, text in said.items())
    return result_of(Record("found", 0, 0, 0, graph, b"", headers))


def test_long_names_are_told_apart_and_take_few_bytes() -> None:
    def named(number: int) -> Any:
        return identity(*[f"{number:08}".encode() * 128] * 5)

    tracemalloc.start()
    try:
        seen = SeenResults()
        for number in range(1000):
            assert seen.is_new(named(number))
        assert tracemalloc.get_traced_memory()[0] < 1000 * 1100
    finally:
        tracemalloc.stop()
    assert all(named(number) in seen for number in range(1000))
    batch = SeenResults(seen)
    batch.add(named(1000))
    batch.keep()
    assert named(1000) in seen
    batch.take_back(named(1000))
    seen.forget(named(1000).name[0])
    assert named(1000) not in seen


def test_a_graph_is_forgotten_without_a_look_at_others() -> None:
    """Else each record that starts a graph anew would take as long as all that is remembered."""
    seen = SeenResults()
    for number in range(20_000):
        seen.add(identity(b"%d" % (number % 2), b"%d" % number))
    began = time.process_time()
    for number in range(2, 20_000):
        seen.forget(b"%d" % number)
    assert time.process_time() - began < 1
    seen.forget(b"1")
    assert identity(b"1", b"1") not in seen
    assert identity(b"0", b"0") in seen


def test_the_results_seen_first_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_icd.streaming.subscribers.seen_results._REMEMBERED", 3)
    seen = SeenResults()
    results = [identity(b"g", b"%d" % number, revision=b"%d" % number) for number in range(3)]
    corrected = results[0]._replace(revision=b"corrected")
    assert all(seen.is_new(result) for result in (*results, corrected))
    assert [result in seen for result in (*results, corrected)] == [True, False, True, True]
    assert seen.is_new(results[1])
    assert [result in seen for result in (*results, corrected)] == [True, True, False, True]
