"""What a tracker on a stream promises: order, memory in its topic alone, nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from structlog.testing import capture_logs

from stream_icd.core.communities import MOST_IDS, Communities
from stream_icd.core.errors import OffsetGone, RecordTooLarge, TopicMissing
from stream_icd.core.snapshot import Window
from stream_icd.kafka.connect import connect
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck, MessageReader
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.track import TrackSettings, track
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.subscribers import events_topic
from stream_icd.streaming.subscribers.events_topic import forget_graph
from stream_icd.streaming.subscribers.seen_results import SeenResults
from stream_icd.streaming.subscribers.subscribe import subscribe_events
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.track import Tracker
from stream_icd.wire.events import decode_events, encode_events
from tests.streaming.workers.tracked import events_in, outgoing, same, stream, unbroken, window
from tests.testbed.brokers import Broker
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside, held, publish

pytestmark = pytest.mark.brokers("memory")

Topics = tuple[str, str]


@pytest.fixture
def found_and_events(broker: Broker, topic_name: str) -> Topics:
    """A communities topic (with its dead-letter topic) and an events topic of one test's own."""
    found, events = (
        TopicSpec(topic_name, partitions=2),
        TopicSpec(f"{topic_name}.events", partitions=2),
    )
    create_topics(broker.settings(), [*found.with_dead_letters(), events])
    return found.name, events.name


def tracker(broker: Broker, topic: str, settings: TrackSettings = TrackSettings()) -> Runner:
    return Runner(Tracker(broker.settings(), settings, topic=topic), DeadLetterLimit())


@contextmanager
def tracking(broker: Broker, topics: Topics) -> Iterator[None]:
    """A tracker at work in the background; fails when it did."""
    worker = tracker(broker, topics[1])
    handler = Calls(worker.handle, assigned=worker.assigned, done=worker.done)
    work = partial(run_consumer, broker.settings(), topics[0], topics[0], handler, max_records=4)
    with beside(work) as errors:
        yield
    assert not errors


def wait_for(broker: Broker, topic: str, count: int) -> None:
    options = {"start": "beginning", "settings": broker.settings(), "topic": topic}
    assert len(list(subscribe_events(limit=count, **options))) == count  # type: ignore[arg-type]


def test_each_graph_in_order_and_a_new_worker_goes_on_where_the_last_was(
    broker: Broker, found_and_events: Topics
) -> None:
    a, b = stream("a", 12), stream("b", 12, seed=4)
    pairs = [communities for pair in zip(a, b, strict=True) for communities in pair]
    for share in (pairs[:10], pairs[10:]):
        publish(broker, [outgoing(communities, found_and_events[0]) for communities in share])
        with tracking(broker, found_and_events):
            wait_for(broker, found_and_events[1], 10 if share[0] is pairs[0] else 24)
    tracked = events_in(broker, found_and_events[1])
    assert same([events for events in tracked if events.graph == "a"], unbroken(a))
    assert same([events for events in tracked if events.graph == "b"], unbroken(b))


Step = Callable[[Runner, Sequence[Record]], None]


@pytest.fixture
def memory_topics(memory: Broker, topic_name: str) -> Topics:
    create_topics(memory.settings(), [TopicSpec(topic_name), TopicSpec(f"{topic_name}.events")])
    return topic_name, f"{topic_name}.events"


def work(broker: Broker, worker: Runner, records: Sequence[Record]) -> None:
    """A batch that succeeds: handled, published, committed."""
    sent = tuple(worker.handle(records))
    publish(broker, sent)
    worker.done(BatchDone(tuple(records), sent, 0.0))


def fails_before_publishing(worker: Runner, records: Sequence[Record]) -> None:
    list(worker.handle(records))


def fails_before_committing(broker: Broker, worker: Runner, records: Sequence[Record]) -> None:
    publish(broker, tuple(worker.handle(records)))


def sent_windows(broker: Broker, topic: str, n: int) -> list[Record]:
    publish(broker, [outgoing(communities, topic) for communities in stream("g", n)])
    return held(broker, topic)


def test_a_graph_that_goes_to_another_worker_and_back(
    memory: Broker, memory_topics: Topics
) -> None:
    records = sent_windows(memory, memory_topics[0], 12)
    runner, other = (tracker(memory, memory_topics[1]) for _ in range(2))
    for worker, start in ((runner, 0), (other, 3), (runner, 6), (other, 9)):
        worker.assigned([0])
        work(memory, worker, records[start : start + 3])
    assert same(events_in(memory, memory_topics[1]), unbroken(stream("g", 12)))


