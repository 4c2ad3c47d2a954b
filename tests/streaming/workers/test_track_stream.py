"""What a tracker on a stream promises: order, memory in its topic alone, nothing twice."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from structlog.testing import capture_logs

from stream_icd.core import snapshot
from stream_icd.core.communities import MOST_IDS, Communities
from stream_icd.core.errors import OffsetGone, TopicMissing
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.kafka.connect import connect
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, create_topics
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.packed import PackedWindow
from stream_icd.methods.tracking.track import TrackSettings, track
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.subscribers import events_topic
from stream_icd.streaming.subscribers.events_topic import Forgotten
from stream_icd.streaming.subscribers.seen_results import SeenResults
from stream_icd.streaming.subscribers.subscribe import subscribe_events
from stream_icd.streaming.workers.recent_windows import RecentWindows, Unpacked
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.track import Tracker
from tests.streaming.workers.tracked import Bench, outgoing, same, stream, unbroken, window
from tests.testbed import drifting
from tests.testbed.brokers import Broker
from tests.testbed.starting import kill_and_restart
from tests.testbed.streams import held, publish

FAR = datetime(9999, 12, 31, tzinfo=UTC)
BELIEVES = TrackSettings(ahead=timedelta(days=9999 * 366))


@pytest.fixture
def bench(memory: Broker, topic_name: str, request: pytest.FixtureRequest) -> Bench:
    """A topic of communities and one of events, of one partition each, or as many as given."""
    return Bench.opened(memory, topic_name, getattr(request, "param", 1))


in_partitions = pytest.mark.parametrize("bench", [2], indirect=True)


def tracker(bench: Bench, settings: TrackSettings = TrackSettings(), **options: object) -> Runner:
    return Runner(Tracker(bench.broker.settings(), settings, topic=bench.target, **options))  # type: ignore[arg-type]


def subscribed(bench: Bench, graph: str | None = None, **options: object) -> list[CommunityEvents]:
    where = {"start": "beginning", "settings": bench.broker.settings(), "topic": bench.target}
    return list(subscribe_events(graph, **where, **options))  # type: ignore[arg-type]


@pytest.mark.brokers("kafka")
def test_kill_9_of_a_tracker(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    create_topics(broker.settings())
    hours, received = stream(topic_name, 40), list[CommunityEvents]()
    results = subscribe_events(topic_name, start="beginning", limit=40, settings=broker.settings())
    sent = [outgoing(hour, COMMUNITIES) for hour in hours]
    began = partial(received.extend, islice(results, 10))
    ended = partial(received.extend, results)
    options = ["--batch", "4"]
    kill_and_restart(broker, topic_name, tmp_path, sent, 10, "track", options, began, ended)
    assert same(received, unbroken(hours))
    # Exactly once: no reader has anything to drop.
    assert sum(record.key == topic_name.encode() for record in held(broker, EVENTS)) == 40


def test_a_window_whose_events_were_too_large_can_be_sent_again(bench: Bench) -> None:
    records = bench.sent(stream("g", 3))
    worker = Runner(
        Tracker(bench.broker.settings(), topic=bench.target),
        claim_check=bench.refusing(False, True),
    )
    _, letter = bench.work(worker, records[:2])
    said = dict(letter.headers)
    assert (letter.value, said["icd_dlq_stage"]) == (records[1].value, b"publish")
    assert said["icd_dlq_message"].startswith(b"its result is too large: 5 bytes are above 4")
    bench.work(worker, [replace(records[1], offset=3), replace(records[2], offset=4)])
    assert same(bench.events, unbroken(stream("g", 3)))


def test_what_another_worker_has_just_published_is_waited_for(bench: Bench) -> None:
    """A group's position may be read before all brokers know that the transaction is committed."""
    first, *rest = bench.sent(stream("g", 4))
    settings = bench.broker.settings(transaction_timeout_s=60.0)
    producer = connect(settings).transactional_producer("p")
    producer.begin()
    refusals: list[Exception | None] = []
    for sent in tracker(bench).handle([first]):
        producer.send(sent, refusals.append)
    assert refusals == [None]
    threading.Timer(0.3, producer.commit).start()
    bench.work(tracker(bench), rest)
    assert same(bench.events, unbroken(stream("g", 4)))


