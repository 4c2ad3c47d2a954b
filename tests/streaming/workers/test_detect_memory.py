"""A detector with memory: whatever happens to it, results are those of an uninterrupted run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import structlog

from stream_icd.core import snapshot as core_snapshot
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Window
from stream_icd.kafka.messages.claims import ClaimSettings, as_claim
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.posterior import uninformed
from stream_icd.methods.memory.encoding import METADATA, decode_memory, encode_memory
from stream_icd.methods.memory.horizon import FILTER
from stream_icd.methods.memory.memory import FAR_IDS, Hypothesis, no_edges
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories, MemoryTopic
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.snapshots import encode_snapshot
from stream_icd.wire.states import MemoryState, encode_state, state_key
from tests.streaming.workers.remembered import Worker, records, said, states, uninterrupted
from tests.testbed.brokers import Broker
from tests.testbed.drifting import START, remembering_model, stream
from tests.testbed.streams import publish

MODEL = remembering_model()


@pytest.fixture
def topic(memory: Broker, topic_name: str) -> str:
    """A memory topic of this test's own."""
    create_topics(memory.settings(), [TopicSpec(topic_name, partitions=3)])
    return topic_name


def in_batches(batch: list[Record], size: int) -> Iterator[list[Record]]:
    for start in range(0, len(batch), size):
        yield batch[start : start + size]


def test_each_window_is_detected_with_the_memory_of_the_one_before(
    memory: Broker, topic: str
) -> None:
    windows = stream("g", 6)
    expected, last = uninterrupted(windows, MODEL)
    results = Worker(memory, topic).work(records(windows))
    assert [said(result) for result in results] == expected
    assert [result.memory for result in results] == ["first", *["continued"] * 5]
    state = states(memory, topic)["detect", "g"]
    assert (state.value, state.snapshot_id, state.snapshot_place) == (last, "g/5", "0@5")
    assert (state.model, state.revision) == (results[-1].model, results[-1].revision)


def test_memory_makes_other_results_and_off_makes_those_of_before(
    memory: Broker, topic: str
) -> None:
    windows = stream("g", 4)
    on = Worker(memory, topic).work(records(windows))
    plain = Runner(Detector(lambda: MODEL, DetectSettings(threads=1)))
    off = [decode_communities(m.key, m.value, m.headers) for m in plain.handle(records(windows))]
    assert {communities.revision for communities in on}.isdisjoint(
        communities.revision for communities in off
    )
    assert all(
        communities.community_ids is None and communities.memory is None for communities in off
    )
    assert on[0].labels.tolist() == off[0].labels.tolist()
    assert on[3].labels.tolist() != off[3].labels.tolist()


def test_other_ids_than_before_are_reported(memory: Broker, topic: str) -> None:
    windows = stream("g", 4)
    texts = [
        replace(one, nodes=pc.utf8_lpad(one.nodes.cast(pa.string()), 4, "0")) for one in windows
    ]
    with structlog.testing.capture_logs() as logs:
        Worker(memory, topic).work(records([*windows[:2], *texts[2:]]))
    (warning,) = [log for log in logs if "the ids of the nodes" in log["event"]]
    assert "were integers, and are text now" in warning["event"]
    assert (warning["graph"], warning["snapshot"]) == ("g", "g/2")


def test_models_without_stay_remember_nothing(memory: Broker, topic: str) -> None:
    model = remembering_model(BpParameters(resolution=3.0, mixing=0.3, stay=0.0))
    settings = DetectSettings(memory="auto", memory_topic=topic, threads=1)
    memories = Memories(MemoryTopic(memory.settings(), "detect", topic))
    runner = Runner(Detector(lambda: model, settings, memories=memories))
    plain = Runner(Detector(lambda: model, DetectSettings(threads=1)))
    batch = records(stream("g", 2))
    one, other = list(runner.handle(batch)), list(plain.handle(batch))
    assert [record.value for record in one] == [record.value for record in other]
    assert [dict(r.headers)["icd_revision"] for r in one] == [
        dict(r.headers)["icd_revision"] for r in other
    ]