def test_a_window_whose_events_were_too_large_is_tracked_when_it_is_sent_again(
    memory: Broker, memory_topics: Topics
) -> None:
    records = sent_windows(memory, memory_topics[0], 3)
    refused = iter([False, True])

    class Refusing(ClaimCheck):
        def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
            if record.topic == memory_topics[1] and next(refused, False):
                raise RecordTooLarge("5 bytes are above 4", record.topic, 5)
            return record

    settings = memory.settings()
    tracker = Tracker(settings, topic=memory_topics[1])
    worker = Runner(tracker, DeadLetterLimit(), claim_check=Refusing(settings))
    events, letter = worker.handle(records[:2])
    publish(memory, [events])
    worker.done(BatchDone(tuple(records[:2]), (events, letter), 0.0))
    said = dict(letter.headers)
    assert (letter.value, said["icd_dlq_stage"]) == (records[1].value, b"publish")
    assert said["icd_dlq_message"].startswith(b"its result is too large: 5 bytes are above 4")
    work(memory, worker, [replace(records[1], offset=3), replace(records[2], offset=4)])
    assert same(events_in(memory, memory_topics[1]), unbroken(stream("g", 3)))


def test_what_another_worker_has_just_published_is_waited_for(
    memory: Broker, memory_topics: Topics
) -> None:
    """A group's position may be read before all brokers know that the transaction is committed."""
    records, topic = sent_windows(memory, memory_topics[0], 4), memory_topics[1]
    first, *rest = records
    producer = connect(memory.settings(transaction_timeout_s=60.0)).transactional_producer("p")
    producer.begin()
    refusals: list[Exception | None] = []
    for sent in tracker(memory, topic).handle([first]):
        producer.send(sent, refusals.append)
    assert refusals == [None]
    threading.Timer(0.3, producer.commit).start()
    work(memory, tracker(memory, topic), rest)
    assert same(events_in(memory, topic), unbroken(stream("g", 4)))


def test_records_that_are_not_tracked_do_not_hide_what_another_worker_tracked(
    memory: Broker, memory_topics: Topics
) -> None:
    g, other = stream("g", 4), stream("h", 1, seed=4)
    damaged = replace(g[2], memory="damaged", snapshot_id="g/less")
    sent = [*g[:2], *other, damaged, *g[2:]]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    records = held(memory, memory_topics[0])
    settings, graph = memory.settings(), "g"
    for batches in ([records[:2]], [records[2:3], records[3:4], records[4:]]):
        step = Tracker(settings, topic=memory_topics[1], graph=graph)
        worker = Runner(step, DeadLetterLimit(), graph=graph)
        worker.assigned([0])
        for batch in batches:
            work(memory, worker, batch)
    assert same(events_in(memory, memory_topics[1]), unbroken(g))


def test_a_batch_that_fails_is_done_again_as_if_nothing_had_been(
    memory: Broker, memory_topics: Topics
) -> None:
    records = sent_windows(memory, memory_topics[0], 8)
    worker = tracker(memory, memory_topics[1])
    work(memory, worker, records[:3])
    fails_before_publishing(worker, records[3:6])
    work(memory, worker, records[3:8])
    assert same(events_in(memory, memory_topics[1]), unbroken(stream("g", 8)))


def test_a_batch_that_was_published_and_not_committed_is_told_once(
    memory: Broker, memory_topics: Topics
) -> None:
    records = sent_windows(memory, memory_topics[0], 8)
    fails_before_committing(memory, tracker(memory, memory_topics[1]), records[:5])
    work(memory, tracker(memory, memory_topics[1]), records[2:])
    assert same(events_in(memory, memory_topics[1]), unbroken(stream("g", 8)))


def test_missing_late_and_repeated_windows(memory: Broker, memory_topics: Topics) -> None:
    hours = stream("g", 9)
    sent = [*hours[:3], hours[5], hours[4], hours[5], hours[2], *hours[6:]]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    worker = tracker(memory, memory_topics[1])
    records = held(memory, memory_topics[0])
    for start in range(0, len(records), 2):
        work(memory, worker, records[start : start + 2])
    tracked = events_in(memory, memory_topics[1])
    assert same(tracked, unbroken([*hours[:3], hours[5], hours[4], *hours[6:]]))
    assert [(events.snapshot_id, events.missed, events.late) for events in tracked[3:6]] == [
        ("g/5", 2, False), ("g/4", 0, True), ("g/6", 0, False)]  # fmt: skip


