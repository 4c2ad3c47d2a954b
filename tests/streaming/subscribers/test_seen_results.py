"""The results seen so far: repetitions are recognised within a limit, and models by turns."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from stream_icd.kafka.record import Record
from stream_icd.streaming.subscribers.seen_results import (
    WITHIN,
    MixedModels,
    SeenResults,
    result_of,
)


def test_models_that_take_turns_in_a_graph_are_reported_once() -> None:
    models = MixedModels()
    assert [models.look_at("g", model) for model in ("a", "a", "b", "b")] == [None] * 4
    turns = [models.look_at("g", model) for model in ("a", "b", "a")]
    assert "graph g has results of 2 models by turns, a, b" in str(turns[1])
    assert [turns[0], turns[2]] == [None, None]
    assert models.look_at("h", "a") is None
    assert {models.look_at("g", str(number)) for number in range(100)} == {None}


def test_retraining_promotions_and_rollbacks_are_no_turns() -> None:
    models = MixedModels()
    sent = ["a"] * 5 + ["b"] * 5 + ["a"] * WITHIN + ["c"] * 5 + ["a"] * WITHIN
    sent += [f"{version:03}" for version in range(50) for _ in range(WITHIN)]  # day after day
    assert {models.look_at("g", model) for model in sent} == {None}
    *_, warning = (models.look_at("g", model) for model in ("old", "049", "old"))
    assert "results of 2 models by turns, 049, old: two" in str(warning)


def identity(graph: bytes, snapshot: bytes, model: bytes = b"m", revision: bytes = b"") -> Any:
    """The result that a record with these headers holds."""
    named = {"snapshot_id": snapshot, "model": model, "revision": revision}
    headers = tuple((f"icd_{name}", text) for name, text in named.items())
    return result_of(Record("found", 0, 0, 0, graph, b"", headers))


def test_long_names_are_told_apart_take_few_bytes_and_are_forgotten_by_graph() -> None:
    def named(number: int) -> Any:
        return identity(*[f"{number:08}".encode() * 128] * 4)

    tracemalloc.start()
    try:
        seen = SeenResults()
        for number in range(1000):
            assert seen.is_new(named(number))
        assert tracemalloc.get_traced_memory()[0] < 1000 * 1050  # 105 MB for all
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
    # Else each record that starts a graph anew would take as long as all that is remembered.
    began = time.process_time()
    for number in range(2000, 20_000):
        seen.forget(b"%d" % number)
    assert time.process_time() - began < 1
    assert named(0) in seen


def test_the_results_seen_first_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_icd.streaming.subscribers.seen_results._REMEMBERED", 3)
    seen = SeenResults()
    results = [identity(b"g", b"%d" % number, revision=b"%d" % number) for number in range(3)]
    corrected = results[0]._replace(revision=b"corrected")
    assert all(seen.is_new(result) for result in (*results, corrected))
    assert [result in seen for result in (*results, corrected)] == [True, False, True, True]
    assert seen.is_new(results[1])
    assert [result in seen for result in (*results, corrected)] == [True, True, False, True]
