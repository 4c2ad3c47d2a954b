"""Windows of event time: each row in every window it belongs to, once, however rows arrive."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.errors import BadSettings, LimitExceeded
from stream_icd.core.snapshot import EPOCH, Window
from stream_icd.core.times import parse_duration, parse_wait
from stream_icd.sources.windows import (
    Hopping,
    Quiet,
    Session,
    TimedRows,
    WindowRule,
    windowed_snapshots,
)
from stream_icd.wire.limits import Limits

SECOND = 1_000_000
TEN = timedelta(seconds=10)
TUMBLING = Hopping(TEN, TEN)
Cut = list[tuple[float, float, list[int]]]


def seconds(span: float) -> timedelta:
    return timedelta(seconds=span)


def rows(times: Sequence[float], stream: int = 0, first: int = 0) -> TimedRows:
    """Rows named stream·1000 + place, at these seconds."""
    place = np.arange(first, first + len(times), dtype=np.int64)
    time = np.array([round(t * SECOND) for t in times], np.int64)
    return TimedRows("test", stream, place, time, pa.table({"name": place + 1000 * stream}))


@dataclass(frozen=True)
class AsTheyAre:
    """Makes no snapshots of windows: yields them and their rows."""

    rule: WindowRule
    lateness: timedelta = timedelta(0)

    def snapshot(self, window: Window, rows: pa.Table) -> tuple[Window, pa.Table]:
        return window, rows


def windows(
    arrivals: Iterable[TimedRows | Quiet], rule: WindowRule, lateness: float = 0, **options: object
) -> Iterator[tuple[Window, pa.Table]]:
    settings = AsTheyAre(rule, seconds(lateness))
    found = windowed_snapshots(arrivals, settings, **({"on_late": lambda _: None} | options))  # type: ignore[arg-type]
    return (window for window, _ in found.snapshots)  # type: ignore[misc]


def cut(
    arrivals: list[TimedRows | Quiet], rule: WindowRule, lateness: float = 0, n_streams: int = 1
) -> tuple[Cut, list[int]]:
    """Windows as (start, end, names), and the names of late rows."""
    late: list[int] = []

    def on_late(rows: TimedRows) -> None:
        late.extend(rows.rows["name"].to_pylist())

    cuts = [
        ((w.start - EPOCH).total_seconds(), (w.end - EPOCH).total_seconds(), r["name"].to_pylist())
        for w, r in windows(arrivals, rule, lateness, n_streams=n_streams, on_late=on_late)
    ]
    return cuts, late


@pytest.mark.parametrize(
    ("times", "rule", "expected"),
    [
        ([0, 9.999999, 10, 35], TUMBLING, [(0, 10, [0, 1]), (10, 20, [2]), (30, 40, [3])]),
        ([0, 7, 12], Hopping(TEN, seconds(5)),
         [(-5, 5, [0]), (0, 10, [0, 1]), (5, 15, [1, 2]), (10, 20, [2])]),
        ([0, 7, 12], Hopping(TEN, TEN, align=seconds(7)), [(-3, 7, [0]), (7, 17, [1, 2])]),
        ([0, 4, 8, 13, 30], Session(seconds(5)),  # which ends after a gap
         [(0, 13, [0, 1, 2]), (13, 18, [3]), (30, 35, [4])]),
    ],
    ids=["their start and not their end", "overlapping", "shifted", "session"],
)  # fmt: skip
def test_windows_hold_the_rows_of_their_time(
    times: list[float], rule: WindowRule, expected: Cut
) -> None:
    assert cut([rows([]), rows(times)], rule) == (expected, [])  # of a batch, all may be bad


def test_overlapping_windows_and_their_rows_are_not_in_memory_at_once() -> None:
    n = 10_000
    arrived, before = rows([float(second) for second in range(n)]), pa.total_allocated_bytes()
    for _ in windows([arrived], Hopping(timedelta(hours=1), timedelta(minutes=1))):
        assert pa.total_allocated_bytes() - before < 10 * arrived.rows.nbytes
    many_more = Hopping(timedelta(minutes=1), timedelta(milliseconds=1))
    tracemalloc.start()
    assert next(windows([rows([0])], many_more))[0].end == EPOCH + timedelta(milliseconds=1)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_rows_may_come_late_by_the_allowed_lateness_and_no_more() -> None:
    # The watermark is 14 - 5 = 9 when 3 comes, and 15 - 5 = 10 when 4 comes.
    cuts, late = cut([rows([1, 14, 3, 15, 4])], TUMBLING, lateness=5)
    assert cuts == [(0, 10, [0, 2]), (10, 20, [1, 3])]
    assert late == [4]


@pytest.mark.parametrize(
    ("rule", "times", "end"),
    [(TUMBLING, [1, 14], 10), (Session(seconds(5)), [1, 6], 6)],
)
def test_a_window_is_given_out_as_soon_as_the_watermark_reaches_its_end(
    rule: WindowRule, times: list[float], end: float
) -> None:
    def arrivals() -> Iterator[TimedRows]:
        yield rows(times)
        raise AssertionError("the window was out by then")

    window, _ = next(windows(arrivals(), rule))
    assert window.end == EPOCH + seconds(end)


def test_windows_wait_for_every_stream_and_not_for_quiet_ones() -> None:
    fast, slow = rows([1, 50], stream=0), rows([2, 3], stream=1)
    cuts, late = cut([fast, slow], TUMBLING, n_streams=2)
    assert cuts == [(0, 10, [0, 1000, 1001]), (50, 60, [1])]
    assert late == []
    cuts, late = cut([fast, Quiet(frozenset({1})), slow], TUMBLING, n_streams=2)
    assert cuts == [(0, 10, [0]), (50, 60, [1])]
    assert late == [1000, 1001]


def test_windows_wait_for_a_stream_that_comes_later_and_for_those_before_it() -> None:
    """As partitions that are added to a topic; their first rows may be late."""
    first, more = rows([1, 14], stream=0), rows([25, 41], stream=0, first=2)
    added = rows([2, 12, 22, 33], stream=2)
    cuts, late = cut([first, added, more], TUMBLING)
    assert cuts == [
        (0, 10, [0]),
        (10, 20, [2001, 1]),
        (20, 30, [2002, 2]),
        (30, 40, [2003]),
        (40, 50, [3]),
    ]
    assert late == [2000]
    quiet = Quiet(frozenset({1}))
    assert cut([first, added, quiet, more], TUMBLING) == (cuts, late)


def test_open_windows_are_given_up_when_somebody_asks_to_stop() -> None:
    stop = threading.Event()

    def arrivals() -> Iterator[TimedRows]:
        yield rows([1, 14, 16])
        stop.set()

    assert len(list(windows(arrivals(), TUMBLING, stop=stop))) == 1


def test_open_windows_hold_rows_up_to_a_limit() -> None:
    arrivals = [rows([float(at), float(at)], first=2 * at) for at in range(100)]
    options = {"on_late": pytest.fail, "limits": Limits(rows=22)}
    tens = windows(arrivals, TUMBLING, **options)
    assert len(list(tens)) == 10
    with pytest.raises(LimitExceeded, match="more than 22 rows: choose shorter windows"):
        list(windows(arrivals, Hopping(seconds(20), seconds(20)), **options))


RULES: list[WindowRule] = [
    TUMBLING,
    Hopping(TEN, seconds(5)),
    Hopping(TEN, seconds(3), align=seconds(1)),
    Session(seconds(7)),
]
TIMES = st.lists(st.integers(-30, 90), min_size=1, max_size=40)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@settings(max_examples=30)
@given(
    streams=st.lists(TIMES, min_size=1, max_size=3),
    lateness=st.integers(0, 20),
    cuts=st.sets(st.integers(0, 40), max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_how_rows_are_batched_and_streams_interleaved_makes_no_difference(
    rule: WindowRule, streams: list[list[int]], lateness: int, cuts: set[int], order: Random
) -> None:
    queues = []
    for stream, times in enumerate(streams):
        borders = sorted({0, len(times), *(cut % (len(times) + 1) for cut in cuts)})
        queues.append([rows(times[a:b], stream, first=a) for a, b in pairwise(borders)])
    mixed: list[TimedRows | Quiet] = []
    while any(queues):
        mixed.append(order.choice([queue for queue in queues if queue]).pop(0))
    whole: list[TimedRows | Quiet] = [rows(times, stream) for stream, times in enumerate(streams)]
    windows, late = cut(whole, rule, lateness, len(streams))
    mixed_windows, mixed_late = cut(mixed, rule, lateness, len(streams))
    assert (mixed_windows, sorted(mixed_late)) == (windows, sorted(late))


@pytest.mark.parametrize("rule", RULES, ids=repr)
@settings(max_examples=20)
@given(times=TIMES, lateness=st.integers(0, 20))
def test_every_row_is_in_all_its_windows_or_counted_late(
    rule: WindowRule, times: list[int], lateness: int
) -> None:
    windows, late = cut([rows(times)], rule, lateness)
    assert [end for _, end, _ in windows] == sorted({end for _, end, _ in windows})
    names = [name for _, _, names in windows for name in names]
    if isinstance(rule, Hopping):
        spans = all_windows(rule)
        for name, time in enumerate(times):
            expected = sum(1 for start, end in spans if start <= time < end)
            assert names.count(name) <= expected
            assert (names.count(name) < expected) == (name in late)
    else:
        assert sorted(names + late) == list(range(len(times)))
    for start, end, names in windows:
        assert all(start <= times[name] < end for name in names)
    if lateness >= max(times) - min(times):
        assert late == []


def all_windows(rule: Hopping) -> list[tuple[float, float]]:
    hop, size, align = (s.total_seconds() for s in (rule.hop, rule.size, rule.align))
    starts = [align + i * hop for i in range(-60, 60)]
    return [(start, start + size) for start in starts]


def test_windows_beyond_the_calendar_or_that_would_lose_rows_are_refused() -> None:
    size, late = parse_duration("3652058d"), 8000 * 365 * 86_400
    for rule in (Hopping(size, size), Hopping(size, size / 4, -size), Session(size)):
        with pytest.raises(BadSettings, match="choose a shorter one, or correct the times"):
            cut([rows([late])], rule, lateness=size.total_seconds())
    for size, hop in ((0, 0), (5, 10)):
        with pytest.raises(BadSettings):
            Hopping(seconds(size), seconds(hop))
    with pytest.raises(BadSettings):
        Session(seconds(0))


def test_durations_are_read_or_refused() -> None:
    assert (parse_duration("1w"), parse_duration("250ms")) == (seconds(604_800), seconds(0.25))
    for text in ("", "3", "d", "3 d", "-3d", "3y", f"{'9' * 400}d"):
        with pytest.raises(BadSettings, match="duration"):
            parse_duration(text)
    assert parse_wait("--every", "106751d") <= threading.TIMEOUT_MAX
    for text in ("0s", "0.0000001s", "1000000d"):
        with pytest.raises(BadSettings, match=f"--every {text}: give a duration above 0"):
            parse_wait("--every", text)