def test_a_batch_that_was_not_committed_leaves_no_trace(memory: Broker, topic: str) -> None:
    windows = stream("g", 6)
    batch = records(windows)
    worker = Worker(memory, topic)
    results = worker.work(batch[:2])
    worker.handle(batch[2:4])
    worker.handle(batch[4:])  # begun before the one before was published
    worker.new = {0}
    results += worker.work(batch[2:4]) + worker.work(batch[4:])
    assert [said(result) for result in results] == uninterrupted(windows, MODEL)[0]


def test_a_crash_after_publishing_repeats_the_same_results(memory: Broker, topic: str) -> None:
    """At least once: the states of the batch are in the topic, but its position is not."""
    windows = stream("g", 6)
    batch = records(windows)
    Worker(memory, topic).work(batch[:2])
    Worker(memory, topic).work(batch[2:5])  # published; the position stays at 2
    results = Worker(memory, topic).work(batch[2:])
    assert [said(result) for result in results] == uninterrupted(windows, MODEL)[0][2:]


def test_a_second_group_has_a_memory_of_its_own(memory: Broker, topic: str) -> None:
    windows = stream("g", 5)
    batch = records(windows)
    Worker(memory, topic).work(batch)
    results = Worker(memory, topic, group="second").work(batch)
    assert [said(result) for result in results] == uninterrupted(windows, MODEL)[0]
    assert {group for group, _ in states(memory, topic)} == {"detect", "second"}


def test_graphs_above_the_limit_are_read_again(memory: Broker, topic: str) -> None:
    windows = {graph: stream(graph, 4) for graph in "abcd"}
    expected = {graph: uninterrupted(one, MODEL) for graph, one in windows.items()}
    largest = max(len(last) for _, last in expected.values())
    worker = Worker(memory, topic, cache_bytes=largest)
    results: list[Communities] = []
    offset = 0
    for number in range(4):
        for graph in "abcd":
            (record,) = records([windows[graph][number]], first=offset)
            results += worker.work([record])
            offset += 1
            assert worker.memories.n_bytes < 3 * largest  # the last two batches are kept
    for graph, (found, _) in expected.items():
        assert [said(one) for one in results if one.graph == graph] == found
    restarted = Worker(memory, topic, cache_bytes=largest)
    again = stream("a", 5)[4]
    (result,) = restarted.work(records([again], first=offset))
    found, last = uninterrupted(stream("a", 5), MODEL)
    assert said(result) == found[4]
    assert restarted.memories.n_bytes < 2 * max(largest, len(last))


def test_late_windows_and_repetitions_change_no_memory(memory: Broker, topic: str) -> None:
    windows = stream("g", 6)
    late = [windows[1], windows[3], replace(windows[2], edges=windows[2].edges[:, 1:])]
    sent = [*windows[:4], *late, *windows[4:]]
    results = Worker(memory, topic).work(records(sent))
    assert [result.memory for result in results[4:7]] == ["late"] * 3
    expected, last = uninterrupted(windows, MODEL)
    kept = [said(result) for result in results]
    assert kept[:4] + kept[7:] == expected
    assert states(memory, topic)["detect", "g"].value == last
    # A repetition has the identity of the first result, so readers drop it. A correction has not.
    assert results[4].identity() == results[1].identity()
    assert results[6].identity() != results[2].identity()


def test_a_window_in_the_far_future_is_not_remembered(memory: Broker, topic: str) -> None:
    windows = stream("g", 4)
    far = Window(START + timedelta(days=365_000), START + timedelta(days=365_001))
    results = Worker(memory, topic).work(
        records([*windows[:2], replace(windows[3], id="g/far", window=far), *windows[2:]])
    )
    assert results[2].memory == "late"
    kept = [said(result) for result in results]
    assert kept[:2] + kept[3:] == uninterrupted(windows, MODEL)[0]


