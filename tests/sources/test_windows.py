"""Windows of event time: each row in every window it belongs to, once, and a graph of each."""

from __future__ import annotations

import json
import os
import resource
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from producers.events import Events
from stream_icd.commands.programs.producer import ProducerRun
from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.errors import BadRow, BadSettings, BadSnapshot, LimitExceeded, StoreUnwritable
from stream_icd.core.snapshot import EPOCH, Snapshot, Window
from stream_icd.core.times import parse_duration, parse_wait, snapshot_id
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.sources.tables import read_rows
from stream_icd.sources.timed_rows import Columns, EventSettings
from stream_icd.sources.windows import (
    Hopping,
    LateRows,
    Quiet,
    Session,
    TimedRows,
    WindowRule,
    windowed_snapshots,
)
from stream_icd.wire.limits import Limits
from tests.real_data import real_data
from tests.sources.reading import weighted, write

HOUR = timedelta(hours=1)
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
    ("rule", "times", "end"), [(TUMBLING, [1, 14], 10), (Session(seconds(5)), [1, 6], 6)]
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


def n_windows_of(rule: WindowRule, time: int) -> int:
    """How many windows a time is in."""
    if isinstance(rule, Session):
        return 1
    hop, size, align = (span.seconds for span in (rule.hop, rule.size, rule.align))
    return (time - align) // hop - (time - align - size) // hop


