"""Streams with known classes are read as their files say, and scored on the labelled nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.streams.known_streams import (
    HOUR,
    NO_CLASS,
    KnownWindow,
    changed_windows,
    contacts,
    dated_windows,
    known_streams,
    numbered_windows,
    planted_windows,
    with_classes,
)
from benchmarks.shared.streams.memory_streams import Stream
from benchmarks.shared.streams.stream_scores import Found, scores_of

SMALL = Stream(0.1, 200)
MONDAY = datetime(2012, 11, 19, tzinfo=UTC)


def file(folder: Path, **columns: list[object]) -> Path:
    path = folder / f"{'-'.join(columns)}.parquet"
    pd.DataFrame(columns).to_parquet(path)
    return path


def test_classes_are_found_by_node_and_others_are_unknown(tmp_path: Path) -> None:
    edges = file(tmp_path, window=[0, 0, 3], src=[1, 2, 7], dst=[2, 9, 1])
    labels = file(tmp_path, node=[2, 1, 7], label=["a", None, "b"])
    first, second = with_classes(numbered_windows(edges, HOUR), labels)
    assert first.snapshot.nodes.to_pylist() == [1, 2, 9]
    assert first.classes.tolist() == [NO_CLASS, 0, NO_CLASS]
    assert second.classes.tolist() == [NO_CLASS, 1]
    assert second.snapshot.window.start - first.snapshot.window.start == 3 * HOUR
    assert (first.n_classes, second.n_classes) == (1, 1)


def test_classes_may_change_from_window_to_window(tmp_path: Path) -> None:
    starts = [MONDAY, MONDAY + timedelta(days=1)]
    edges = file(tmp_path, window_start=starts, src=[1, 1], dst=[2, 2])
    labels = file(tmp_path, window_start=starts * 2, node=[1, 2, 2, 1], label=[5, 5, 8, 8])
    classes = [window.classes.tolist() for window in with_classes(dated_windows(edges), labels)]
    assert classes == [[0, 1], [1, 0]]


def test_contacts_are_counted_and_quiet_hours_are_gaps(tmp_path: Path) -> None:
    minutes = [5, 50, 59, 61, 185, 190]
    times = [MONDAY + timedelta(minutes=minute) for minute in minutes]
    path = file(tmp_path, time=times, src=[1, 1, 2, 1, 3, 1], dst=[2, 2, 3, 2, 2, 3])
    first, last = contacts(path, HOUR, least_people=3)
    assert (first.window.start, last.window.start) == (MONDAY, MONDAY + 3 * HOUR)
    assert first.weights is not None
    assert first.weights.tolist() == [2.0, 1.0]


def test_no_planted_stream_is_both_chosen_on_and_reported() -> None:
    streams = known_streams(Path("nowhere")).values()
    for stream in streams:
        chosen, reported = stream.seeds("choose", 5), stream.seeds("report", 5)
        assert not set(chosen) & set(reported)
        assert chosen or reported
        if stream.drawn:
            assert all(seed >= TEST_SEED for seed in reported)
        else:
            assert len(chosen) + len(reported) == 1


def test_a_seed_makes_the_same_stream_again() -> None:
    one, again, other = (planted_windows(SMALL, seed, 3) for seed in (1, 1, 2))
    assert [w.snapshot.content for w in one] == [w.snapshot.content for w in again]
    assert [w.snapshot.content for w in one] != [w.snapshot.content for w in other]


def test_all_communities_change_in_the_middle() -> None:
    windows = changed_windows(SMALL, 1, 6)
    together = [w.classes[:, None] == w.classes for w in windows]
    moved = [np.mean(a != b) for a, b in pairwise(together)]
    assert np.argmax(moved) == 2
    assert moved[2] > 2 * max(moved[0], moved[-1])


def found(window: KnownWindow, first_id: int | None = None) -> Found:
    labels = np.unique(window.classes, return_inverse=True)[1].astype(np.int32)
    ids = None if first_id is None else first_id + np.arange(labels.max() + 1)
    return Found(labels, ids, 2.0, horizon=4.0)


def test_what_is_right_on_the_labelled_nodes_has_full_scores() -> None:
    windows = planted_windows(SMALL, 1, 8)
    hidden = windows[-1].classes.copy()
    right = [found(window) for window in windows]
    hidden[:100] = NO_CLASS
    windows[-1] = KnownWindow(windows[-1].snapshot, hidden)
    right[-1].communities[:100] = 0
    scores = scores_of(windows, right)
    assert scores.windows == pytest.approx([100] * 8)
    assert (scores.ami, scores.ami_last, scores.nmi) == pytest.approx((100, 100, 100))
    assert (scores.milliseconds, scores.horizon) == (2.0, 4.0)


def test_the_first_quarter_counts_in_no_mean() -> None:
    windows = planted_windows(SMALL, 1, 8)
    answers = [found(window) for window in windows]
    one_community = np.zeros(200, np.int32)
    answers[:2] = [Found(one_community, None, 2.0)] * 2
    scores = scores_of(windows, answers)
    assert scores.windows[:2] == pytest.approx((0, 0), abs=1e-6)
    assert scores.ami == pytest.approx(100)


def test_churn_is_that_of_the_ids_if_there_are_some() -> None:
    window = planted_windows(SMALL, 1, 1)[0]
    windows = [window] * 4
    assert scores_of(windows, [found(window)] * 4).churn == 0
    same, other = found(window, 0), found(window, 500)
    assert scores_of(windows, [same] * 4).churn == 0
    assert scores_of(windows, [same, same, other, other]).churn == pytest.approx(50)
