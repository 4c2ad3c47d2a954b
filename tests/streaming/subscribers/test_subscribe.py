"""What subscribing promises: each result once, those asked for, in order, with gaps reported."""

from __future__ import annotations

import asyncio
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
import pytest

from stream_icd import SubscribeOptions, subscribe, subscribe_events, subscribe_node
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadInput, BadSettings, TopicMissing
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.core.times import Gap
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import positions
from stream_icd.kafka.waiting import in_background
from stream_icd.streaming.subscribers.events_topic import Forgotten
from stream_icd.streaming.subscribers.group_reader import open_group_reader
from stream_icd.streaming.subscribers.seen_results import (
    WITHIN,
    MixedModels,
    SeenResults,
    result_of,
)
from tests.streaming.workers.tracked import outgoing, stream, unbroken, window
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import publish

pytestmark = pytest.mark.brokers("memory")

MakeTopic = Callable[..., str]


class Topic:
    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.name = broker, name
        self.where: Any = {"settings": broker.settings(), "topic": name}
        self.past: Any = self.where | {"start": "beginning", "until": "end"}

    def publish(self, *results: Communities | CommunityEvents | OutgoingRecord) -> None:
        publish(
            self.broker,
            [
                result if isinstance(result, OutgoingRecord) else outgoing(result, self.name)
                for result in results
            ],
        )

    def ids(self, **options: object) -> list[str]:
        return ids(subscribe(**(self.past | options)))

    def revisions(self, **options: object) -> list[str]:
        return revisions(subscribe(**(self.past | options)))


def ids(results: Iterable[Communities] | Iterable[CommunityEvents]) -> list[str]:
    return [result.snapshot_id for result in results]


def revisions(results: Iterable[Communities] | Iterable[CommunityEvents]) -> list[str]:
    return [f"{result.snapshot_id} {result.revision}" for result in results]


@pytest.fixture
def topic(broker: Broker, make_topic: MakeTopic) -> Topic:
    return Topic(broker, make_topic(partitions=2))


G = [window("g", hour, [0, 1]) for hour in range(8)]


def revised(result: Communities, revision: str, place: str = "") -> Communities:
    """Another revision of a result, made from the record of its snapshot at that place."""
    return replace(result, revision=revision, snapshot_place=place)


def test_each_result_of_the_graph_comes_once_up_to_the_limit(topic: Topic) -> None:
    topic.publish(G[1], G[2], G[1], replace(G[1], model="m@2"), G[2])
    topic.publish(*(window(graph, i, [0, 1]) for i in range(4) for graph in ("a", "b")))
    assert topic.ids(graph="g") == ["g/1", "g/2", "g/1"]
    assert topic.ids(graph="b") == ["b/0", "b/1", "b/2", "b/3"]
    assert topic.ids(graph="b", limit=2) == ["b/0", "b/1"]
    assert topic.ids(graph="c") == []


def test_a_correction_is_no_repetition_and_the_newest_revision_is_seen(topic: Topic) -> None:
    first, second = revised(G[1], "a", "0@0"), revised(G[1], "b", "0@2")
    # A restarted detector publishes the old revision and the new one once more.
    topic.publish(first, G[2], second, first, second, revised(G[1], "b", "0@3"))
    gaps: list[Gap] = []
    assert topic.revisions(on_gap=gaps.append) == ["g/2 ", "g/1 b"]
    assert gaps == [], "a window whose correction comes later is not missing"
    assert topic.revisions(revisions="all") == ["g/1 a", "g/2 ", "g/1 b"]
    assert topic.ids(model="m@2") == topic.ids(model="n") == []
    assert topic.ids(model="m") == topic.ids(model="m@1") == ["g/2", "g/1"]
    topic.publish(revised(G[1], "a", "0@4"))  # the correction is taken back
    assert topic.revisions() == ["g/2 ", "g/1 a"]
    assert topic.revisions(revisions="all") == ["g/1 a", "g/2 ", "g/1 b", "g/1 a"]


def test_a_correction_of_what_was_seen_comes_when_it_is_published(topic: Topic) -> None:
    topic.publish(G[1])  # of a program that says no revision
    with subscribe(start="beginning", **topic.where) as results:
        assert next(results).revision == ""
        topic.publish(G[1], revised(G[1], "a"), G[2])
        later = [next(results), next(results)]
    assert revisions(later) == ["g/1 a", "g/2 "]


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_from_a_time(topic: Topic) -> None:
    # Recent times: Kafka counts a topic's retention from the records' own.
    first = datetime.now(UTC) - timedelta(hours=1)
    for i in range(4):
        sent_ms = int((first + timedelta(minutes=i)).timestamp() * 1000)
        topic.publish(replace(outgoing(G[i], topic.name), timestamp_ms=sent_ms))
    assert topic.ids(start=first + timedelta(minutes=1.5)) == ["g/2", "g/3"]


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_a_missing_topic_is_named(broker: Broker, topic_name: str) -> None:
    missing = Topic(broker, topic_name)
    with pytest.raises(TopicMissing, match=f"there is no topic {topic_name}"):
        missing.ids()
    with pytest.raises(TopicMissing, match=topic_name):
        next(subscribe(group="g", **missing.where))


