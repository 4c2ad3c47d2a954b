"""A detector with memory: whatever happens to it, results are those of an uninterrupted run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import structlog

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadMemory, BadSettings, LimitExceeded
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive
from stream_icd.history.archiver import Archiver
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimSettings
from stream_icd.kafka.messages.records import Outcome, Processed, Refused
from stream_icd.kafka.messages.records import outgoing as of_message
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, MEMORY, SNAPSHOTS, create_topics
from stream_icd.methods.memory.encoding import (
    FORMAT,
    decode_memory,
    enclosed,
    encode_memory,
    next_id_of,
)
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import FAR_IDS, Memory
from stream_icd.methods.model import Method
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.snapshots import encode_snapshot
from stream_icd.wire.states import MemoryState, encode_state
from tests.streaming.workers.remembered import (
    Found,
    Worker,
    records,
    results_in,
    said,
    states,
    uninterrupted,
)
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import START, outgoing, remembering_model, stream
from tests.testbed.starting import kill_and_restart
from tests.testbed.streams import as_claim, as_read, held, publish

MODEL = remembering_model()
KEY = b'["detect", "g"]'
DAY = Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


class Topic:
    """A memory topic of one test's own, and detectors that keep their states in it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.name = broker, name
        create_topics(broker.settings(), [TopicSpec(name, partitions=3)])

    def worker(self, **options: Any) -> Worker:
        return Worker(self.broker, self.name, **options)

    def work(self, windows: list[Snapshot], first: int = 0) -> list[Communities]:
        """Detect windows with a new worker, and commit."""
        return self.worker().work(records(windows, first=first))

    @property
    def state(self) -> MemoryState:
        return states(self.broker, self.name)["detect", "g"]

    def put(self, *states: MemoryState | OutgoingRecord) -> None:
        """Publish states as if a detector had."""
        sent = (self.record_of(s) if isinstance(s, MemoryState) else s for s in states)
        publish(self.broker, sent)

    def record_of(self, state: MemoryState) -> OutgoingRecord:
        return of_message(self.name, encode_state(state))

    def memories(self, cache_bytes: int = 1 << 20) -> Memories:
        """Those of a detector that has got its partitions."""
        settings = MemorySettings(cache_bytes=cache_bytes)
        memories = Memories(self.broker.settings(), "detect", self.name, settings)
        memories.assigned({0, 1, 2, 5})
        return memories


@pytest.fixture
def topic(memory: Broker, topic_name: str) -> Topic:
    return Topic(memory, topic_name)


def alone(windows: list[Snapshot]) -> list[Found]:
    """What an uninterrupted run finds."""
    return uninterrupted(windows, MODEL)[0]


def all_said(results: list[Communities]) -> list[Found]:
    return [said(result) for result in results]


def uses(results: list[Communities]) -> list[str | None]:
    return [result.memory for result in results]


def ids_of(*results: Communities) -> set[int]:
    found = [result.community_ids for result in results if result.community_ids is not None]
    return set(np.concatenate(found).tolist())


def test_each_window_has_the_memory_of_the_one_before_unless_it_is_off(topic: Topic) -> None:
    windows = stream("g", 6)
    expected, last = uninterrupted(windows, MODEL)
    results = topic.work(windows)
    assert all_said(results) == expected
    assert uses(results) == ["first", *["continued"] * 5]
    state = topic.state
    assert (state.value, state.snapshot_id, state.snapshot_place) == (last, "g/5", "0@5")
    assert (state.model, state.revision) == (results[-1].model, results[-1].revision)
    plain = Runner(Detector(lambda: MODEL, DetectSettings(threads=1)))
    off = results_in(plain.handle(records(windows)))
    assert {result.revision for result in results}.isdisjoint(result.revision for result in off)
    assert all(result.community_ids is None and result.memory is None for result in off)
    assert results[0].labels.tolist() == off[0].labels.tolist()
    assert results[3].labels.tolist() != off[3].labels.tolist()


