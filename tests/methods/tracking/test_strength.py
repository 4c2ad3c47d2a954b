"""Events get the bits that the detector told of the nodes that moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvent
from stream_icd.methods.tracking.track import remember, track
from stream_icd.wire.communities import decode_communities, encode_communities
from stream_icd.wire.events import decode_events, encode_events
from tests.streaming.workers.tracked import window

NOTHING = np.empty((0, 2), np.int64)


def found(hour: int, ids: list[int], moved: dict[tuple[int, int], float]) -> Communities:
    names, labels = np.unique(ids, return_inverse=True)
    return replace(
        window("g", hour, labels),
        community_ids=names,
        replaced=NOTHING,
        moved=np.array(list(moved), np.int64).reshape(-1, 2),
        moved_bits=np.array(list(moved.values())),
    )


def events(*windows: Communities) -> dict[tuple[str, int], CommunityEvent]:
    recent = ()
    for one in windows:
        tracked = track(recent, one)
        recent = remember(recent, tracked)
    return {(event.kind, event.community): event for event in tracked.events}


BEFORE = found(0, [0] * 10 + [1] * 8 + [2] * 12, {})


def test_a_merger_has_the_bits_of_what_went_in_and_a_split_of_what_came_out() -> None:
    after = found(1, [0] * 18 + [2] * 6 + [3] * 6, {(1, 0): 21.5, (2, 3): 7.25, (-1, 3): 9.0})
    happened = events(BEFORE, after)
    assert happened["merged", 0].bits == 21.5
    assert happened["split", 2].bits == 7.25
    assert happened["born", 3].bits == 7.25


def test_a_birth_without_parents_has_the_bits_of_the_new_community() -> None:
    after = found(1, [0] * 10 + [1] * 8 + [2] * 12 + [3] * 5, {(-1, 3): 4.0})
    assert events(BEFORE, after)["born", 3].bits == 4.0


def test_what_the_detector_does_not_tell_is_unknown() -> None:
    after = found(1, [0] * 18 + [2] * 12, {})
    assert events(BEFORE, after)["merged", 0].bits is None
    alone = replace(after, moved=None, moved_bits=None)
    assert events(BEFORE, alone)["merged", 0].bits is None


def test_bits_come_through_the_messages() -> None:
    after = found(1, [0] * 18 + [2] * 12, {(1, 0): 21.5})
    message = encode_communities(after)
    read = decode_communities(message.key, message.value, message.headers)
    assert read.moved is not None
    assert read.moved_bits is not None
    assert (read.moved.tolist(), read.moved_bits.tolist()) == ([[1, 0]], [21.5])
    tracked = track(remember((), track((), BEFORE)), read)
    sent = encode_events(tracked)
    assert decode_events(sent.key, sent.value, sent.headers).events == tracked.events