def test_records_that_are_not_tracked_do_not_hide_what_another_worker_tracked(bench: Bench) -> None:
    g, other = stream("g", 4), stream("h", 1, seed=4)
    damaged = replace(g[2], memory="damaged", snapshot_id="g/less")
    records = bench.sent([*g[:2], *other, damaged, *g[2:]])
    settings = bench.broker.settings()
    for batches in ([records[:2]], [records[2:3], records[3:4], records[4:]]):
        worker = Runner(Tracker(settings, topic=bench.target, graph="g"), graph="g")
        worker.assigned([0])
        for batch in batches:
            bench.work(worker, batch)
    assert same(bench.events, unbroken(g))


def test_workers_take_turns_and_batches_that_fail_are_told_once(bench: Bench) -> None:
    records, worker = bench.sent(stream("g", 16)), tracker(bench)
    bench.work(worker, records[:3])
    list(worker.handle(records[3:6]))  # it fails
    bench.work(worker, records[3:6])
    publish(bench.broker, worker.handle(records[6:8]))  # and ends before it commits
    first, other = tracker(bench), tracker(bench)
    for start, taking_turns in ((6, first), (9, other), (12, first), (14, other)):
        taking_turns.assigned([0])
        bench.work(taking_turns, records[start : start + 3])
    assert same(bench.events, unbroken(stream("g", 16)))


def test_missing_late_and_repeated_windows_and_another_model(bench: Bench) -> None:
    """Each worker knows from the topic what those before it have tracked, and by which model."""
    hours = stream("g", 9)
    new = [window("g", hour, hours[hour].labels, "m@2") for hour in (2, 6, 7, 8)]
    sent = [*hours[:3], hours[5], hours[4], hours[5], *new, hours[5]]
    records = bench.sent(sent)
    for start in range(0, len(records), 2):
        bench.work(tracker(bench), records[start : start + 2])
    tracked = bench.events
    assert same(tracked, unbroken([*hours[:3], hours[5], hours[4], *new]))
    said = [(events.missed, events.late, events.model_before) for events in tracked[3:]]
    before = [(2, False, None), (0, True, None), (0, True, "m@1"), (0, False, "m@1")]
    assert said == [*before, *[(0, False, None)] * 2]


def test_other_ids_than_before_are_reported(bench: Bench) -> None:
    windows = stream("g", 4)
    for at in (1, 2):
        text = pc.utf8_lpad(windows[at].nodes.cast(pa.string()), 4, "0")
        windows[at] = replace(windows[at], nodes=text)
    with capture_logs() as logs:
        for record in bench.sent(windows):  # a new worker knows it from the topic
            bench.work(tracker(bench), [record])
    said = [log["event"] for log in logs if "the ids of the nodes" in log["event"]]
    assert [" were text" in one for one in said] == [False, True]


def revised(communities: Communities, labels: object, revision: str, place: str) -> Communities:
    """Another revision of a window, of the snapshot at that place."""
    found = np.asarray(labels, np.int32)
    return replace(communities, labels=found, revision=revision, snapshot_place=place)