def test_another_model_goes_on_with_the_memory(memory: Broker, topic: str) -> None:
    windows = stream("g", 6)
    batch = records(windows)
    worker = Worker(memory, topic)
    results = worker.work(batch[:3])
    worker.model = remembering_model(BpParameters(resolution=2.0, mixing=0.4), "test@1")
    results += worker.work(batch[3:])
    assert [result.memory for result in results[1:]] == ["continued"] * 5
    assert {result.model for result in results[3:]} == {"test@1"}
    before, after = results[2].community_ids, results[3].community_ids
    assert before is not None
    assert after is not None
    assert set(before) & set(after)


def test_k_given_gives_exactly_k(memory: Broker, topic: str) -> None:
    windows = [
        replace(snapshot, n_communities=k)
        for snapshot, k in zip(stream("g", 3), (6, 4, 9), strict=True)
    ]
    results = Worker(memory, topic).work(records(windows))
    assert [result.n_communities for result in results] == [6, 4, 9]
    assert [said(result) for result in results] == uninterrupted(windows, MODEL)[0]


def test_a_graph_that_is_spread_over_partitions_is_detected_without_memory(
    memory: Broker, topic: str
) -> None:
    message = encode_snapshot(stream("g", 1)[0], unordered=True)
    record = Record("snapshots", 1, 0, 0, message.key, message.value, message.headers)
    (result,) = Worker(memory, topic).work([record])
    assert (result.memory, result.community_ids) == (None, None)
    assert states(memory, topic) == {}


def test_a_refused_snapshot_does_not_change_the_memory(memory: Broker, topic: str) -> None:
    windows = stream("g", 4)
    good = records(windows)
    bad = replace(good[2], value=b"no Arrow")
    batch = [replace(record, offset=at) for at, record in enumerate([*good[:2], bad, *good[2:]])]
    worker = Worker(memory, topic)
    results = [record for record in worker.handle(batch) if not record.topic.endswith(".dlq")]
    found = worker.commit(batch, results)
    assert [said(communities) for communities in found] == uninterrupted(windows, MODEL)[0]


def as_record(topic: str, key: bytes, value: bytes | None, **headers: bytes) -> OutgoingRecord:
    state = MemoryState(
        "detect", "g", "g/0", Window(START, START + timedelta(minutes=1)), "m@1", "r", "0@0", b"x"
    )
    known = dict(encode_state(state).headers) | headers
    return OutgoingRecord(topic, value, key, tuple(known.items()))


KEY = state_key("detect", "g")


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"no JSON", "is not JSON of group and graph"),
        (b'["detect", "g", 3]', "is not JSON of group and graph"),
        (b'["detect", ""]', "the message has no key"),
    ],
)
def test_a_state_of_nobody_is_reported_and_ignored(
    memory: Broker, topic: str, key: bytes, reason: str
) -> None:
    publish(memory, [as_record(topic, key, b"x")])
    windows = stream("g", 2)
    with structlog.testing.capture_logs() as logs:
        results = Worker(memory, topic).work(records(windows, first=5))
    assert [said(result) for result in results] == uninterrupted(windows, MODEL)[0]
    (warning,) = [log for log in logs if log["event"] == "memory cannot be read"]
    assert re.search(reason, warning["reason"])


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
    memory: Broker,
    topic: str,
    value: bytes,
    headers: dict[str, bytes],
    reason: str,
    next_id: bytes | None,
) -> None:
    if next_id is not None:
        headers = {**headers, "icd_next_id": next_id}
    publish(memory, [as_record(topic, KEY, value, **headers)])
    windows = stream("g", 2)
    with structlog.testing.capture_logs() as logs:
        results = Worker(memory, topic).work(records(windows, first=5))
    assert [result.memory for result in results] == ["anew", "continued"]
    alone, first = uninterrupted(windows, MODEL)[0], (FAR_IDS if next_id is None else 41)
    assert [said(result)[1] for result in results] == [one[1] for one in alone]
    assert min(results[0].community_ids) >= first  # type: ignore[type-var,arg-type]
    (warning,) = [log for log in logs if log["event"] == "memory cannot be read"]
    assert re.search(reason, warning["reason"])