def test_other_ids_than_before_are_reported(topic: Topic) -> None:
    windows = stream("g", 4)
    for at in (2, 3):
        text = pc.utf8_lpad(windows[at].nodes.cast(pa.string()), 4, "0")
        windows[at] = replace(windows[at], nodes=text)
    with structlog.testing.capture_logs() as logs:
        topic.work(windows)
    (warning,) = [log for log in logs if "the ids of the nodes" in log["event"]]
    assert "were integers, and are text now" in warning["event"]
    assert (warning["graph"], warning["snapshot"]) == ("g", "g/2")


def test_batches_that_fail_before_or_after_they_are_published_leave_no_trace(topic: Topic) -> None:
    windows, worker = stream("g", 8), topic.worker()
    batch = records(windows)
    results = worker.work(batch[:2])
    worker.handle(batch[2:4])
    worker.handle(batch[4:6])  # begun before the one before was published
    worker.new = {0}
    results += worker.work(batch[2:4])
    results += topic.worker().work(batch[4:5])  # the partition moves to another detector, and back
    worker.new = {0}
    results += worker.work(batch[5:6])
    topic.work(windows[6:], first=6)  # published; the position stays at 6
    results += topic.work(windows[6:], first=6)
    assert all_said(results) == alone(windows)
    # A second group has a memory of its own.
    assert all_said(topic.worker(group="second").work(batch)) == alone(windows)
    assert {group for group, _ in states(topic.broker, topic.name)} == {"detect", "second"}


def test_graphs_above_the_limit_are_read_again(topic: Topic) -> None:
    windows = {graph: stream(graph, 5) for graph in "abcd"}
    expected = {graph: uninterrupted(one, MODEL) for graph, one in windows.items()}
    largest = max(len(last) for _, last in expected.values())
    worker = topic.worker(cache_bytes=largest)
    in_turns = [one for hour in zip(*windows.values(), strict=True) for one in hour]
    results: list[Communities] = []
    for at, record in enumerate(records(in_turns)):
        if at == 16:
            worker = topic.worker(cache_bytes=largest)
        results += worker.work([record])
        assert worker.memories.n_bytes < 3 * largest  # the last two batches are kept
    for graph, (found, _) in expected.items():
        assert [said(one) for one in results if one.graph == graph] == found


def test_late_windows_and_repetitions_change_no_memory(topic: Topic) -> None:
    windows = stream("g", 6)
    far = Window(START + timedelta(days=365_000), START + timedelta(days=365_001))
    late = [
        windows[1],
        windows[3],
        replace(windows[2], edges=windows[2].edges[:, 1:]),
        replace(windows[3], id="g/far", window=far),
    ]
    results = topic.work([*windows[:4], *late, *windows[4:]])
    assert uses(results[4:8]) == ["late"] * 4
    expected, last = uninterrupted(windows, MODEL)
    assert all_said(results[:4] + results[8:]) == expected
    assert topic.state.value == last
    # A repetition has the identity of the first result, so readers drop it. A correction has not.
    assert results[4].identity() == results[1].identity()
    assert results[6].identity() != results[2].identity()


def test_a_graph_that_is_spread_over_partitions_is_detected_without_memory(topic: Topic) -> None:
    message = encode_snapshot(stream("g", 1)[0], unordered=True)
    record = Record("snapshots", 1, 0, 0, message.key, message.value, message.headers)
    (result,) = topic.worker().work([record])
    assert (result.memory, result.community_ids) == (None, None)
    assert states(topic.broker, topic.name) == {}


def state_at(place: str, graph: str = "g", next_id: int = 7) -> MemoryState:
    """A state of the snapshot at a place; its memory says only which ids are used."""
    value = encode_memory(Memory.forgotten(next_id))
    return MemoryState("detect", graph, "g/0", DAY, "m@1", "r", place, value)


def odd_state(topic: Topic, key: bytes, value: bytes, **headers: bytes) -> OutgoingRecord:
    headers = dict(topic.record_of(state_at("0@0")).headers) | headers
    return OutgoingRecord(topic.name, value, key, tuple(headers.items()))


def test_a_state_of_nobody_is_reported_and_ignored(topic: Topic) -> None:
    topic.put(odd_state(topic, b"no JSON", b"x"))
    windows = stream("g", 2)
    with structlog.testing.capture_logs() as logs:
        results = topic.work(windows, first=5)
    assert all_said(results) == alone(windows)
    (warning,) = [log for log in logs if log["event"] == "memory cannot be read"]
    assert "is not JSON of group and graph" in warning["reason"]