@in_partitions
@pytest.mark.parametrize("restarts", [(), (4,), (5, 6, 8)], ids=str)
def test_a_correction_replaces_the_last_window(bench: Bench, restarts: tuple[int, ...]) -> None:
    hours = [replace(communities, revision="a") for communities in stream("g", 8)]
    better = revised(hours[3], hours[4].labels, "b", "0@4")
    worse = revised(hours[1], hours[0].labels, "b", "0@9")
    back = replace(hours[6], snapshot_place="0@12")
    wrong = revised(hours[6], hours[0].labels, "b", "0@11")
    sent = [
        *hours[:4], better, hours[3], better,  # a detector that was restarted sends all again
        *hours[4:6], worse, hours[6], wrong, back, hours[7],
    ]  # fmt: skip
    worker = tracker(bench)
    for at, record in enumerate(bench.sent(sent)):
        if at in restarts:
            worker = tracker(bench)
        bench.work(worker, [record])
    tracked = bench.events
    expected = unbroken([*hours[:3], better, *hours[4:6], worse, back, hours[7]])
    replaced = [tracked[at] for at in (3, 8, 9)]
    assert [(events.snapshot_id, events.revision) for events in replaced] == [
        ("g/3", "a"), ("g/6", "a"), ("g/6", "b")]  # fmt: skip
    assert same([each for at, each in enumerate(tracked) if at not in (3, 8, 9)], expected)
    assert [events.late for events in expected] == [False] * 6 + [True] + [False] * 2
    assert same(subscribed(bench, until="end"), expected)


def test_a_corrected_first_window_gets_its_ids_again(bench: Bench) -> None:
    first, second = stream("g", 2)
    better = revised(first, second.labels, "b", "")
    bench.work(tracker(bench), bench.sent([first, better, second]))
    assert same(bench.events[1:], unbroken([better, second]))