def damaged(value: bytes) -> bytes:
    """The state with one byte of its table changed: only its metadata can be read."""
    at = len(value) - 60
    return value[:at] + bytes([value[at] ^ 255]) + value[at + 1 :]


def test_a_state_with_a_damaged_table_says_which_ids_are_used(memory: Broker, topic: str) -> None:
    windows = stream("g", 4)
    worker = Worker(memory, topic)
    before = worker.commit(records(windows[:2]), worker.handle(records(windows[:2])))
    state = states(memory, topic)["detect", "g"]
    broken = encode_state(replace(state, value=damaged(state.value), next_id=None))
    publish(memory, [OutgoingRecord(topic, broken.value, broken.key, broken.headers)])
    with structlog.testing.capture_logs() as logs:
        results = Worker(memory, topic).work(records(windows[2:], first=2))
    assert [result.memory for result in results] == ["anew", "continued"]
    used = {id for communities in before for id in communities.community_ids}  # type: ignore[union-attr]
    assert used.isdisjoint(results[0].community_ids)  # type: ignore[arg-type]
    assert max(results[0].community_ids) < 1000  # type: ignore[type-var,arg-type]
    assert [log["event"] for log in logs].count("memory cannot be used") == 1


def test_a_state_of_a_window_in_the_far_future_does_not_make_all_windows_late(
    memory: Broker, topic: str
) -> None:
    windows = stream("g", 4)
    Worker(memory, topic).work(records(windows[:2]))
    state = states(memory, topic)["detect", "g"]
    far = datetime(9999, 1, 1, tzinfo=UTC)
    changed = replace(decode_memory(state.value), window=Window(far, far + timedelta(days=1)))
    sent = encode_state(replace(state, value=encode_memory(changed)))
    publish(memory, [OutgoingRecord(topic, sent.value, sent.key, sent.headers)])
    results = Worker(memory, topic).work(records(windows[2:], first=2))
    assert [result.memory for result in results] == ["anew", "continued"]


def with_facts(value: bytes, **facts: object) -> bytes:
    """The state with other metadata."""
    table = pa.ipc.open_stream(value).read_all()
    said = json.loads(table.schema.metadata[METADATA])
    return write_table(table.replace_schema_metadata({METADATA: json.dumps(said | facts)}))


def of_long_names(value: bytes) -> bytes:
    """A state of 30 kB that is a table of 75 MB, as one who checks nothing may write it."""
    names = pa.array([f"{'x' * 50_000}{number:06}" for number in range(1500)])
    nobody = uninformed(len(names))
    filter_ = Hypothesis(FILTER, no_edges(len(names)), nobody.likeliest)
    with pytest.MonkeyPatch.context() as unchecked:
        unchecked.setattr(core_snapshot, "MOST_NODE_BYTES", 1 << 30)
        memory = replace(decode_memory(value), nodes=names, seen=np.ones(len(names), np.bool_),
                         known=nobody, community_ids=np.empty(0, np.int64), leader=0,
                         hypotheses=(filter_,))  # fmt: skip
        return encode_memory(memory)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(partial(with_facts, window_end="2026-01-01T00:01:00"), id="no zone"),
        pytest.param(partial(with_facts, window_end="1999-01-01T00:00:00Z"), id="ends first"),
        pytest.param(partial(with_facts, n_windows=0), id="of no windows"),
        pytest.param(of_long_names, id="above the limits"),
    ],
)
def test_a_hostile_state_makes_no_snapshot_a_dead_letter(
    memory: Broker, topic: str, changed: Callable[[bytes], bytes]
) -> None:
    windows = stream("g", 4)
    Worker(memory, topic).work(records(windows[:2]))
    state = states(memory, topic)["detect", "g"]
    sent = encode_state(replace(state, value=changed(state.value)))
    publish(memory, [OutgoingRecord(topic, sent.value, sent.key, sent.headers)])
    results = Worker(memory, topic).work(records(windows[2:], first=2))
    assert [result.memory for result in results] == ["anew", "continued"]


