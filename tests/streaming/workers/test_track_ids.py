"""A tracker on results with the ids of a detector with memory, and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.memory import Memory
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.track import Tracker
from tests.streaming.workers.tracked import events_in, outgoing, same, unbroken, window
from tests.testbed.brokers import Broker
from tests.testbed.drifting import remembering_model, stream
from tests.testbed.streams import held, publish

pytestmark = pytest.mark.brokers("memory")

Topics = tuple[str, str]
MODEL = remembering_model().model


@pytest.fixture
def topics(memory: Broker, topic_name: str) -> Topics:
    create_topics(memory.settings(), [TopicSpec(topic_name), TopicSpec(f"{topic_name}.told")])
    return topic_name, f"{topic_name}.told"


def detected(hours: Sequence[int], *, memory_on: bool = True) -> Iterator[Communities]:
    """Windows of a stream, detected with the memory of the ones before, or without."""
    memory: Memory | None = None
    for hour, snapshot in enumerate(stream("g", max(hours) + 1)):
        if hour not in hours:
            continue
        found = detect_remembering(snapshot, MODEL, memory if memory_on else None)
        memory = found.memory
        communities = replace(window("g", hour, found.communities), nodes=snapshot.nodes)
        if memory_on:
            communities = replace(
                communities, community_ids=found.community_ids, replaced=found.replaced
            )
        yield replace(communities, revision="with memory" if memory_on else "alone")


def mixed(name: str) -> list[Communities]:
    """Results as operators may bring them about."""
    with_ids, alone = list(detected(range(10))), list(detected(range(10), memory_on=False))
    renumbered = [replace(communities) for communities in detected(range(5, 10))]
    return {
        "with ids": with_ids,
        "memory off for a while": [*with_ids[:4], *alone[4:6], *with_ids[6:]],
        "memory on later": [*alone[:4], *with_ids[4:]],
        "memory lost": [*with_ids[:5], *renumbered],
        "gaps": [with_ids[at] for at in (0, 1, 5, 6, 9)],
        "late and again": [with_ids[at] for at in (0, 1, 2, 1, 3, 3, 2, 4, 5, 6, 7, 8, 9)],
        "two groups": [
            communities for pair in zip(with_ids, alone, strict=True) for communities in pair
        ],
    }[name]


NAMES = ["with ids", "memory off for a while", "memory on later", "memory lost", "gaps",
         "late and again", "two groups"]  # fmt: skip


def work(broker: Broker, worker: Runner, records: Sequence[Record]) -> None:
    sent = tuple(worker.handle(records))
    publish(broker, sent)
    worker.done(BatchDone(tuple(records), sent, 0.0))


def once(windows: Sequence[Communities]) -> list[Communities]:
    """Without repetitions."""
    seen: dict[object, Communities] = {}
    for one in windows:
        seen.setdefault(one.identity(), one)
    return list(seen.values())


@pytest.mark.parametrize("name", NAMES)
def test_trackers_that_take_turns_report_what_a_single_one_does(
    memory: Broker, topics: Topics, name: str
) -> None:
    publish(memory, [outgoing(communities, topics[0]) for communities in mixed(name)])
    records = held(memory, topics[0])
    for start in range(0, len(records), 3):
        tracker = Tracker(memory.settings(), topic=topics[1])
        work(memory, Runner(tracker, DeadLetterLimit()), records[start : start + 3])
    assert same(events_in(memory, topics[1]), unbroken(once(mixed(name))))


def test_a_damaged_window_is_left_out(memory: Broker, topics: Topics) -> None:
    windows = list(detected(range(6)))
    windows[3] = replace(windows[3], memory="damaged")
    publish(memory, [outgoing(one, topics[0]) for one in windows])
    tracker = Tracker(memory.settings(), topic=topics[1])
    work(memory, Runner(tracker, DeadLetterLimit()), held(memory, topics[0]))
    assert same(events_in(memory, topics[1]), unbroken(windows[:3] + windows[4:]))


def settled(tracked: Sequence[CommunityEvents]) -> list[CommunityEvents]:
    return [events for events in tracked[1:] if not events.late]


@pytest.mark.parametrize("name", NAMES)
def test_communities_that_stay_keep_their_ids(name: str) -> None:
    tracked = unbroken(once(mixed(name)))
    for before, after in zip(tracked, settled(tracked), strict=False):
        kept = np.mean(before.communities == after.communities) if len(before.nodes) else 1.0
        assert kept > 0.75, (after.snapshot_id, kept)


@pytest.mark.parametrize("name", ["with ids", "memory off for a while", "gaps", "late and again"])
def test_the_ids_of_events_are_those_of_the_results(name: str) -> None:
    windows = once(mixed(name))
    for found, tracked in zip(windows, unbroken(windows), strict=True):
        ids = found.ids_of_nodes
        if ids is not None and not tracked.late:
            assert tracked.communities.tolist() == ids.tolist()


def test_a_tracker_that_starts_in_the_middle_has_the_same_ids() -> None:
    windows = mixed("with ids")
    whole, part = unbroken(windows), unbroken(windows[6:])
    for events, other in zip(whole[6:], part, strict=True):
        assert events.communities.tolist() == other.communities.tolist()