@pytest.mark.parametrize("rule", RULES, ids=repr)
@settings(max_examples=40)
@given(
    streams=st.lists(TIMES, min_size=1, max_size=3),
    lateness=st.integers(0, 20),
    cuts=st.sets(st.integers(0, 40), max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_a_row_is_in_all_its_windows_or_late_however_rows_are_batched_and_streams_interleaved(
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

    times_of = {
        1000 * stream + place: time
        for stream, times in enumerate(streams)
        for place, time in enumerate(times)
    }
    assert [end for _, end, _ in windows] == sorted({end for _, end, _ in windows})
    for start, end, names in windows:
        assert all(start <= times_of[name] < end for name in names)
    held = Counter(name for _, _, names in windows for name in names)
    for name, time in times_of.items():
        assert held[name] == n_windows_of(rule, time) or (name in late)
        assert held[name] < n_windows_of(rule, time) or (name not in late)
    if lateness >= max(times_of.values()) - min(times_of.values()):
        assert late == []


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


def events(*rows: tuple[float, object, object], weights: list[float] | None = None) -> TimedRows:
    """(hour, src, dst) as they arrived."""
    hours, src, dst = zip(*rows, strict=True)
    at = np.array([round(hour * 3600e6) for hour in hours], np.int64)
    table = pa.table({"src": src, "dst": dst} | ({"weight": weights} if weights else {}))
    return TimedRows("mails.csv", 0, np.arange(2, len(at) + 2), at, table)


def graphs(
    arrived: TimedRows, after: datetime | None = None, **options: object
) -> tuple[list[Snapshot], Counter[str]]:
    counted: Counter[str] = Counter()
    settings = EventSettings(**{"graph": "mails", "rule": Hopping(HOUR, HOUR), **options})  # type: ignore[arg-type]
    source = windowed_snapshots(
        [arrived],
        settings,
        after=after,
        on_late=lambda late: counted.update(late=len(late.place)),
        count=lambda what, n: counted.update({what: n}),
    )
    return [snapshot for snapshot, _ in source.snapshots], counted


def test_a_window_is_a_graph_of_who_wrote_to_whom() -> None:
    (first, second), _ = graphs(events((0.1, 1, 2), (0.2, 2, 1), (0.9, 2, 3), (1.5, 7, 8)))
    assert first.id == "mails/1970-01-01T00:00:00Z/PT1H"
    assert (first.nodes.to_pylist(), first.edges.tolist()) == ([1, 2, 3], [[0, 1], [1, 2]])
    assert first.weights is None
    assert second.window.start == first.window.end


def test_edges_may_weigh_how_many_events_they_had_or_their_sum() -> None:
    rows = [(0.1, "a", "b"), (0.2, "b", "a"), (0.3, "b", "c")]
    (counted,), _ = graphs(events(*rows), counted=True)
    (summed,), _ = graphs(events(*rows, weights=[2.5, 1.0, 4.0]))
    assert weighted(counted) == {("a", "b"): 2, ("b", "c"): 1}
    assert weighted(summed) == {("a", "b"): 3.5, ("b", "c"): 4}


def test_small_windows_and_those_that_were_made_are_left_out_and_counted() -> None:
    arrived = events((0.1, 1, 1), (1.1, 1, 2), (2.1, 1, 2), (2.2, 2, 3))
    (only,), counted = graphs(arrived, least_nodes=3)
    assert (only.window.start.hour, counted) == (2, {"small_windows": 2})
    (only,), counted = graphs(arrived, after=datetime(1970, 1, 1, 2, tzinfo=UTC))
    assert (only.window.start.hour, counted) == (2, {"earlier_windows": 2})


def test_a_window_whose_weights_are_too_large_is_not_left_out_silently() -> None:
    with pytest.raises(BadSnapshot, match="divide all weights"):
        graphs(events((0.1, 1, 2), (0.2, 2, 3), weights=[9e149, 9e149]))
    with pytest.raises(BadSettings):  # an edge needs two nodes
        EventSettings("mails", Hopping(HOUR, HOUR), least_nodes=1)


def test_late_rows_are_kept_in_a_file_each_once(tmp_path: Path) -> None:
    counted: Counter[str] = Counter()
    path, first, second = tmp_path / "late.jsonl", (0.1, 1, "b"), (0.5, 2, "c")
    with capture_logs() as logged:
        for arrived, cut_off in (
            ([first], 0),
            ([first, second], 0),
            ([first], 0),
            ([first, second], 10),  # bytes that a crash cut off
            ([first, second], 0),
        ):
            LateRows(path, lambda what, n: counted.update({what: n}))(events(*arrived))
            os.truncate(path, path.stat().st_size - cut_off)
    assert {line["file"] for line in logged} == {str(path)}
    assert counted == {"late_rows": 8}
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"at": "mails.csv:2", "time": "1970-01-01T00:06:00+00:00", "src": 1, "dst": "b"},
        {"at": "mails.csv:3", "time": "1970-01-01T00:30:00+00:00", "src": 2, "dst": "c"},
    ]


@contextmanager
def disk_of(n_bytes: int) -> Iterator[None]:
    """Let no file of this process grow above `n_bytes`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def late_rows(path: Path) -> LateRows:
    return LateRows(path, lambda _what, _n: None)


def test_a_full_disk_leaves_no_part_of_a_late_row(tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    late = late_rows(path)
    late(events((0.1, 1, "b")))
    before = path.read_text()
    with disk_of(len(before) + 20), pytest.raises(StoreUnwritable, match=r"late\.jsonl.*make room"):
        late(events((0.1, 1, "b"), (0.5, 2, "c")))
    assert path.read_text() == before
    late_rows(path)(events((0.1, 1, "b"), (0.5, 2, "c")))
    assert len(path.read_text().splitlines()) == 2


def test_a_file_for_late_rows_that_is_something_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "letters.txt"
    for content in ("Dear all\n", "Dear all"):
        path.write_text(content)
        with pytest.raises(BadSettings, match=r"letters\.txt.*--late-rows"):
            late_rows(path)
        assert path.read_text() == content
    path.write_text("[" * 100_000)
    with pytest.raises(BadSettings, match="does not hold late rows"):
        late_rows(path)
    with pytest.raises(BadSettings, match="there is no folder .*none: make it"):
        late_rows(tmp_path / "none" / "late.jsonl")
    late_rows(tmp_path / "late.jsonl")
    assert list(tmp_path.iterdir()) == [path]  # no late row makes no file
    late = late_rows(tmp_path / "late.jsonl")
    for day in (1, 2):  # of two files of one name, a/mails.csv and b/mails.csv
        late(events((day, 1, 2)))
    assert len((tmp_path / "late.jsonl").read_text().splitlines()) == 2


def test_windows_are_named_in_iso_8601() -> None:
    names = {"P3D": timedelta(days=3), "PT90M": timedelta(minutes=90), "PT0S": timedelta(0),
             "PT1.500000S": timedelta(milliseconds=1500)}  # fmt: skip
    for text, span in names.items():
        window = Window(EPOCH, EPOCH + span)
        assert snapshot_id("mails", window) == f"mails/1970-01-01T00:00:00Z/{text}"
    snapshots, _ = graphs(events((0.0, 1, 2), (0.3, 2, 3), (5.0, 1, 3)), rule=Session(HOUR))
    assert [one.id[26:] for one in snapshots] == ["/PT78M", "/PT1H"]


def test_real_mails_have_seventy_windows_of_three_days_with_500_people() -> None:
    columns = Columns("t", {"src": "src", "dst": "dst"})
    raw = read_rows(real_data("email_eu_temporal.parquet"), columns.names, pytest.fail)
    three_days = Hopping(timedelta(days=3), timedelta(days=3))
    counted: Counter[str] = Counter()
    source = windowed_snapshots(
        columns.read(raw, pytest.fail),
        EventSettings("email", three_days, least_nodes=500),
        on_late=pytest.fail,
        count=lambda what, n: counted.update({what: n}),
    )
    sizes = [snapshot.n_nodes for snapshot, _ in source.snapshots]
    assert len(sizes) == 70
    assert min(sizes) >= 500
    assert counted == {"small_windows": 108}


def test_columns_of_other_names_are_named_by_options(tmp_path: Path) -> None:
    folder = write(tmp_path, {"mails.csv": "sender,receiver,t,w\na,b,1,1e-200\n"})
    mails = f"events:path={folder / 'mails.csv'}"
    for options, error, why in (
        ("", BadSettings, r"expected t, src, dst\. Options .*; --columns"),
        (",src=sender,dst=receiver,window=0s", BadSettings, "windows of 0:00:00"),
        (",src=sender,dst=receiver,weight=w", BadRow, "w '1e-200' is out of range"),
    ):
        with pytest.raises(error, match=why):
            training_graphs(mails + options)
    (graph,) = training_graphs(f"{mails},src=sender,dst=receiver")
    assert graph.adjacency.shape == (2, 2)


@pytest.mark.parametrize("option", ["session", "hop"])
def test_an_empty_duration_is_not_taken_for_none(option: str, tmp_path: Path) -> None:
    """As from an unset variable of a script."""
    events = Events(path=tmp_path, **{option: ""})  # type: ignore[arg-type]
    with pytest.raises(BadSettings, match="'' is not a duration"):
        events.open(ProducerRun(KafkaSettings(), events, threading.Event()))


def test_asked_to_stop_it_reads_no_more_files_to_sort(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(("a.csv", "b.csv"), "t,src,dst\n0,1,2\nsoon,1,2\n"))
    events, stop = Events(path=tmp_path, sort=True, ids="integer"), threading.Event()
    run = ProducerRun(KafkaSettings(), events, stop)
    stop.set()
    assert list(events.open(run).snapshots) == []
    assert run.n_bad_rows == 1