@pytest.mark.parametrize("next_id", [b"41", None])
@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        (b"no Arrow", {}, "does not say which community ids are used"),
        (b"x", {"ce_type": b"other"}, "header ce_type is"),
        (b"", {}, "has no value"),
        (b"", {"icd_claim_uri": b"file:///etc/passwd"}, "claim"),
    ],
)
def test_a_graph_whose_state_is_lost_starts_anew_and_no_id_is_used_again(
    topic: Topic, value: bytes, headers: dict[str, bytes], reason: str, next_id: bytes | None
) -> None:
    used = {} if next_id is None else {"icd_next_id": next_id}
    topic.put(odd_state(topic, KEY, value, **headers, **used))
    windows = stream("g", 2)
    with structlog.testing.capture_logs() as logs:
        results = topic.work(windows, first=5)
    assert uses(results) == ["anew", "continued"]
    assert [said(result)[1] for result in results] == [one[1] for one in alone(windows)]
    assert min(ids_of(results[0])) >= (FAR_IDS if next_id is None else 41)
    (warning,) = [log for log in logs if log["event"] == "memory cannot be read"]
    assert re.search(reason, warning["reason"])


def damaged(value: bytes) -> bytes:
    """The state with one byte of its table changed: only its metadata can be read."""
    at = len(value) - 60
    return value[:at] + bytes([value[at] ^ 255]) + value[at + 1 :]


def far_ahead(value: bytes) -> bytes:
    far = datetime(9999, 1, 1, tzinfo=UTC)
    window = Window(far, far + timedelta(days=1))
    return encode_memory(replace(decode_memory(value), window=window))


def above_the_limits(value: bytes) -> bytes:
    """A state of some kilobytes that is a table of 32 MB."""
    zeros = pa.table({"node": np.zeros(4_000_000, np.int64)})
    return enclosed(zeros, {"format": FORMAT, "next_id": next_id_of(value)})


@pytest.mark.parametrize("changed", [damaged, far_ahead, above_the_limits])
def test_a_hostile_state_says_which_ids_go(topic: Topic, changed: Callable[[bytes], bytes]) -> None:
    windows = stream("g", 4)
    before, state = topic.work(windows[:2]), topic.state
    topic.put(replace(state, value=changed(state.value), next_id=None))
    with structlog.testing.capture_logs() as logs:
        results = topic.work(windows[2:], first=2)
    assert uses(results) == ["anew", "continued"]
    assert ids_of(*before).isdisjoint(ids_of(results[0]))
    assert max(ids_of(results[0])) < 1000
    assert [log["event"] for log in logs].count("memory cannot be used") == 1


def test_a_graph_starts_anew_after_a_state_without_a_value(topic: Topic) -> None:
    windows = stream("g", 4)
    topic.work(windows[2:])
    topic.put(OutgoingRecord(topic.name, None, KEY))
    assert all_said(topic.work(windows[:2], first=2)) == alone(windows[:2])


def test_an_operator_makes_a_graph_start_anew_and_no_id_is_used_again(topic: Topic) -> None:
    windows = stream("g", 4)
    before = topic.work(windows[2:])
    topic.memories().forget("g")
    results = topic.work(windows[:2], first=2)
    assert uses(results) == ["anew", "continued"]
    assert [said(result)[1] for result in results] == [one[1] for one in alone(windows[:2])]
    assert ids_of(*before).isdisjoint(ids_of(results[0]))
    with pytest.raises(BadSettings, match="nothing of graph other; it remembers g"):
        topic.memories().forget("other")
    lost = odd_state(topic, KEY, b"no Arrow", icd_next_id=b"41", icd_snapshot_place=b"0@4")
    topic.put(lost)
    topic.memories().forget("g")
    (result,) = topic.work(windows[:1], first=5)
    assert (result.memory, min(ids_of(result))) == ("anew", 41)