def test_other_ids_than_before_are_reported(memory: Broker, memory_topics: Topics) -> None:
    windows = stream("g", 4)
    windows[1:3] = [
        replace(one, nodes=pc.utf8_lpad(one.nodes.cast(pa.string()), 4, "0"))
        for one in windows[1:3]
    ]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in windows])
    with capture_logs() as logs:
        for record in held(memory, memory_topics[0]):  # a new worker knows it from the topic
            work(memory, tracker(memory, memory_topics[1]), [record])
    said = [log["event"] for log in logs if "the ids of the nodes" in log["event"]]
    assert [" were text" in one for one in said] == [False, True]


def test_a_new_worker_knows_the_model_and_the_late_ones_before_it(
    memory: Broker, memory_topics: Topics
) -> None:
    hours = stream("g", 6)
    new = [window("g", i, communities.labels, "m@2") for i, communities in enumerate(hours)]
    sent = [*hours[:3], new[2], *new[3:]]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    records = held(memory, memory_topics[0])
    work(memory, tracker(memory, memory_topics[1]), records[:4])
    work(memory, tracker(memory, memory_topics[1]), records[4:])
    tracked = events_in(memory, memory_topics[1])
    assert same(tracked, unbroken(sent))
    assert [events.late for events in tracked] == [False, False, False, True, False, False, False]
    assert [events.model_before for events in tracked[4:]] == ["m@1", None, None]


def revised(communities: Communities, labels: object, revision: str, place: str) -> Communities:
    """Another revision of a window, of the snapshot at that place."""
    found = np.asarray(labels, np.int32)
    return replace(communities, labels=found, revision=revision, snapshot_place=place)


@pytest.mark.parametrize("restarts", [(), (4,), (5, 6, 8)], ids=str)
def test_a_correction_of_the_last_window_replaces_it_and_an_older_one_comes_too_late(
    broker: Broker, found_and_events: Topics, restarts: tuple[int, ...]
) -> None:
    hours = [replace(communities, revision="a") for communities in stream("g", 8)]
    better = revised(hours[3], hours[4].labels, "b", "0@4")
    worse = revised(hours[1], hours[0].labels, "b", "0@9")
    back = replace(hours[6], snapshot_place="0@12")
    wrong = revised(hours[6], hours[0].labels, "b", "0@11")
    sent = [
        *hours[:4], better, hours[3], better,  # a detector that was restarted sends all again
        *hours[4:6], worse, hours[6], wrong, back, hours[7],
    ]  # fmt: skip
    publish(broker, [outgoing(communities, found_and_events[0]) for communities in sent])
    records, worker = held(broker, found_and_events[0]), tracker(broker, found_and_events[1])
    for at, record in enumerate(records):
        if at in restarts:
            worker = tracker(broker, found_and_events[1])
        work(broker, worker, [record])
    tracked = events_in(broker, found_and_events[1])
    expected = unbroken([*hours[:3], better, *hours[4:6], worse, back, hours[7]])
    replaced = [tracked[3], tracked[8], tracked[9]]
    assert [(events.snapshot_id, events.revision) for events in replaced] == [
        ("g/3", "a"), ("g/6", "a"), ("g/6", "b")]  # fmt: skip
    assert same(
        [events for events in tracked if all(events is not each for each in replaced)], expected
    )
    assert [events.late for events in expected] == [False] * 6 + [True] + [False] * 2
    options = {"start": "beginning", "settings": broker.settings(), "topic": found_and_events[1]}
    newest = list(subscribe_events(until="end", **options))  # type: ignore[arg-type]
    assert same(newest, expected)


def test_a_corrected_first_window_gets_its_ids_again(memory: Broker, memory_topics: Topics) -> None:
    first, second = stream("g", 2)
    better = revised(first, second.labels, "b", "")
    publish(
        memory, [outgoing(communities, memory_topics[0]) for communities in (first, better, second)]
    )
    work(memory, tracker(memory, memory_topics[1]), held(memory, memory_topics[0]))
    assert same(events_in(memory, memory_topics[1])[1:], unbroken([better, second]))


