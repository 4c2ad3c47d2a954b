"""Each method with each horizon: what a detector promises holds for all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from threading import Event
from typing import get_args

import numpy as np
import pytest

from stream_icd.core.communities import Communities
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection, read_message, windows
from stream_icd.history.replay.redetect import Redetection, archived_job
from stream_icd.history.replay.replay import HistoryResults, make_plan, replay
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.model import Method
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import InProcess
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.streaming.workers.remembered import Found, Worker, records, said, states, uninterrupted
from tests.testbed.brokers import Broker
from tests.testbed.drifting import remembering_model, stream

GRAPH = "g"
LATE = "g/late"
MODEL = remembering_model()


Case = tuple[Method, Horizon]
"""A method, and how far back it looks."""

HORIZONS: tuple[Horizon, ...] = ("auto", "off", 5)
CASES: list[Case] = list(product(get_args(Method), HORIZONS))
EACH = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}")


def changed(window: Snapshot, pairs: np.ndarray, alone: list[int]) -> Snapshot:
    """The window with these edges and isolated nodes instead of its own."""
    src, dst = [*pairs[0], *alone], [*pairs[1], *[None] * len(alone)]
    return snapshot_from_pairs(src, dst, graph=GRAPH, id=window.id, window=window.window)


def awkward() -> list[Snapshot]:
    """A stream with all that a source may do."""
    found = stream(GRAPH, 14)
    some = found[4].edges[:, (found[4].edges < 40).all(axis=0)]
    found[4] = changed(found[4], some, [])  # damaged
    found[6] = changed(found[6], np.array([[1000], [1001]]), list(range(1002, 1010)))  # one edge
    found[7] = changed(found[7], np.array([[2000], [2001]]), [])  # nothing else
    found[8] = replace(found[8], n_communities=3)
    found[9] = replace(changed(found[9], np.array([[3000], [3001]]), []), n_communities=2)
    late = replace(found[2], id=LATE)
    return [*found[:11], late, *found[12:]]  # the 12th is missing


WINDOWS = awkward()


@cache
def expected(case: Case) -> tuple[list[Found], bytes]:
    """What an uninterrupted run finds, and the memory after it."""
    return uninterrupted(WINDOWS, MODEL, method=case[0], horizon=case[1])


def results_of(
    memory: Broker, topic: str, case: Case, size: int = len(WINDOWS)
) -> list[Communities]:
    """Batches of this size; each worker ends after its batch, and first without a commit."""
    create_topics(memory.settings(), [TopicSpec(topic, partitions=3)])
    batch, found = records(WINDOWS), list[Communities]()
    for start in range(0, len(batch), size):
        some = batch[start : start + size]
        Worker(memory, topic, method=case[0], horizon=case[1]).handle(some)
        found += Worker(memory, topic, method=case[0], horizon=case[1]).work(some)
    return found


@EACH
def test_results_of_workers_that_are_killed_are_those_of_an_uninterrupted_run(
    memory: Broker, topic_name: str, case: Case
) -> None:
    found, last = expected(case)
    assert [said(one) for one in results_of(memory, topic_name, case, 4)] == found
    assert states(memory, topic_name)["detect", GRAPH].value == last


@EACH
def test_each_result_says_what_is_true_of_it(memory: Broker, topic_name: str, case: Case) -> None:
    results = {one.snapshot_id: one for one in results_of(memory, topic_name, case)}
    uses = [result.memory for result in results.values()]
    assert uses[:6] == ["first", *["continued"] * 3, "damaged", "continued"]
    assert uses[11:] == ["late", *["continued"] * 2]
    highest = {"auto": 20, "off": 1, "5": 5}[str(case[1])]
    for result in results.values():
        ids = result.community_ids
        assert ids is not None
        assert len(set(ids.tolist())) == result.n_communities
        assert np.bincount(result.labels).all()
        assert result.horizon is not None
        assert 1 <= result.horizon <= highest
    assert results["g/8"].n_communities == 3
    assert results["g/9"].n_communities == 2
    assert 9 <= results["g/6"].n_communities <= 10
    assert 1 <= results["g/7"].n_communities <= 2
    assert results["g/0"].predicted_bits is None
    assert results["g/3"].predicted_bits is not None
    before, after = (results[f"g/{at}"].ids_of_nodes for at in (3, 5))
    assert before is not None
    assert after is not None
    assert (before == after).mean() > 0.5


@EACH
def test_a_replay_gives_the_same_results(case: Case, tmp_path: Path) -> None:
    store, out = (open_store(str(tmp_path / name)) for name in ("history", "again"))
    for snapshot in [one for one in WINDOWS if one.id != LATE]:
        Archive(store).add("snapshots", encode_snapshot(snapshot))
    settings = DetectSettings(memory="auto", method=case[0], horizon=case[1], threads=1)
    redetection, results = Redetection(MODEL, settings), HistoryResults(out)
    jobs = [archived_job(store.uri, window) for window in windows(store, Selection())]
    plan = make_plan(jobs, results, redetection)
    replay(jobs, plan, InProcess(redetection), results, Tempo(), lambda: 0.0, Event())
    messages = [read_message(out, window) for window in windows(out, Selection("communities"))]
    found = [said(decode_communities(one.key, one.value, one.headers)) for one in messages]
    assert found == [one for one in expected(case)[0] if one[0] != LATE]
    kept = results.kept(redetection.version)
    assert {one[2] for one in kept} == {redetection.revision(job) for job in jobs}