def test_an_operator_starts_a_graph_anew_whose_state_is_lost(memory: Broker, topic: str) -> None:
    publish(memory, [as_record(topic, KEY, b"no Arrow", icd_next_id=b"41")])
    MemoryTopic(memory.settings(), "detect", topic).forget("g")
    (result,) = Worker(memory, topic).work(records(stream("g", 1), first=5))
    assert result.memory == "anew"
    assert min(result.community_ids) == 41  # type: ignore[type-var,arg-type]


def test_a_state_without_a_place_is_used(memory: Broker, topic: str) -> None:
    windows = stream("g", 3)
    worker = Worker(memory, topic)
    results = worker.handle(records(windows[:2]))
    state = [one for one in results if one.topic == topic][-1]
    headers = tuple(header for header in state.headers if header[0] != "icd_snapshot_place")
    publish(memory, [replace(state, headers=headers)])
    (result,) = Worker(memory, topic).work(records(windows[2:], first=2))
    assert said(result) == uninterrupted(windows, MODEL)[0][2]


def test_a_graph_starts_anew_after_a_state_without_a_value(memory: Broker, topic: str) -> None:
    windows = stream("g", 4)
    Worker(memory, topic).work(records(windows[2:]))
    publish(memory, [OutgoingRecord(topic, None, KEY)])
    results = Worker(memory, topic).work(records(windows[:2], first=2))
    assert [said(result) for result in results] == uninterrupted(windows[:2], MODEL)[0]


def test_an_operator_makes_a_graph_start_anew_and_no_id_is_used_again(
    memory: Broker, topic: str
) -> None:
    windows = stream("g", 4)
    before = Worker(memory, topic).work(records(windows[2:]))
    MemoryTopic(memory.settings(), "detect", topic).forget("g")
    results = Worker(memory, topic).work(records(windows[:2], first=2))
    assert [result.memory for result in results] == ["anew", "continued"]
    alone = uninterrupted(windows[:2], MODEL)[0]
    assert [said(result)[1] for result in results] == [one[1] for one in alone]
    used = {id for communities in before for id in communities.community_ids}  # type: ignore[union-attr]
    assert used.isdisjoint(results[0].community_ids)  # type: ignore[arg-type]
    with pytest.raises(BadSettings, match="nothing of graph other; it remembers g"):
        MemoryTopic(memory.settings(), "detect", topic).forget("other")


def test_states_are_claimed_when_they_are_too_large(
    memory: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = ClaimSettings(uri=tmp_path.as_uri())
    windows = stream("g", 3)
    results = Worker(memory, topic).handle(records(windows[:2]))
    with Publisher(memory.settings()) as publisher:
        for one in results:
            if one.topic == topic:
                publisher.send(as_claim(one, claims))
    monkeypatch.setenv("STREAM_ICD_CLAIMS_URI", tmp_path.as_uri())
    (result,) = Worker(memory, topic).work(records(windows[2:], first=2))
    assert said(result) == uninterrupted(windows, MODEL)[0][2]


def test_no_id_is_used_again_where_a_group_is_moved_back_and_no_earlier_state_is_left(
    memory: Broker, topic: str
) -> None:
    windows, compacted = stream("g", 5), f"{topic}.compacted"
    batch = records(windows, first=7)
    before = Worker(memory, topic).work(batch)
    last = encode_state(states(memory, topic)["detect", "g"])
    create_topics(memory.settings(), [TopicSpec(compacted)])
    publish(memory, [OutgoingRecord(compacted, last.value, last.key, last.headers)])
    results = Worker(memory, compacted).work(batch[2:])
    assert [result.memory for result in results] == ["anew", "continued", "continued"]
    used = {id for communities in before for id in communities.community_ids}  # type: ignore[union-attr]
    assert used.isdisjoint(results[0].community_ids)  # type: ignore[arg-type]
    # After a crash before the first commit, and in a topic that is read from its beginning.
    for where, again in ((topic, batch), (compacted, records(windows))):
        results = Worker(memory, where).work(again)
        assert [said(result) for result in results] == [said(result) for result in before]