def test_windows_that_were_read_before_retention_deleted_others_are_remembered(
    memory: Broker, memory_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = stream("g", 3)
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in hours])
    records = held(memory, memory_topics[0])
    work(memory, tracker(memory, memory_topics[1]), records[:2])
    ends = iter([2, None])

    @contextmanager
    def gone_at_first(*args: object, **options: object) -> Iterator[Iterator[Record]]:
        def some(end: int | None) -> Iterator[Record]:
            yield from islice(found, end)
            if end is not None:
                raise OffsetGone("retention removed the next record")

        with open_reader(*args, **options) as found:  # type: ignore[arg-type]
            yield some(next(ends))

    monkeypatch.setattr(events_topic, "open_reader", gone_at_first)
    work(memory, tracker(memory, memory_topics[1]), records[2:])
    assert same(events_in(memory, memory_topics[1]), unbroken(hours))


def test_a_topic_that_was_created_again_with_fewer_partitions_is_read_from_its_beginning(
    memory: Broker, topic_name: str
) -> None:
    settings, hours = memory.settings(), unbroken(stream("g", 2))
    topic = events_topic.EventsTopic(settings, topic_name, None, 3, MessageReader())
    for n_partitions, events in ((2, hours[0]), (1, hours[1])):
        create_topics(settings, [TopicSpec(topic_name, n_partitions)])
        message = encode_events(events)
        headers = message.headers
        sent = OutgoingRecord(topic_name, message.value, message.key, headers, n_partitions - 1)
        publish(memory, [sent])
        assert same(list(topic.news(SeenResults())), [events])
        with connect(settings).admin() as admin:
            admin.delete_topic(topic_name)


def test_ids_that_were_given_before_the_topic_begins_are_not_given_again() -> None:
    apart, mixed = [0] * 10 + [1] * 8, [0, 1, 2] * 6
    hours = window("g", 0, apart), window("g", 1, mixed), window("g", 2, apart)
    last = unbroken(hours)[-1]  # all that retention has left
    again = track([last], revised(hours[2], apart[::-1], "b", ""))
    assert min(again.communities) >= last.next_community


def test_ids_of_a_graph_of_which_only_late_records_are_left_are_not_given_again(
    memory: Broker, memory_topics: Topics
) -> None:
    hours = stream("g", 3)
    late = unbroken([hours[1], hours[0]])[1]
    message = encode_events(late)
    sent = OutgoingRecord(memory_topics[1], message.value, message.key, message.headers)
    publish(memory, [sent, outgoing(hours[2], memory_topics[0])])
    work(memory, tracker(memory, memory_topics[1]), held(memory, memory_topics[0]))
    assert late.late
    assert min(events_in(memory, memory_topics[1])[1].communities) == late.next_community


FAR = datetime(9999, 12, 31, tzinfo=UTC)


def far_ahead(communities: Communities) -> Communities:
    """The window, ended by a clock that is wrong."""
    return replace(communities, window=Window(communities.window.start, FAR), snapshot_id="g/far")


def test_where_no_ids_are_left_a_new_community_is_refused_and_others_are_tracked(
    memory: Broker, memory_topics: Topics
) -> None:
    def named(hour: int, labels: list[int], ids: list[int]) -> Communities:
        none = np.empty((0, 2), np.int64)
        ids_of = np.array(ids)
        return replace(window("g", hour, labels), community_ids=ids_of, replaced=none)

    last = MOST_IDS - 1
    highest = named(0, [0, 0, 0], [last])
    more, same_again = window("g", 1, [0, 0, 0, 1, 1, 1]), named(2, [0, 0, 0], [last])
    sent = [highest, more, window("h", 0, [0, 0, 0]), same_again]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    made = list(tracker(memory, memory_topics[1]).handle(held(memory, memory_topics[0])))
    letter = dict(made.pop(1).headers)
    assert (letter["icd_dlq_stage"], letter["icd_dlq_exception"]) == (b"track", b"LimitExceeded")
    found = [decode_events(one.key, one.value, one.headers) for one in made]
    assert [(one.snapshot_id, one.communities.tolist()) for one in found] == [
        ("g/0", [last] * 3),
        ("h/0", [0] * 3),
        ("g/2", [last] * 3),
    ]