def test_a_group_goes_on_after_what_it_received(topic: Topic) -> None:
    topic.publish(*G[:6])
    options = topic.where | {"group": topic.name, "settings": topic.broker.steady()}
    assert ids(subscribe(limit=2, **options)) == ["g/0", "g/1"]
    with subscribe(**options) as results:
        assert [next(results).snapshot_id for _ in range(2)] == ["g/2", "g/3"]
    # g/3 was handed out, and nobody came back to say that it was dealt with.
    assert ids(subscribe(limit=3, **options)) == ["g/3", "g/4", "g/5"]


def test_readers_with_different_filters_in_a_group_of_one_name_each_get_all_of_theirs(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic = Topic(broker, make_topic())
    a, b = stream("a", 2), stream("b", 4, seed=4)
    topic.publish(b[0], a[0], b[1], a[1], b[2], b[3])
    options = topic.where | {"group": topic.name, "settings": broker.steady(), "limit": 2}
    for filters, seen in (
        ({"graph": "a"}, ["a/0", "a/1"]),
        ({"graph": "b"}, ["b/0", "b/1"]),
        ({"model": a[0].model}, ["b/0", "a/0"]),
        ({}, ["b/0", "a/0"]),
    ):
        assert ids(subscribe(**filters, **options)) == seen, filters


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"start": "2026-01-01"}, "start=.*: it must be"),
        ({"until": "ends"}, "until=.*: it must be"),
        ({"revisions": "last"}, "revisions=.*: it must be"),
        ({"limit": 0}, "limit=.*: it must be"),
        ({"limit": 1.5}, "limit=.*: it must be"),
        ({"group": ""}, "group=.*: it must be"),
        ({"settings": "localhost:9092"}, "settings=.*: it must be"),
        ({"limits": 5}, "limits=.*: it must be"),
        ({"claims": "s3://bucket"}, "claims=.*: it must be"),
        ({"on_bad": "log"}, "on_bad=.*: it must be"),
        ({"on_gap": 1}, "on_gap=.*: it must be"),
        ({"group": "g", "start": "beginning"}, "continues at its position"),
        ({"group": "g", "until": "end"}, "continues at its position"),
        ({"graph": 733}, "graph=733: it must be a name"),
        ({"graph": "\udcff"}, r"graph='\\udcff': it must be a name"),
        ({"community": "0"}, "it must be a whole number"),
        ({"confirmed": 1.5}, "it must be a whole number"),
        ({"least_bits": float("nan")}, "least_bits=nan: it must be a number"),
        ({"least_bits": "10"}, "least_bits='10': it must be a number"),
        ({"event": "eaten"}, "unknown event 'eaten': choose from born, grown"),
        ({"event": {"born", 5}}, "unknown event 5: choose from born, grown"),
        ({"event": []}, "names no kind: choose from born"),
        ({"node": None}, "node=.* an integer or a text"),
        ({"node": 7.5}, "node=.* an integer or a text"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_read(options: Any, reason: str) -> None:
    with pytest.raises(BadSettings, match=reason):
        (subscribe_node if "node" in options else subscribe_events)(**options)


def test_a_misspelt_argument_is_refused_and_one_of_none_is_as_if_left_out(topic: Topic) -> None:
    with pytest.raises(TypeError, match="no argument 'modle'; did you mean model?"):
        subscribe(modle="as")  # type: ignore[call-arg]
    topic.publish(*G[:2])
    nothing = dict.fromkeys(SubscribeOptions.__annotations__)
    results = subscribe("g", **(nothing | topic.where | {"until": "end"}))
    assert ids(results) == ["g/0", "g/1"]  # until the end, the default is to begin at the beginning


def test_a_record_in_hand_can_be_acknowledged_after_the_stop(topic: Topic) -> None:
    topic.publish(*(OutgoingRecord(topic.name, value, b"g") for value in (b"0", b"1", b"2")))

    def read(limit: int) -> list[bytes | None]:
        stop, values = threading.Event(), []
        with open_group_reader(topic.broker.steady(), topic.name, topic.name, stop) as parts:
            for record in chain.from_iterable(parts):
                values.append(record.value)
                if len(values) == limit:
                    stop.set()
                    time.sleep(0.6)  # whoever looks at it has seen it
        return values

    assert read(2) == [b"0", b"1"]
    assert read(1) == [b"2"]


def test_missing_windows_and_other_messages_are_reported_in_their_places(
    broker: Broker, make_topic: MakeTopic
) -> None:
    topic = Topic(broker, make_topic())
    a0, a4 = (window("a", hour, [0, 1]) for hour in (0, 4))
    far = Window(G[3].window.start, datetime(9999, 12, 31, tzinfo=UTC))
    wrong = replace(G[3], window=far, snapshot_id="g/far")
    no_result = OutgoingRecord(topic.name, b"?", b"g")
    late_and_twice = [G[1], G[4]]
    topic.publish(G[0], G[2], a0, G[3], no_result, wrong, G[7], *late_and_twice, a4)
    reports: list[Gap | str] = []

    def on_bad(record: Record, error: BadInput) -> None:
        reports.append(f"{record.offset} {error}")

    results = subscribe(on_gap=reports.append, on_bad=on_bad, **topic.past)
    reports.extend(result.snapshot_id for result in results)
    gaps = {reports[i + 1]: gap.missed for i, gap in enumerate(reports) if isinstance(gap, Gap)}
    assert gaps == {"g/2": 1, "g/7": 3, "a/4": 3}
    assert str(reports[1]) == (
        "g: 1 window is missing from 2020-01-01 01:00:00+00:00 to 2020-01-01 02:00:00+00:00"
    )
    assert "4 header ce_specversion is missing or empty" in reports


def test_async_for_is_the_same_and_leaves_no_thread_behind(topic: Topic) -> None:
    before = set(threading.enumerate())
    topic.publish(*G[:3])

    async def follow() -> list[str]:
        past = [result.snapshot_id async for result in subscribe(**topic.past)]
        async for result in subscribe(start="beginning", **topic.where):
            past.append(result.snapshot_id)
            if result.snapshot_id == "g/2":
                break
        return past

    assert asyncio.run(follow()) == ["g/0", "g/1", "g/2"] * 2
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_a_program_goes_on_while_it_waits_and_a_wait_that_was_given_up_loses_nothing(
    topic: Topic,
) -> None:
    async def follow() -> list[str]:
        results = subscribe(start="beginning", **topic.where)
        too_long = threading.Timer(30, results.close)  # a program that stands still would for ever
        too_long.start()
        async with results:
            waiting = asyncio.ensure_future(anext(results))
            await asyncio.sleep(0.2)
            topic.publish(G[0])
            first = await waiting
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(results), 0.3)
            topic.publish(G[1])
            second = await asyncio.wait_for(anext(results), 20)
        too_long.cancel()
        return ids([first, second])

    assert asyncio.run(follow()) == ["g/0", "g/1"]