def test_no_id_is_used_again_if_a_group_is_moved_back(topic: Topic) -> None:
    windows, compacted = stream("g", 5), Topic(topic.broker, f"{topic.name}.compacted")
    before = topic.work(windows, first=7)
    compacted.put(topic.state)
    results = compacted.work(windows[2:], first=9)
    assert uses(results) == ["anew", "continued", "continued"]
    assert ids_of(*before).isdisjoint(ids_of(results[0]))
    # After a crash before the first commit, and in a topic that is read from its beginning.
    for where, first in ((topic, 7), (compacted, 0)):
        assert all_said(where.work(windows, first=first)) == all_said(before)


def record(graph: str, partition: int = 0, offset: int = 0) -> Record:
    return Record("snapshots", partition, offset, 0, graph.encode(), b"", ())


def test_bytes_are_those_of_what_is_kept() -> None:
    memories = Memories(KafkaSettings(), "g", settings=MemorySettings(cache_bytes=30))
    sizes = []
    for number, (graph, size) in enumerate([("a", 10), ("b", 20), ("a", 15), ("c", 5), ("d", 5)]):
        memories.begin([record(graph)])
        memories.put(graph, partition=number % 2, value=b"x" * size)
        sizes.append(memories.n_bytes)
    # b is unused for longest when 35 bytes are too many
    assert sizes == [10, 30, 35, 20, 25]
    assert memories.get("b") is None
    memories.assigned([1])
    assert (memories.n_bytes, memories.get("c")) == (20, None)


def next_ids(memories: Memories, graphs: str) -> list[int | None]:
    """The next id of each graph that the memories say; None: nothing is known of it."""
    encoded = map(memories.get, graphs)
    return [None if value is None else next_id_of(value) for value in encoded]


def test_the_last_state_counts_though_its_graph_changed_partition(topic: Topic) -> None:
    # The first detectors did not write the place. Partitions are added after the fourth state.
    for places, last in ((("",), 1), (("0@7", "0@8", "0@7"), 2), (("5@1", "5@2"), 2)):
        topic.put(*(state_at(place, next_id=at) for at, place in enumerate(places, 1)))
        memories = topic.memories()
        memories.begin([record("g", 0, 9), record("other", 5, 9)])
        assert next_ids(memories, "g") == [last]


def test_claims_have_sizes(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_ICD_CLAIMS_URI", str(tmp_path))
    states = [topic.record_of(state_at("0@1", graph)) for graph in "abc"]
    topic.put(*(as_claim(state, ClaimSettings(uri=str(tmp_path))) for state in states))
    size = len(states[0].value or b"")
    memories = topic.memories(cache_bytes=int(2.5 * size))
    memories.begin([record("other", offset=2)])
    assert (memories.n_restored, memories.n_bytes) == (2, 2 * size)
    memories.begin([record("a", offset=3)])  # the one that was left out is read when it is needed
    assert next_ids(memories, "a") == [7]


def test_the_topic_is_read_once_for_all_partitions(topic: Topic) -> None:
    places = {"a": "0@3", "b": "1@5", "c": "2@1"}
    topic.put(*(state_at(place, graph, ord(graph)) for graph, place in places.items()))
    memories = topic.memories()
    with structlog.testing.capture_logs() as logs:
        for graph, partition, offset in (("a", 0, 4), ("b", 1, 6), ("c", 2, 2), ("a", 0, 5)):
            memories.begin([record(graph, partition, offset)])
    assert [log["event"] for log in logs] == ["memory restored"]
    assert next_ids(memories, "abc") == list(map(ord, "abc"))


@pytest.mark.parametrize(("places", "next_id"), [(["1@5", "1@8"], 5), (["1@8"], 8)])
def test_a_state_that_is_too_new_is_not_used(topic: Topic, places: list[str], next_id: int) -> None:
    topic.put(state_at("0@3", "a", 3))
    topic.put(*(replace(state_at(place, "b", int(place[2])), next_id=8) for place in places))
    memories = topic.memories()
    memories.begin([record("a", 0, 4)])
    newer = encode_memory(Memory.forgotten(9))  # than what is in the topic
    memories.put("a", 0, newer)
    memories.begin([record("a", 0, 5), record("b", 1, 8)])  # 8 was not committed
    assert next_ids(memories, "ab") == [9, next_id]


# An archive keeps states that detectors wrote, and no state that anybody else wrote stops it.


def sent_to_archive(*states: MemoryState) -> list[Record]:
    return as_read(of_message(MEMORY, encode_state(state)) for state in states)


def archived(store: Store, value: bytes) -> Outcome:
    (record,) = sent_to_archive(replace(state_at("0@0"), value=value))
    return Archiver(Archive(store), "memory").process(record)


def test_states_are_archived_of_one_graph_if_it_is_given(disk: Store) -> None:
    sent = sent_to_archive(state_at("0@0", "other"), state_at("0@1"), state_at("0@2"))
    sent[2] = replace(sent[2], key=b"no key")
    runner = Runner(Archiver(Archive(disk), "memory"), graph="g")
    assert list(runner.handle(sent)) == []
    assert disk.folders("memory") == ["graph=g"]
    metrics = Metrics(300, 10)
    metrics.watch(MEMORY, "archive", "g").done(BatchDone(tuple(sent), (), 0.0))
    of_group, value_of = {"group": "archive", "topic": MEMORY}, metrics.registry.get_sample_value
    assert value_of("stream_icd_snapshots_total", of_group | {"graph": "g"}) == 1
    assert value_of("stream_icd_skipped_total", of_group) == 2


def test_what_no_detector_wrote_is_a_dead_letter(disk: Store) -> None:
    other_columns = pa.table({"node": [1], "snapshot_id": ["g/0"]})
    for value in (b"no Arrow", enclosed(other_columns, {"format": FORMAT})):
        outcome = archived(disk, value)
        assert isinstance(outcome, Refused)
        assert isinstance(outcome.error, BadMemory)
    assert not disk.folders("memory")


def test_a_state_that_is_a_large_table_is_never_decompressed(disk: Store) -> None:
    bomb, allocated = above_the_limits(state_at("0@0").value), pa.total_allocated_bytes()
    outcome = archived(disk, bomb)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, LimitExceeded)
    assert pa.total_allocated_bytes() <= allocated + 1_000_000