def test_a_window_that_ends_in_9999_is_refused_and_its_graph_goes_on(
    memory: Broker, memory_topics: Topics
) -> None:
    hours = stream("g", 4)
    sent = [hours[0], far_ahead(hours[1]), *hours[1:]]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    records = held(memory, memory_topics[0])
    made = list(tracker(memory, memory_topics[1]).handle(records))
    letter = dict(made.pop(1).headers)
    assert letter["icd_dlq_stage"] == b"track"
    assert letter["icd_dlq_exception"] == b"LimitExceeded"
    assert b"9999-12-31" in letter["icd_dlq_message"]
    assert b"raise --ahead" in letter["icd_dlq_message"]
    assert [(record.topic, record.value) for record in made] == [
        (memory_topics[1], encode_events(events).value) for events in unbroken(hours)
    ]


def test_a_window_that_was_believed_once_is_forgotten_by_a_tracker_that_does_not(
    memory: Broker, memory_topics: Topics
) -> None:
    hours = stream("g", 5)
    sent = [*hours[:2], far_ahead(hours[2]), *hours[2:]]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    records = held(memory, memory_topics[0])
    believes = TrackSettings(ahead=timedelta(days=9999 * 366))
    work(memory, tracker(memory, memory_topics[1], believes), records[:4])
    work(memory, tracker(memory, memory_topics[1]), records[4:])
    tracked = events_in(memory, memory_topics[1])
    assert [events.late for events in tracked] == [False, False, False, True, False, False]
    assert same(tracked[:2], unbroken(hours[:2]))
    assert {*tracked[-1].communities.tolist()} & {*tracked[1].communities.tolist()}


@pytest.mark.parametrize("n_far", [1, 12])
def test_ids_of_windows_that_are_forgotten_are_not_given_again(
    n_far: int, memory: Broker, memory_topics: Topics
) -> None:
    """Whether or not they are more than a tracker keeps of a graph."""
    halves, thirds = [0] * 3 + [1] * 3, [0] * 3 + [1] * 3 + [2] * 3
    century = timedelta(days=36_525)
    far = [window("g", hour, thirds) for hour in range(10, 10 + n_far)]
    far = [
        replace(one, window=Window(one.window.start + century, one.window.end + century))
        for one in far
    ]
    after = [window("g", 2, [*halves, 2, 2, 2]), *(window("g", hour, thirds) for hour in (3, 4))]
    sent = [window("g", 0, halves), window("g", 1, halves), *far, *after]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    records = held(memory, memory_topics[0])
    believes = TrackSettings(ahead=timedelta(days=9999 * 366))
    work(memory, tracker(memory, memory_topics[1], believes), records[: 2 + n_far])
    for record in records[2 + n_far :]:
        work(memory, tracker(memory, memory_topics[1]), [record])
    tracked = events_in(memory, memory_topics[1])
    used = {id for events in tracked[2 : 2 + n_far] for id in events.communities.tolist()}
    born = {
        event.community
        for events in tracked[2 + n_far :]
        for event in events.events
        if event.kind == "born"
    }
    assert born
    assert born.isdisjoint(used | {*tracked[0].communities.tolist()})
    assert len({events.next_community for events in tracked[2 + n_far :]}) == 1


def test_a_graph_that_an_operator_resets_starts_anew_with_new_ids(
    broker: Broker, found_and_events: Topics
) -> None:
    hours, other = stream("g", 4), stream("h", 2, seed=4)
    sent = [*hours[2:], *other, *hours[:2]]
    publish(broker, [outgoing(communities, found_and_events[0]) for communities in sent])
    records = held(broker, found_and_events[0])
    of_g = [record for record in records if record.key == b"g"]
    work(broker, tracker(broker, found_and_events[1]), [one for one in records if one.key == b"h"])
    work(broker, tracker(broker, found_and_events[1]), of_g)
    of_no_graph = OutgoingRecord(found_and_events[1], value=None, key=b"\xff")
    publish(broker, [forget_graph("g", found_and_events[1]), of_no_graph])
    again = tracker(broker, found_and_events[1])
    work(broker, again, of_g[2:3])
    work(broker, tracker(broker, found_and_events[1]), of_g[3:])
    tracked = [
        r for r in held(broker, found_and_events[1]) if r.key == b"g" and r.value is not None
    ]
    before, late, after = (
        [decode_events(r.key, r.value, r.headers) for r in part]
        for part in (tracked[:2], tracked[2:4], tracked[4:])
    )
    assert [events.late for events in late] == [True, True]
    assert [events.snapshot_id for events in after] == ["g/0", "g/1"]
    assert not any(events.late for events in after)
    assert {event.kind for event in after[0].events} == {"born"}
    first_new = min(after[0].communities.tolist())
    assert first_new == before[-1].next_community
    assert [(one.community, one.kind) for one in after[1].events] == [
        (one.community + first_new, one.kind) for one in unbroken(hours[:2])[1].events
    ]
    options = {"start": "beginning", "settings": broker.settings(), "topic": found_and_events[1]}
    found = list(subscribe_events("g", until="end", **options))  # type: ignore[arg-type]
    assert [events.snapshot_id for events in found] == [
        "g/2",
        "g/3",
        "g/0",
        "g/1",
    ]  # the newest of each
    assert same(found[2:], after)