def test_tasks_and_threads_that_share_a_subscription_share_its_results(topic: Topic) -> None:
    topic.publish(*G)
    results = subscribe(**topic.past)

    async def follow() -> list[str]:
        return [result.snapshot_id async for result in results]

    async def share() -> list[list[str]]:
        return await asyncio.gather(follow(), follow())

    assert sorted(chain(*asyncio.run(share()))) == ids(G)
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(list, [subscribe(**topic.past)] * 4)
        assert sorted(ids(chain(*parts))) == ids(G)


def test_closing_ends_a_wait_in_another_thread(topic: Topic) -> None:
    results = subscribe(**topic.where)
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.extend(results))
    thread.start()
    time.sleep(0.5)
    results.close()
    thread.join(30)
    assert not thread.is_alive()
    assert got == []


APART, TOGETHER = [0] * 10 + [1] * 8, [0] * 18
HOURS = [
    window("g", hour, labels)
    for hour, labels in enumerate([APART, APART, TOGETHER, TOGETHER, APART])
]


@pytest.fixture
def events(topic: Topic) -> Topic:
    """Two communities that merge in the third hour and split in the fifth."""
    later = window("g", 0, APART, model="m@0")  # too late
    topic.publish(*unbroken([*HOURS, later]), unbroken(HOURS)[0])
    return topic


def kinds(results: Iterable[CommunityEvents]) -> dict[str, list[tuple[str, int]]]:
    return {
        result.snapshot_id: [(event.kind, event.community) for event in result.events]
        for result in results
    }