def test_a_state_of_another_version_is_left_out(disk: Store) -> None:
    for format_ in (FORMAT - 1, FORMAT + 1):
        outcome = archived(disk, enclosed(pa.table({"node": [1]}), {"format": format_}))
        assert outcome == Processed("not archived: of another version", {"kind": "memory"})


HOW: dict[str, tuple[Method, Horizon]] = {"kafka": ("bp", "auto"), "embedded": ("icd", 3)}
"""Method and horizon on each broker; test_memory_promises.py has all of them, in process."""


def test_kill_9_of_a_detector(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    graph, windows, model = topic_name, stream(topic_name, 24), tmp_path / "model"
    create_topics(broker.settings())
    save_model(MODEL.model, model)
    results = subscribe(graph, start="beginning", limit=24, settings=broker.settings())
    method, horizon = how = HOW[broker.name]
    options = ["--model", str(model), "--batch", "3", "--processes", "2"]
    options += ["--method", method, "--horizon", str(horizon)]
    found: list[Communities] = []

    def states_of_graph() -> list[Record]:
        return [
            one for one in held(broker, MEMORY) if one.key == json.dumps([graph, graph]).encode()
        ]

    def ended() -> None:
        found.extend(results)
        # Without transactions, a state may come after its result.
        last = windows[-1].id.encode()
        wait_until(lambda: dict(states_of_graph()[-1].headers)["icd_snapshot_id"] == last)

    sent = [outgoing(window, SNAPSHOTS) for window in windows]
    began = partial(found.extend, islice(results, 8))
    kill_and_restart(broker, graph, tmp_path, sent, 6, "detect", options, began, ended)
    expected, last = uninterrupted(windows, open_model(str(model)), None, *how)
    assert all_said(found) == expected
    kept = states_of_graph()
    assert kept[-1].value == last
    if broker.name == "kafka":  # results and memory are one transaction: each is there once
        places = [dict(state.headers)["icd_snapshot_place"] for state in kept]
        published = [record for record in held(broker, COMMUNITIES) if record.key == graph.encode()]
        assert places == [dict(record.headers)["icd_snapshot_place"] for record in published]
        assert len(places) == 24
