"""What a detector with memory promises holds for each method, and whatever is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
import structlog

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadMemory, BadSettings, RecordTooLarge
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.records import Outcome
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.model import Method
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Budget
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from tests.streaming.workers.remembered import (
    Worker,
    records,
    said,
    states,
    uninterrupted,
)
from tests.testbed.brokers import Broker
from tests.testbed.drifting import remembering_model, stream

MODEL = remembering_model()


def changed(window: Snapshot, *pairs: tuple[int, int | None]) -> Snapshot:
    """The window with these edges instead of its own; a node that is paired with None has none."""
    named = {"graph": "g", "id": window.id, "window": window.window}
    return snapshot_from_pairs(*zip(*pairs, strict=True), **named)


def awkward() -> list[Snapshot]:
    """A stream with all that a source may do."""
    found = stream("g", 14)
    some = found[4].edges[:, (found[4].edges < 40).all(axis=0)]
    found[4] = changed(found[4], *some.T.tolist())  # damaged
    found[6] = changed(found[6], (1000, 1001), *((node, None) for node in range(1002, 1010)))
    found[7] = changed(found[7], (2000, 2001))  # nothing else
    found[8] = replace(found[8], n_communities=3)
    found[9] = replace(changed(found[9], (3000, 3001)), n_communities=2)
    late = replace(found[2], id="g/late")
    return [*found[:11], late, *found[12:]]  # the 12th is missing


WINDOWS = awkward()


@pytest.mark.parametrize("horizon", ["auto", "off", 5])
@pytest.mark.parametrize("method", get_args(Method))
def test_killed_workers_find_the_same(
    memory: Broker, topic_name: str, method: Method, horizon: Horizon
) -> None:
    """Each worker ends after a batch of four, and first without a commit."""
    create_topics(memory.settings(), [TopicSpec(topic_name, partitions=3)])
    batch, found = records(WINDOWS), list[Communities]()
    for start in range(0, len(batch), 4):
        some = batch[start : start + 4]
        Worker(memory, topic_name, method=method, horizon=horizon).handle(some)
        found += Worker(memory, topic_name, method=method, horizon=horizon).work(some)
    expected, last = uninterrupted(WINDOWS, MODEL, method=method, horizon=horizon)
    assert [said(result) for result in found] == expected
    assert states(memory, topic_name)["detect", "g"].value == last
    uses = [result.memory for result in found]
    assert uses[:6] == ["first", *["continued"] * 3, "damaged", "continued"]
    assert uses[11:] == ["late", *["continued"] * 2]
    highest = {"auto": 20, "off": 1, "5": 5}[str(horizon)]
    assert all(1 <= (result.horizon or 0) <= highest for result in found)
    assert [found[at].predicted_bits is None for at in (0, 3)] == [True, False]
    assert [found[at].n_communities for at in (8, 9)] == [3, 2]


OpenEngine = Callable[[str, str], AbstractContextManager[Engine[Record, Outcome]]]
"""Opens an engine for a topic of results and one of memory."""


class Fragile(RecordDetection):
    """Fails with what is remembered if the snapshot's id says so."""

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        fails = dict(record.headers)["ce_id"].endswith(b"fails")
        if fails and relay is not None and (state := relay.memory) and decode_memory(state).n_nodes:
            self.fail()
        return super().__call__(record, relay)

    def fail(self) -> None:
        raise BadMemory("it fails")


class Endless(Fragile):
    """The same, by working without end."""

    def fail(self) -> None:
        while True:
            pass


@pytest.fixture(params=["in this process", "in processes"])
def open_engine(request: pytest.FixtureRequest, tmp_path: Path) -> OpenEngine:
    place = str(tmp_path / "model")
    save_model(remembering_model().model, tmp_path / "model")
    model, budget = open_model(place), Budget(seconds=1.5, seconds_per_mb=0)

    @contextmanager
    def opened(results: str, states: str) -> Iterator[Engine[Record, Outcome]]:
        where = {"topic": results, "memory_topic": states, "group": "detect"}
        settings = DetectSettings(memory="auto", threads=1, budget=budget, **where)
        if request.param == "in this process":
            yield InProcess(Fragile(model, settings))
            return
        with Processes(Endless(model, settings), place, 2, again=False) as engine:
            yield engine

    return opened


@pytest.fixture
def topics(memory: Broker, topic_name: str) -> tuple[str, str]:
    """A topic of results and one of memory."""
    results, states = f"{topic_name}.results", f"{topic_name}.memory"
    limited = (results, 4_000), (states, 30_000)  # windows of `stream` are far below both
    specs = [TopicSpec(name, max_message_bytes=limit) for name, limit in limited]
    create_topics(memory.settings(), [*specs, TopicSpec("snapshots.dlq")])
    return results, states


def with_strangers(snapshot: Snapshot, count: int) -> Snapshot:
    """The window with nodes that were never seen before and have no edges."""
    rng = np.random.default_rng(0)
    ids = np.sort(rng.choice(10**9, count, replace=False) + 10**6)
    nodes = pa.concat_arrays([snapshot.nodes, pa.array(ids, snapshot.nodes.type)])
    return replace(snapshot, nodes=nodes)