@pytest.mark.parametrize("model", [None, "m"])
def test_events_come_once_also_late_ones_and_anew_after_a_reset_of_their_graph(
    events: Topic, model: str | None
) -> None:
    def hours(late: bool = False, **options: Any) -> str:
        results = subscribe_events("g", model=model, **options, **events.past)
        return " ".join(result.snapshot_id for result in results if result.late == late)

    assert (hours(), hours(late=True)) == ("g/0 g/1 g/2 g/3 g/4", "g/0")
    events.publish(Forgotten("g").record(events.name), *unbroken(HOURS[1:3]))
    assert hours() == "g/0 g/3 g/4 g/1 g/2"
    assert hours(revisions="all") == "g/0 g/1 g/2 g/3 g/4 g/1 g/2"


def test_what_was_late_and_is_repeated_in_time_hides_no_other_revision(topic: Topic) -> None:
    _, late = unbroken([HOURS[1], HOURS[0]])
    (first,) = unbroken(HOURS[:1])
    topic.publish(replace(late, revision="b"), first, replace(first, revision="b"))
    assert revisions(subscribe_events(**topic.past)) == ["g/0 "]


def test_events_of_a_kind_and_of_a_community(events: Topic) -> None:
    (merger,) = subscribe_events(event="merged", **events.past)
    assert kinds([merger]) == {"g/2": [("merged", 0)]}
    assert merger.communities.tolist() == [0] * 18
    both = subscribe_events(event={"merged", "split"}, limit=2, **events.past)
    assert kinds(both) == {"g/2": [("merged", 0)], "g/4": [("split", 0)]}
    assert kinds(subscribe_events(community=1, **events.past)) == {
        "g/0": [("born", 1)],
        "g/1": [("continued", 1)],
        "g/2": [("merged", 0)],
        "g/4": [("split", 0), ("returned", 1)],
    }
    assert ids(subscribe_events("other", event="merged", **events.past)) == []
    of_numpy: Any = np.int64(4)
    assert ids(subscribe_events(confirmed=of_numpy, **events.past)) == ["g/0"]


def test_each_filter_of_events_is_in_the_name_of_the_group(events: Topic) -> None:
    options = events.where | {"group": "desk", "limit": 1, "settings": events.broker.steady()}
    list(subscribe_events("g", community=1, event={"born"}, **options))
    list(subscribe_node(12, **options))
    for group in ("desk-g-community=1-event=born", "desk-node=12"):
        assert positions(events.broker.settings(), events.name, group), group


def test_a_node_is_followed_from_community_to_community(events: Topic) -> None:
    def places(node: int | str) -> list[tuple[int | None, int | None]]:
        changes = subscribe_node(node, "g", **events.past)
        return [(change.before, change.after) for change in changes]

    changes = list(subscribe_node(12, "g", **events.past))
    assert [change.snapshot_id for change in changes] == ["g/0", "g/2", "g/4"]
    assert [event.kind for event in changes[1].events] == ["merged"]
    assert places(12) == places("12") == [(None, 1), (1, 0), (0, 1)]
    assert places(99) == places("\udcff") == []
    assert places(3) == [(None, 0)]


def test_a_node_that_leaves_is_reported(topic: Topic) -> None:
    sizes = (9, 8, 9)
    topic.publish(*unbroken(window("g", hour, [0] * size) for hour, size in enumerate(sizes)))
    assert [change.after for change in subscribe_node(8, **topic.past)] == [0, None, 0]


def test_what_another_member_read_in_between_loses_no_change(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    places = [0, 1, 0]  # of node 8, hour by hour
    hours = [[0, 0, 0, 0, 1, 1, 1, 1, place] for place in places]
    graphs = [unbroken(window(graph, *hour) for hour in enumerate(hours)) for graph in "ab"]
    afterwards: list[tuple[str, int | None]] = []
    gaps: list[Gap] = []

    @contextmanager
    def member(n_assigned: int) -> Iterator[None]:
        """A member of the group, once partitions were assigned so many times in all."""
        changes = subscribe_node(8, on_gap=gaps.append, group="g", **topic.where)

        def read() -> None:
            afterwards.extend((change.graph, change.after) for change in changes)

        with in_background(read, "member", threading.Event()), changes:
            wait_until(lambda: caplog.text.count("assigned: ") == n_assigned)
            yield

    def publish_hour(hour: int) -> None:
        for partition, windows in enumerate(graphs):
            topic.publish(replace(outgoing(windows[hour], topic.name), partition=partition))
        wait_until(lambda: dict(afterwards) == dict.fromkeys("ab", places[hour]), timeout_s=10)

    with member(1):
        publish_hour(0)
        with member(2):
            publish_hour(1)  # of one graph to the second member
        publish_hour(2)  # of both graphs to the first one
    assert gaps == []


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