def test_windows_outlive_retention(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = stream("g", 3)
    records = bench.sent(hours)
    bench.work(tracker(bench), records[:2])

    @contextmanager
    def gone_at_first(*args: Any, **options: Any) -> Iterator[Iterator[Record]]:
        monkeypatch.undo()
        with open_reader(*args, **options) as found:
            yield two_of(found)

    def two_of(found: Iterator[Record]) -> Iterator[Record]:
        yield from islice(found, 2)
        raise OffsetGone("retention removed the next record")

    monkeypatch.setattr(events_topic, "open_reader", gone_at_first)
    bench.work(tracker(bench), records[2:])
    assert same(bench.events, unbroken(hours))


def test_a_topic_that_was_created_again_is_read_anew(memory: Broker, topic_name: str) -> None:
    settings, hours = memory.settings(), unbroken(stream("g", 2))
    topic = events_topic.EventsTopic(settings, topic_name, None, 3, MessageReader())
    for n_partitions, events in ((2, hours[0]), (1, hours[1])):
        create_topics(settings, [TopicSpec(topic_name, n_partitions)])
        publish(memory, [replace(outgoing(events, topic_name), partition=n_partitions - 1)])
        assert same(list(topic.news(SeenResults())), [events])
        with connect(settings).admin() as admin:
            admin.delete_topic(topic_name)


def test_ids_are_not_given_again_after_retention(bench: Bench) -> None:
    """Whether it has left the last window, or only late ones."""
    apart, mixed = [0] * 10 + [1] * 8, [0, 1, 2] * 6
    hours = window("g", 0, apart), window("g", 1, mixed), window("g", 2, apart)
    last = unbroken(hours)[-1]
    again = track([last], revised(hours[2], apart[::-1], "b", ""))
    assert min(again.communities) >= last.next_community
    hours = stream("g", 3)
    late = unbroken([hours[1], hours[0]])[1]
    assert late.late
    publish(bench.broker, [outgoing(late, bench.target)])
    bench.work(tracker(bench), bench.sent(hours[2:]))
    assert min(bench.events[1].communities) == late.next_community


def test_windows_that_cannot_be_tracked_are_refused(bench: Bench) -> None:
    """One ends in 9999; of another, no ids are left for a new community."""
    last = MOST_IDS - 1

    def highest(hour: int) -> Communities:
        ids, none = np.array([last]), np.empty((0, 2), np.int64)
        return replace(window("g", hour, [0] * 3), community_ids=ids, replaced=none)

    more, other = window("g", 1, [0, 0, 0, 1, 1, 1]), window("h", 0, [0] * 3)
    far = replace(highest(1), window=Window(more.window.start, FAR), snapshot_id="g/far")
    made = bench.work(tracker(bench), bench.sent([highest(0), far, more, other, highest(2)]))
    too_far, no_ids = (dict(made[at].headers) for at in (1, 2))
    for letter in (too_far, no_ids):
        stage_and_error = letter["icd_dlq_stage"], letter["icd_dlq_exception"]
        assert stage_and_error == (b"track", b"LimitExceeded")
    assert re.search(b"9999-12-31.*raise --ahead", too_far["icd_dlq_message"])
    assert [(one.snapshot_id, one.communities.tolist()) for one in bench.events] == [
        ("g/0", [last] * 3), ("h/0", [0] * 3), ("g/2", [last] * 3)]  # fmt: skip


@pytest.mark.parametrize("n_far", [1, 12])
def test_windows_can_be_forgotten_but_not_their_ids(n_far: int, bench: Bench) -> None:
    """Whether or not they are more than a tracker keeps of a graph."""
    halves, thirds = [0] * 3 + [1] * 3, [0] * 3 + [1] * 3 + [2] * 3
    far = [window("g", 876_600 + hour, thirds) for hour in range(n_far)]  # in a century
    after = [window("g", 2, [*halves, 2, 2, 2]), *(window("g", hour, thirds) for hour in (3, 4))]
    records = bench.sent([window("g", 0, halves), window("g", 1, halves), *far, *after])
    bench.work(tracker(bench, BELIEVES), records[: 2 + n_far])
    for record in records[2 + n_far :]:
        bench.work(tracker(bench), [record])
    first, _, *believed = bench.events[: 2 + n_far]
    later = bench.events[2 + n_far :]
    assert not any(events.late for events in later)
    if n_far == 1:  # the windows before it are still remembered
        assert set(first.communities.tolist()) <= set(later[-1].communities.tolist())
    used = {id for events in (first, *believed) for id in events.communities.tolist()}
    born = {one.community for events in later for one in events.events if one.kind == "born"}
    assert born
    assert born.isdisjoint(used)
    assert len({events.next_community for events in later}) == 1


@in_partitions
def test_a_graph_that_an_operator_resets_starts_anew_with_new_ids(bench: Bench) -> None:
    hours, other = stream("g", 4), stream("h", 2, seed=4)
    records = bench.sent([*hours[2:], *other, *hours[:2]])
    of_g, of_h = ([one for one in records if one.key == key] for key in (b"g", b"h"))
    bench.work(tracker(bench), of_h)
    bench.work(tracker(bench), of_g)
    of_no_graph = OutgoingRecord(bench.target, value=None, key=b"\xff")
    publish(bench.broker, [Forgotten("g").record(bench.target), of_no_graph])
    for record in of_g[2:]:
        bench.work(tracker(bench), [record])
    tracked = [events for events in bench.events if events.graph == "g"]
    before, late, after = tracked[:2], tracked[2:4], tracked[4:]
    assert [events.late for events in tracked] == [False, False, True, True, False, False]
    assert {events.snapshot_id for events in late} == {"g/0", "g/1"}
    assert [events.snapshot_id for events in after] == ["g/0", "g/1"]
    assert {event.kind for event in after[0].events} == {"born"}
    first_new = min(after[0].communities.tolist())
    assert first_new == before[-1].next_community
    assert [(one.community, one.kind) for one in after[1].events] == [
        (one.community + first_new, one.kind) for one in unbroken(hours[:2])[1].events
    ]
    newest = subscribed(bench, "g", until="end")
    assert [events.snapshot_id for events in newest] == ["g/2", "g/3", "g/0", "g/1"]
    assert same(newest[2:], after)


def test_more_missing_windows_than_anybody_counts_are_told(bench: Bench) -> None:
    first, second = stream("g", 2)
    then, now = datetime(1970, 1, 1, tzinfo=UTC), second.window.start
    moment = Window(now, now + timedelta(microseconds=1))
    sent = [replace(first, window=Window(then, then)), replace(second, window=moment)]
    bench.work(tracker(bench), bench.sent(sent))
    assert bench.events[-1].missed == 10**9


def test_late_windows_do_not_push_others_out_of_memory(bench: Bench) -> None:
    apart, together = [0] * 10 + [1] * 8, [0] * 18
    late = [window("g", -i, apart) for i in range(1, 9)]
    sent = [window("g", 0, apart), window("g", 1, together), *late, window("g", 2, apart)]
    records = bench.sent(sent)
    bench.work(tracker(bench), records[:-1])
    bench.work(tracker(bench), records[-1:])
    assert same(bench.events, unbroken(sent))
    assert bench.events[-1].communities.tolist() == apart


def test_without_a_topic_to_remember_in_it_does_not_begin(bench: Bench) -> None:
    with pytest.raises(TopicMissing):
        list(tracker(replace(bench, target="no-such-topic")).handle(bench.sent(stream("g", 1))))


def test_a_tracker_that_knows_attributes_names_communities(bench: Bench) -> None:
    classes = attributes_of(pa.array(range(18)), {"class": ["PC"] * 9 + ["MP"] * 9})
    worker = tracker(bench, naming=Naming({"g": classes}))
    windows = [window("g", hour, [0] * 10 + [1] * 8) for hour in range(2)]
    for record in bench.sent([*windows, window("h", 0, [0] * 9)]):
        bench.work(worker, [record])
    names = [[event.name for event in one.events] for one in bench.events]
    assert names == [["PC, 9 of 10", "MP, 8 of 8"]] * 2 + [[None]]


# What a tracker keeps is counted in bytes, and limited, whatever its messages hold.


def long_ids(graph: str, hour: int, size: int = 4000, count: int = 1000) -> Communities:
    """A window whose ids take megabytes, and its message some kilobytes."""
    nodes = pa.array([f"{node:05d}{'a' * (size - 5)}" for node in range(count)])
    return replace(window(graph, hour, np.arange(count) % 2), nodes=nodes)


def test_the_longest_unused_graphs_and_windows_are_let_go() -> None:
    windows = tuple(PackedWindow.of(track((), communities)) for communities in stream("g", 1))
    size = windows[0].n_bytes
    recent = RecentWindows(most_bytes=2 * size)
    for graph in ("a", "b", "a", "c"):
        recent.put(graph, windows)
    assert (recent.get("a"), recent.get("b")) == (windows, ())
    assert (recent.let_go, recent.n_bytes) == ({"b"}, 2 * size)
    recent.put("d", 3 * windows)  # alone it is too much, and kept nevertheless
    assert (recent.let_go, recent.n_bytes) == ({"a", "b", "c"}, 3 * size)

    tracked = track((), long_ids("g", 0))
    many = [PackedWindow.of(tracked) for _ in range(3)]
    assert many[0].n_bytes < tracked.n_bytes / 100
    assert tracked.n_bytes > tracked.nodes.nbytes > 4_000_000
    unpacked = Unpacked(most_bytes=10_000_000)
    assert unpacked.all(many[:1])[0] is unpacked.all(many[:1])[0]
    assert len(unpacked.all(many)) == 3
    assert unpacked.n_bytes < 10_000_000


@pytest.mark.parametrize("cache_bytes", [1, 20_000])
def test_graphs_that_were_let_go_continue(bench: Bench, cache_bytes: int) -> None:
    streams = [stream(graph, 6, seed) for graph, seed in (("a", 3), ("b", 4), ("c", 5))]
    records = bench.sent(one for hour in zip(*streams, strict=True) for one in hour)
    kept = MemorySettings(cache_bytes=cache_bytes)
    worker = tracker(bench, memory=kept)
    for start in range(0, len(records), 4):
        if start == 8:  # it reads the topic anew, with the same limit
            worker = tracker(bench, memory=kept)
        bench.work(worker, records[start : start + 4])
    for name, each in zip("abc", streams, strict=True):
        found = [events for events in bench.events if events.graph == name]
        assert same(found, unbroken(each))


def test_a_graph_that_was_let_go_and_started_anew_stays_so(bench: Bench) -> None:
    a, b = stream("a", 4), stream("b", 2, seed=4)
    records = bench.sent([*a[:2], *b, *a[2:]])
    worker = tracker(bench, memory=MemorySettings(cache_bytes=1))
    bench.work(worker, records[:4])
    publish(bench.broker, [Forgotten("a").record(bench.target)])
    worker.assigned([0])
    bench.work(worker, records[4:])
    again = [events for events in bench.events if events.graph == "a"][2:]
    assert {event.kind for event in again[0].events} == {"born"}
    assert min(again[0].communities) >= unbroken(a)[1].next_community


def test_ids_of_megabytes_are_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions published them, and could not start any more."""
    with monkeypatch.context() as before:
        before.setattr(snapshot, "MOST_NODE_BYTES", 1 << 30)
        old = outgoing(track((), long_ids("big", 0, 2_000_000, 2)), bench.target)
        refused = outgoing(long_ids("big", 1, 2_000_000, 2), bench.source)
    publish(bench.broker, [old])
    with capture_logs() as log:
        bench.work(tracker(bench), bench.sent([refused, *stream("g", 2)]))
    (reason,) = [line["reason"] for line in log if line["event"] == "not an events message"]
    assert "has 2000000 bytes; the limit is 4096: send a shorter id" in reason
    assert [line["stage"] for line in log if line["event"] == "dead letter"] == ["decode"]
    assert len([one for one in held(bench.broker, bench.target) if one.key == b"g"]) == 2


# Results with the ids of a detector with memory, and without.


def detected(hours: Sequence[int], *, memory_on: bool = True) -> Iterator[Communities]:
    """Windows of a stream, detected with the memory of the ones before, or without."""
    model, memory = drifting.remembering_model().model, list[Memory]()
    for hour, one in enumerate(drifting.stream("g", max(hours) + 1)):
        if hour not in hours:
            continue
        found = detect_remembering(one, model, memory[-1] if memory_on and memory else None)
        memory.append(found.memory)
        communities = replace(window("g", hour, found.communities), nodes=one.nodes)
        if memory_on:
            ids, replaced = found.community_ids, found.replaced
            communities = replace(communities, community_ids=ids, replaced=replaced)
        yield replace(communities, revision="with memory" if memory_on else "alone")


@pytest.fixture(scope="module")
def mixed() -> dict[str, list[Communities]]:
    """Results as operators may bring them about."""
    with_ids, alone = list(detected(range(10))), list(detected(range(10), memory_on=False))
    pairs = zip(with_ids, alone, strict=True)
    return {
        "memory off for a while": [*with_ids[:4], *alone[4:6], *with_ids[6:]],
        "gaps, late and again": [with_ids[at] for at in (0, 1, 2, 1, 3, 3, 2, 6, 7, 9)],
        "memory lost": [*with_ids[:5], *detected(range(5, 10))],
        "two groups": [communities for pair in pairs for communities in pair],
    }


@pytest.mark.parametrize(
    ("name", "has_ids_of_results"),
    [
        ("memory off for a while", True),
        ("gaps, late and again", True),
        ("memory lost", False),
        ("two groups", False),
    ],
)
def test_trackers_take_turns(
    bench: Bench, mixed: dict[str, list[Communities]], name: str, has_ids_of_results: bool
) -> None:
    records = bench.sent(mixed[name])
    for start in range(0, len(records), 3):
        bench.work(tracker(bench), records[start : start + 3])
    once: dict[object, Communities] = {}
    for result in mixed[name]:
        once.setdefault(result.identity(), result)
    assert same(bench.events, unbroken(once.values()))
    for result, events in zip(once.values(), bench.events, strict=True):
        ids = result.ids_of_nodes
        if has_ids_of_results and ids is not None and not events.late:
            assert events.communities.tolist() == ids.tolist()