def refused_windows(graph: str) -> list[Record]:
    """Windows of a graph, and among them one of each kind that is refused."""
    windows = stream("g", 9)
    sent = [
        windows[0],
        windows[1],
        windows[1],  # broken below
        windows[2],
        replace(windows[3], id="g/fails"),
        windows[4],
        with_strangers(windows[5], 3_000),  # its result is too large
        windows[6],
        with_strangers(windows[7], 8_000),  # its state is too large, too
        windows[8],
        windows[2],  # late
    ]
    found = records([replace(snapshot, graph=graph) for snapshot in sent])
    found[2] = replace(found[2], value=b"no Arrow")
    return found


USES = {"g/0": "first", "g/1": "continued", "g/2": "continued", "g/fails": "anew"}
USES |= dict.fromkeys(("g/4", "g/6", "g/8"), "continued")
"""What memory contributes to each result; those of g/5 and g/7 are dead letters."""


def test_what_is_in_ram_is_what_is_in_the_topic(
    memory: Broker, topics: tuple[str, str], open_engine: OpenEngine
) -> None:
    results, states = topics
    check, restarted, counts = ClaimCheck(memory.settings()), [], []
    with open_engine(results, states) as engine:
        open_worker = partial(
            Worker, memory, states, engine=engine, claim_check=check, results=results
        )
        whole = open_worker()
        with structlog.testing.capture_logs() as logs:
            at_once = whole.work(refused_windows("g"))
        for record in refused_windows("h"):
            worker = open_worker()
            restarted += worker.work([record])
            kept = worker.memories.get("h")
            assert kept == in_topic(open_worker(), "h", record.offset + 1)
            counts.append(decode_memory(kept or b"").n_nodes)
        assert whole.memories.get("g") == in_topic(open_worker(), "g", 99)
    assert {one.snapshot_id: one.memory for one in at_once[:-1]} == USES
    assert at_once[-1].memory == "late"
    assert list(map(said, at_once)) == list(map(said, restarted))
    assert whole.memories.get("g") == worker.memories.get("h")
    reasons = [log["stage"] for log in logs if log["event"] == "dead letter"]
    assert reasons == ["decode", "publish", "publish"]
    assert [log["event"] for log in logs].count("memory cannot be used") == 1
    assert counts[6:9] == [3_120, 1_560, counts[8]]
    assert 0 < counts[8] < 8_000
    # No id is of two communities: after the graph started anew, all are new.
    anew = list(USES).index("g/fails")
    ids = [result.community_ids for result in at_once if result.community_ids is not None]
    assert len(ids) == len(at_once)
    before, after = (set(np.concatenate(some)) for some in (ids[:anew], ids[anew:-1]))
    assert before.isdisjoint(after)


def in_topic(fresh: Worker, graph: str, offset: int) -> bytes | None:
    """The state of the graph that another detector finds before this offset."""
    fresh.memories.assigned({0})
    fresh.memories.begin(records(stream(graph, 1), first=offset))
    return fresh.memories.get(graph)


def test_a_state_that_the_broker_refuses_is_cut(memory: Broker, topic_name: str) -> None:
    """Some brokers do not tell the limit of a topic; they only refuse records."""
    results, states = f"{topic_name}.results", f"{topic_name}.memory"
    create_topics(memory.settings(), [TopicSpec(results), TopicSpec(states)])
    batch = records([with_strangers(snapshot, 5_000) for snapshot in stream("g", 2)])
    check = ClaimCheck(memory.settings())
    worker = Worker(memory, states, claim_check=check, results=results)
    (state,) = [record for record in worker.handle(batch[:1]) if record.topic == states]
    refused = RecordTooLarge("refused", states, state.size_as_sent)
    worker.runner.learn(refused)
    worker.new = {0}
    worker.work(batch)
    kept = worker.memories.get("g") or b""
    assert 0 < decode_memory(kept).n_nodes < 5_000
    assert kept == in_topic(Worker(memory, states), "g", 2)


def test_a_topic_without_any_room(memory: Broker, topic_name: str, open_engine: OpenEngine) -> None:
    """Without the ids in it, new communities of later windows would get the same ones again."""
    results, states = f"{topic_name}.results", f"{topic_name}.memory"
    topics = TopicSpec(results), TopicSpec(states, max_message_bytes=1_000)
    create_topics(memory.settings(), topics)
    check = ClaimCheck(memory.settings())
    with open_engine(results, states) as engine:
        worker = Worker(memory, states, engine=engine, claim_check=check, results=results)
        with pytest.raises(BadSettings, match=f"limit of .*{states}.* max.message.bytes"):
            worker.work(records(stream("g", 3)))


@pytest.mark.parametrize("n_new", [5_000, 100])
def test_memory_is_in_proportion_to_windows(memory: Broker, topic_name: str, n_new: int) -> None:
    """New nodes in each window, then windows without any: states are soon small again."""
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    windows = stream("g", 20)
    for at in range(8):
        ids = pa.array(range(10**6 * (at + 1), 10**6 * (at + 1) + n_new))
        windows[at] = replace(windows[at], nodes=pa.concat_arrays([windows[at].nodes, ids]))
    worker, sizes, counts = Worker(memory, topic_name), [], []
    for record in records(windows):
        worker.work([record])
        state = worker.memories.get("g") or b""
        sizes.append(len(state))
        counts.append(decode_memory(state).n_nodes)
    assert max(counts) <= max(4 * (n_new + 120), 1_000)
    assert sum(sizes[8:]) <= 1.2 * sizes[7] + 12 * 4 * sizes[-1]
    assert counts[-1] <= 1_000
