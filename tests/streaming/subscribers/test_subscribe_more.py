"""Groups, gaps, asynchronous programs, events and nodes: the rest of what subscribing promises."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

import numpy as np
import pytest

from stream_icd import SubscribeOptions, subscribe, subscribe_events, subscribe_node
from stream_icd.core.errors import BadSettings, TopicMissing
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.core.times import Gap
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import create_topics
from stream_icd.kafka.waiting import in_background
from stream_icd.streaming.subscribers.events_topic import forget_graph
from stream_icd.streaming.subscribers.group_reader import open_group_reader
from stream_icd.streaming.subscribers.subscription import group_of, read_options
from stream_icd.wire.events import encode_events
from tests.streaming.workers.tracked import outgoing, stream, unbroken, window
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import publish

pytestmark = pytest.mark.brokers("memory")

MakeTopic = Callable[..., str]


def publish_events(broker: Broker, topic: str, *hours: CommunityEvents) -> None:
    messages = map(encode_events, hours)
    publish(broker, [OutgoingRecord(topic, m.value, m.key, m.headers) for m in messages])


def test_a_window_whose_correction_comes_later_is_not_missing(
    memory: Broker, make_topic: MakeTopic
) -> None:
    topic, hours, gaps = make_topic(), stream("g", 3), list[Gap]()
    sent = [*hours, replace(hours[1], revision="b")]
    publish(memory, [outgoing(communities, topic) for communities in sent])
    options = {"until": "end", "on_gap": gaps.append, "settings": memory.settings()}
    found = subscribe(topic=topic, **options)  # type: ignore[arg-type]
    assert [each.snapshot_id for each in found] == ["g/0", "g/2", "g/1"]
    assert gaps == []


def test_a_group_goes_on_after_what_it_received(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic()
    publish(broker, [outgoing(communities, topic) for communities in stream("g", 6)])
    settings = broker.steady()
    options = {"group": topic, "settings": settings, "topic": topic}
    assert [communities.snapshot_id for communities in subscribe(limit=2, **options)] == [
        "g/0",
        "g/1",
    ]
    with subscribe(**options) as found:
        assert [next(found).snapshot_id for _ in range(2)] == ["g/2", "g/3"]
    # g/3 was handed out, and nobody came back to say that it was dealt with.
    assert [communities.snapshot_id for communities in subscribe(limit=3, **options)] == [
        "g/3",
        "g/4",
        "g/5",
    ]


def test_readers_with_different_filters_in_a_group_of_one_name_each_get_all_of_theirs(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    a, b = stream("a", 2), stream("b", 4, seed=4)
    sent = [b[0], a[0], b[1], a[1], b[2], b[3]]
    publish(broker, [outgoing(communities, topic) for communities in sent])
    options = {"group": topic, "settings": broker.steady(), "topic": topic, "limit": 2}
    for filters, seen in (
        ({"graph": "a"}, ["a/0", "a/1"]),
        ({"graph": "b"}, ["b/0", "b/1"]),
        ({"model": a[0].model}, ["b/0", "a/0"]),
        ({}, ["b/0", "a/0"]),
    ):
        assert [
            communities.snapshot_id for communities in subscribe(**filters, **options)
        ] == seen, filters


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "2026-01-01"},
        {"until": "ends"},
        {"revisions": "last"},
        {"limit": 0},
        {"limit": 1.5},
        {"model": ""},
        {"model": 1},
        {"group": ""},
        {"settings": "localhost:9092"},
        {"limits": 5},
        {"claims": "s3://bucket"},
        {"on_bad": "log"},
        {"on_gap": 1},
    ],
)
def test_a_wrong_option_is_named_before_anything_is_read(wrong: SubscribeOptions) -> None:
    (name,) = wrong
    with pytest.raises(BadSettings, match=f"{name}=.*: it must be"):
        subscribe("as733", **wrong)


def test_what_no_result_can_match_is_refused() -> None:
    for graph in ("", 733, "\udcff"):
        with pytest.raises(BadSettings, match=re.escape(f"graph={graph!r}: it must be a name")):
            subscribe(graph)  # type: ignore[arg-type]
    for node in (None, [701], 7.5):
        with pytest.raises(BadSettings, match="node=.* an integer or a text"):
            subscribe_node(node)  # type: ignore[arg-type]
    with pytest.raises(BadSettings, match="names no kind: choose from born"):
        subscribe_events(event=[])


def test_each_filter_makes_another_group_and_a_name_alone_stays_as_it_is() -> None:
    filters = [
        {},
        {"graph": "as"},
        {"model": "as"},
        {"graph": "as", "model": "as"},
        {"community": 7},
        {"node": 7},
        {"event": "born"},
    ]
    groups = [group_of("g", **{"graph": None, **each}) for each in filters]
    assert groups[:2] == ["g", "g-as"]
    assert len(set(groups)) == len(filters)
    assert group_of(None, "as", node=7) is None


def test_a_record_in_hand_can_be_acknowledged_after_the_stop(
    memory: Broker, topic_name: str
) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    publish(memory, [OutgoingRecord(topic_name, value, b"g") for value in (b"0", b"1", b"2")])

    def read(limit: int) -> list[bytes | None]:
        stop, values = threading.Event(), []
        with open_group_reader(memory.steady(), topic_name, topic_name, stop) as parts:
            for record in chain.from_iterable(parts):
                values.append(record.value)
                if len(values) == limit:
                    stop.set()
                    time.sleep(0.6)  # whoever looks at it has seen it
        return values

    assert read(2) == [b"0", b"1"]
    assert read(1) == [b"2"]


def test_a_misspelt_argument_is_refused_when_called() -> None:
    with pytest.raises(TypeError, match="no argument 'modle'; did you mean model?"):
        subscribe(modle="as")  # type: ignore[call-arg]


def test_an_argument_of_none_is_as_if_left_out(memory: Broker) -> None:
    given = dict.fromkeys(SubscribeOptions.__annotations__) | {"settings": memory.settings()}
    without = read_options("g", "t", {"settings": memory.settings()})
    assert read_options("g", "t", given) == without  # type: ignore[arg-type]
    assert (without.topic, without.until, without.revisions) == ("t", "forever", "newest")
    assert without.start is None
    to_the_end = read_options("g", "t", {"settings": memory.settings(), "until": "end"})
    assert to_the_end.start == "beginning"


def test_a_group_shares_and_a_reader_without_one_gets_everything(
    memory: Broker, topic_name: str
) -> None:
    options = {"group": "g", "settings": memory.settings(), "topic": topic_name}
    with pytest.raises(BadSettings, match="continues at its position"):
        subscribe(start="beginning", **options)
    with pytest.raises(BadSettings, match="continues at its position"):
        subscribe(until="end", **options)
    with pytest.raises(TopicMissing, match=topic_name):
        next(subscribe(**options))


def test_missing_windows_are_told_before_the_window_after_them(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    hours = stream("g", 8)
    other = [window("other", hour, [0, 1]) for hour in (0, 4)]
    late_and_twice = [hours[1], hours[4]]
    far = Window(hours[3].window.start, datetime(9999, 12, 31, tzinfo=UTC))
    wrong = replace(hours[3], window=far, snapshot_id="g/far")
    sent = [hours[0], hours[2], other[0], hours[3], wrong, hours[7], *late_and_twice, other[1]]
    publish(broker, [outgoing(communities, topic) for communities in sent])
    heard: list[Gap | str] = []
    options = {"start": "beginning", "until": "end", "settings": broker.settings(), "topic": topic}
    heard.extend(
        communities.snapshot_id for communities in subscribe(on_gap=heard.append, **options)
    )
    gaps = [(heard[i + 1], gap.missed) for i, gap in enumerate(heard) if isinstance(gap, Gap)]
    assert gaps == [("g/2", 1), ("g/7", 3), ("other/4", 3)]
    assert str(heard[1]) == (
        "g: 1 window is missing from 2020-01-01 01:00:00+00:00 to 2020-01-01 02:00:00+00:00"
    )


def test_async_for_is_the_same(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic()
    publish(broker, [outgoing(communities, topic) for communities in stream("g", 3)])

    async def follow() -> list[str]:
        options = {"start": "beginning", "settings": broker.settings(), "topic": topic}
        found = [communities.snapshot_id async for communities in subscribe(until="end", **options)]
        async with subscribe(**options) as endless:
            async for communities in endless:
                found.append(communities.snapshot_id)
                if communities.snapshot_id == "g/2":
                    break
        return found

    assert asyncio.run(follow()) == ["g/0", "g/1", "g/2"] * 2


def test_a_program_goes_on_while_it_waits_for_the_next(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic()

    async def follow() -> str:
        found = subscribe(start="beginning", settings=broker.settings(), topic=topic)
        too_long = threading.Timer(30, found.close)  # a program that stands still would for ever
        too_long.start()
        async with found:
            waiting = asyncio.ensure_future(anext(found))
            await asyncio.sleep(0.2)
            publish(broker, [outgoing(stream("g", 1)[0], topic)])
            snapshot_id = (await waiting).snapshot_id
        too_long.cancel()
        return snapshot_id

    assert asyncio.run(follow()) == "g/0"


def test_a_wait_that_was_given_up_loses_nothing(broker: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic()
    publish(broker, [outgoing(communities, topic) for communities in stream("g", 1)])

    async def follow() -> str:
        options = {"start": "beginning", "settings": broker.settings(), "topic": topic}
        async with subscribe(**options) as found:
            assert (await anext(found)).snapshot_id == "g/0"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(found), 0.3)
            publish(broker, [outgoing(stream("g", 2)[1], topic)])
            return (await asyncio.wait_for(anext(found), 20)).snapshot_id

    assert asyncio.run(follow()) == "g/1"


def test_tasks_that_share_a_subscription_share_its_results(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    publish(broker, [outgoing(communities, topic) for communities in stream("g", 4)])
    found = subscribe(until="end", settings=broker.settings(), topic=topic)

    async def follow() -> list[str]:
        return [communities.snapshot_id async for communities in found]

    async def share() -> list[list[str]]:
        return await asyncio.gather(follow(), follow())

    one, other = asyncio.run(share())
    assert sorted(one + other) == ["g/0", "g/1", "g/2", "g/3"]


def test_threads_that_share_a_subscription_share_its_results(
    memory: Broker, topic_name: str
) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    publish(memory, [outgoing(communities, topic_name) for communities in stream("g", 6)])
    found = subscribe(start="beginning", settings=memory.settings(), topic=topic_name, limit=6)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(list, [found] * 4))
    assert sorted(one.snapshot_id for part in parts for one in part) == [f"g/{i}" for i in range(6)]


def test_an_asynchronous_loop_that_is_left_leaves_no_thread_behind(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic, before = make_topic(), set(threading.enumerate())
    publish(broker, [outgoing(communities, topic) for communities in stream("g", 2)])

    async def follow() -> None:
        async for _ in subscribe(settings=broker.settings(), topic=topic, start="beginning"):
            return

    asyncio.run(follow())
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_closing_ends_a_wait_in_another_thread(memory: Broker, topic_name: str) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    found = subscribe(settings=memory.settings(), topic=topic_name)
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.extend(found))
    thread.start()
    time.sleep(0.5)
    found.close()
    thread.join(30)
    assert not thread.is_alive()
    assert got == []


APART, TOGETHER = [0] * 10 + [1] * 8, [0] * 18
HOURS = [APART, APART, TOGETHER, TOGETHER, APART]


@pytest.fixture
def events_topic(memory: Broker, topic_name: str) -> str:
    """Two communities that merge in the third hour and split in the fifth."""
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    hours = [window("g", hour, labels) for hour, labels in enumerate(HOURS)]
    later = window("g", 0, APART, model="m@0")  # too late
    publish_events(memory, topic_name, *unbroken([*hours, later]), unbroken(hours)[0])
    return topic_name


@pytest.fixture
def options(memory: Broker, events_topic: str) -> SubscribeOptions:
    settings = memory.settings()
    return {"start": "beginning", "until": "end", "settings": settings, "topic": events_topic}


def summary(found: list[CommunityEvents]) -> list[tuple[str, list[tuple[str, int]]]]:
    return [
        (events.snapshot_id, [(e.kind, e.community) for e in events.events]) for events in found
    ]


def test_events_come_once_and_the_late_window_is_said(options: SubscribeOptions) -> None:
    found = list(subscribe_events("g", **options))
    assert [events.snapshot_id for events in found] == ["g/0", "g/1", "g/2", "g/3", "g/4", "g/0"]
    assert [events.late for events in found] == [False] * 5 + [True]


@pytest.mark.parametrize("model", [None, "m"])
def test_what_is_tracked_again_after_a_reset_of_its_graph_is_new(
    memory: Broker, options: SubscribeOptions, model: str | None
) -> None:
    hours = [window("g", hour, labels) for hour, labels in enumerate(HOURS)]
    publish(memory, [forget_graph("g", options["topic"])])
    publish_events(memory, options["topic"], *unbroken(hours[1:3]))
    with subscribe_events("g", model=model, **options) as newest:
        assert [events.snapshot_id for events in newest if not events.late] == [
            "g/0", "g/3", "g/4", "g/1", "g/2"]  # fmt: skip
    with subscribe_events("g", model=model, revisions="all", **options) as found:
        assert [events.snapshot_id for events in found if not events.late] == [
            "g/0", "g/1", "g/2", "g/3", "g/4", "g/1", "g/2"]  # fmt: skip


def test_what_was_late_and_is_repeated_in_time_hides_no_other_revision(
    memory: Broker, make_topic: MakeTopic
) -> None:
    topic, (_, late) = make_topic(), unbroken([window("g", 1, APART), window("g", 0, APART)])
    (first,) = unbroken([window("g", 0, APART)])
    again = replace(first, revision="b")
    publish_events(memory, topic, replace(late, revision="b"), first, again)
    options = {"start": "beginning", "until": "end", "settings": memory.settings()}
    with subscribe_events(topic=topic, **options) as found:  # type: ignore[arg-type]
        assert [(events.snapshot_id, events.revision) for events in found] == [("g/0", "")]


def test_events_of_a_kind_and_of_a_community(options: SubscribeOptions) -> None:
    mergers = list(subscribe_events(event="merged", **options))
    assert summary(mergers) == [("g/2", [("merged", 0)])]
    assert mergers[0].communities.tolist() == [0] * 18
    both = subscribe_events(event={"merged", "split"}, limit=2, **options)
    assert summary(list(both)) == [("g/2", [("merged", 0)]), ("g/4", [("split", 0)])]
    subscription = subscribe_events(community=1, **options)
    assert summary(list(subscription)) == [
        ("g/0", [("born", 1)]), ("g/1", [("continued", 1)]), ("g/2", [("merged", 0)]),
        ("g/4", [("split", 0), ("returned", 1)]),
    ]  # fmt: skip
    assert list(subscribe_events("other", event="merged", **options)) == []
    for wrong in ({"community": "0"}, {"confirmed": 1.5}):
        with pytest.raises(BadSettings, match="it must be a whole number"):
            subscribe_events("g", **wrong)
    for bits in (float("nan"), "10"):
        with pytest.raises(BadSettings, match=f"least_bits={bits!r}: it must be a number"):
            subscribe_events("g", least_bits=bits)  # type: ignore[arg-type]
    for unknown in ("eaten", 5, {"born", 5}):
        with pytest.raises(BadSettings, match="unknown event ('eaten'|5): choose from born, grown"):
            subscribe_events(event=unknown, **options)  # type: ignore[arg-type]


def test_a_number_of_windows_may_be_of_numpy(options: SubscribeOptions) -> None:
    found = list(subscribe_events("g", confirmed=np.int64(4), **options))  # type: ignore[arg-type]
    assert [events.snapshot_id for events in found] == ["g/0"]


@pytest.mark.parametrize("node", [12, "12"])
def test_a_node_is_followed_from_community_to_community(
    node: int | str, options: SubscribeOptions
) -> None:
    changes = list(subscribe_node(node, "g", **options))
    assert [(change.snapshot_id, change.before, change.after) for change in changes] == [
        ("g/0", None, 1), ("g/2", 1, 0), ("g/4", 0, 1)]  # fmt: skip
    assert [event.kind for event in changes[1].events] == ["merged"]
    for absent in (99, "\udcff"):
        assert list(subscribe_node(absent, "g", **options)) == []
    stays = subscribe_node(3, "g", **options)
    assert [(stay.before, stay.after) for stay in stays] == [(None, 0)]


def test_a_node_that_leaves_is_told(memory: Broker, topic_name: str) -> None:
    create_topics(memory.settings(), [TopicSpec(topic_name)])
    hours = [window("g", 0, [0] * 9), window("g", 1, [0] * 8), window("g", 2, [0] * 9)]
    publish_events(memory, topic_name, *unbroken(hours))
    settings = memory.settings()
    changes = subscribe_node(8, start="beginning", until="end", settings=settings, topic=topic_name)
    assert [(change.before, change.after) for change in changes] == [
        (None, 0),
        (0, None),
        (None, 0),
    ]


def test_what_another_member_read_in_between_loses_no_change(
    memory: Broker, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    create_topics(memory.settings(), [TopicSpec(topic_name, partitions=2)])
    places = [0, 1, 0]  # of node 8, hour by hour
    hours = [[0, 0, 0, 0, 1, 1, 1, 1, place] for place in places]
    graphs = [unbroken(window(graph, *hour) for hour in enumerate(hours)) for graph in "ab"]
    found: list[tuple[str, int | None]] = []
    gaps: list[Gap] = []

    @contextmanager
    def member(n_assigned: int) -> Iterator[None]:
        """A member of the group, once partitions were assigned so many times in all."""
        options = {"group": "g", "settings": memory.settings(), "topic": topic_name}
        changes = subscribe_node(8, on_gap=gaps.append, **options)  # type: ignore[arg-type]

        def read() -> None:
            found.extend((change.graph, change.after) for change in changes)

        with in_background(read, "member", threading.Event()), changes:
            wait_until(lambda: caplog.text.count("assigned: ") == n_assigned)
            yield

    def publish_hour(hour: int) -> None:
        for partition, windows in enumerate(graphs):
            sent = encode_events(windows[hour])
            record = OutgoingRecord(topic_name, sent.value, sent.key, sent.headers, partition)
            publish(memory, [record])
        wait_until(lambda: dict(found) == dict.fromkeys("ab", places[hour]), timeout_s=10)

    with member(1):
        publish_hour(0)
        with member(2):
            publish_hour(1)  # of one graph to the second member
        publish_hour(2)  # of both graphs to the first one
    assert gaps == []
