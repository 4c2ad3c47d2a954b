"""The story of a real stream: named communities, and the strongest events that lasted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.interfaces.demo.picture import draw_story, how_many, strongest_events
from stream_icd.interfaces.demo.results import tracked
from stream_icd.methods.names.attributes import attributes_of
from tests.streaming.workers.tracked import window

CLASSES = attributes_of(pa.array(range(30)), {"class": ["PC"] * 10 + ["MP"] * 10 + ["2BIO"] * 10})
APART, TOGETHER = np.repeat([0, 1, 2], 10), np.repeat([0, 0, 2], 10)


def found(hour: int, ids: np.ndarray, moved: dict[tuple[int, int], float]) -> Communities:
    names, labels = np.unique(ids, return_inverse=True)
    return replace(
        window("g", hour, labels),
        community_ids=names,
        replaced=np.empty((0, 2), np.int64),
        moved=np.array(list(moved), np.int64).reshape(-1, 2),
        moved_bits=np.array(list(moved.values())),
    )


def merged(bits: float) -> list[CommunityEvents]:
    return tracked(
        [found(hour, APART, {}) for hour in range(3)]
        + [found(3, TOGETHER, {(1, 0): bits})]
        + [found(hour, TOGETHER, {}) for hour in range(4, 8)]
    )


MERGED = merged(42.0)


def test_an_event_that_lasted_is_told_with_names_and_bits() -> None:
    ((_, told),) = strongest_events(MERGED, CLASSES)
    assert told == "2020-01-01  MP (10 nodes) joined PC; 42 bits; still together 4 hours later"


def test_an_event_that_is_undone_or_too_new_is_not_told() -> None:
    assert strongest_events(MERGED[:6], CLASSES) == []
    undone = tracked(
        [found(hour, APART, {}) for hour in range(3)]
        + [found(3, TOGETHER, {(1, 0): 42.0})]
        + [found(hour, APART, {(0, 1): 9.0} if hour == 4 else {}) for hour in range(4, 7)]
    )
    assert strongest_events(undone, CLASSES) == []


def test_an_event_that_the_edges_speak_against_is_not_told(tmp_path: Path) -> None:
    against = merged(-42.0)
    assert strongest_events(against, CLASSES) == []
    assert how_many([]) == "no mergers and splits that lasted and that the edges support"
    draw_story(against, CLASSES, [], tmp_path / "story.png")


def test_the_picture_is_written(tmp_path: Path) -> None:
    path = tmp_path / "story.png"
    draw_story(MERGED, CLASSES, strongest_events(MERGED, CLASSES), path)
    colours = Image.open(path).convert("RGB").getcolors(1 << 24)
    assert colours is not None
    assert len(colours) > 100