def test_more_missing_windows_than_anybody_counts_are_told(
    memory: Broker, memory_topics: Topics
) -> None:
    first, second = stream("g", 2)
    then, now = datetime(1970, 1, 1, tzinfo=UTC), second.window.start
    moment = Window(now, now + timedelta(microseconds=1))
    sent = [replace(first, window=Window(then, then)), replace(second, window=moment)]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    work(memory, tracker(memory, memory_topics[1]), held(memory, memory_topics[0]))
    assert events_in(memory, memory_topics[1])[-1].missed == 10**9


def test_late_windows_do_not_push_others_out_of_memory(
    memory: Broker, memory_topics: Topics
) -> None:
    apart, together = [0] * 10 + [1] * 8, [0] * 18
    late = [window("g", -i, apart) for i in range(1, 9)]
    sent = [window("g", 0, apart), window("g", 1, together), *late, window("g", 2, apart)]
    publish(memory, [outgoing(communities, memory_topics[0]) for communities in sent])
    records = held(memory, memory_topics[0])
    work(memory, tracker(memory, memory_topics[1]), records[:-1])
    work(memory, tracker(memory, memory_topics[1]), records[-1:])
    tracked = events_in(memory, memory_topics[1])
    assert same(tracked, unbroken(sent))
    assert tracked[-1].communities.tolist() == apart


def test_a_message_that_is_none_is_dead_lettered_and_the_stream_goes_on(
    memory: Broker, topic_name: str
) -> None:
    found, events = TopicSpec(topic_name), TopicSpec(f"{topic_name}.events")
    create_topics(memory.settings(), [*found.with_dead_letters(), events])
    hours = stream("g", 2)
    bad = OutgoingRecord(found.name, b"?", b"g", (("ce_id", b"x"),))
    publish(memory, [outgoing(hours[0], found.name), bad, outgoing(hours[1], found.name)])
    work(memory, tracker(memory, events.name), held(memory, found.name))
    assert same(events_in(memory, events.name), unbroken(hours))
    (letter,) = held(memory, f"{found.name}.dlq")
    assert (letter.value, dict(letter.headers)["icd_dlq_stage"]) == (b"?", b"decode")


def test_without_a_topic_to_remember_in_it_does_not_begin(
    memory: Broker, memory_topics: Topics
) -> None:
    records = sent_windows(memory, memory_topics[0], 1)
    with pytest.raises(TopicMissing):
        list(tracker(memory, "no-such-topic").handle(records))


def test_a_tracker_that_knows_attributes_names_communities(
    memory: Broker, memory_topics: Topics
) -> None:
    communities, events = memory_topics
    classes = attributes_of(pa.array(range(18)), {"class": ["PC"] * 9 + ["MP"] * 9})
    tracker = Tracker(memory.settings(), naming=Naming({"g": classes}), topic=events)
    worker = Runner(tracker, DeadLetterLimit())
    windows = [window("g", hour, [0] * 10 + [1] * 8) for hour in range(2)]
    publish(memory, [outgoing(one, communities) for one in [*windows, window("h", 0, [0] * 9)]])
    for record in held(memory, communities):
        work(memory, worker, [record])
    tracked = events_in(memory, events)
    assert [[event.name for event in one.events] for one in tracked] == [
        ["PC, 9 of 10", "MP, 8 of 8"],
        ["PC, 9 of 10", "MP, 8 of 8"],
        [None],
    ]
