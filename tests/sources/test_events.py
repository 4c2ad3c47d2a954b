"""Mails, calls, payments: a graph for each window, and nothing of them lost without a word."""

from __future__ import annotations

import json
import os
import resource
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from producers.events import Events
from stream_icd.commands.programs.producer import ProducerRun
from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.errors import BadRow, BadSettings, BadSnapshot, StoreUnwritable
from stream_icd.core.snapshot import EPOCH, Snapshot, Window
from stream_icd.core.times import snapshot_id
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.sources.tables import columns_of, read_rows
from stream_icd.sources.timed_rows import Columns, EventSettings
from stream_icd.sources.windows import Hopping, LateRows, Session, TimedRows, windowed_snapshots
from tests.real_data import real_data
from tests.sources.reading import weighted, write

HOUR = timedelta(hours=1)
HOURLY = Hopping(HOUR, HOUR)


def events(*rows: tuple[float, object, object], weights: list[float] | None = None) -> TimedRows:
    """(hour, src, dst) as they arrived."""
    hours, src, dst = zip(*rows, strict=True)
    at = np.array([round(hour * 3600e6) for hour in hours], np.int64)
    table = pa.table({"src": src, "dst": dst} | ({"weight": weights} if weights else {}))
    return TimedRows("mails.csv", 0, np.arange(2, len(at) + 2), at, table)


def cut(
    arrived: TimedRows, after: datetime | None = None, **options: object
) -> tuple[list[Snapshot], Counter[str]]:
    counted: Counter[str] = Counter()
    settings = EventSettings(**{"graph": "mails", "rule": HOURLY, **options})  # type: ignore[arg-type]
    source = windowed_snapshots(
        [arrived],
        settings,
        after=after,
        on_late=lambda late: counted.update(late=len(late.place)),
        count=lambda what, n: counted.update({what: n}),
    )
    return [snapshot for snapshot, _ in source.snapshots], counted


def test_a_window_is_a_graph_of_who_wrote_to_whom() -> None:
    (first, second), _ = cut(events((0.1, 1, 2), (0.2, 2, 1), (0.9, 2, 3), (1.5, 7, 8)))
    assert first.id == "mails/1970-01-01T00:00:00Z/PT1H"
    assert (first.nodes.to_pylist(), first.edges.tolist()) == ([1, 2, 3], [[0, 1], [1, 2]])
    assert first.weights is None
    assert second.window.start == first.window.end


def test_edges_may_weigh_how_many_events_they_had_or_their_sum() -> None:
    rows = [(0.1, "a", "b"), (0.2, "b", "a"), (0.3, "b", "c")]
    (counted,), _ = cut(events(*rows), counted=True)
    (summed,), _ = cut(events(*rows, weights=[2.5, 1.0, 4.0]))
    assert weighted(counted) == {("a", "b"): 2, ("b", "c"): 1}
    assert weighted(summed) == {("a", "b"): 3.5, ("b", "c"): 4}


def test_small_windows_and_those_that_were_made_are_left_out_and_counted() -> None:
    rows = events((0.1, 1, 1), (1.1, 1, 2), (2.1, 1, 2), (2.2, 2, 3))
    (only,), counted = cut(rows, least_nodes=3)
    assert (only.window.start.hour, counted) == (2, {"small_windows": 2})
    (only,), counted = cut(rows, after=datetime(1970, 1, 1, 2, tzinfo=UTC))
    assert (only.window.start.hour, counted) == (2, {"earlier_windows": 2})


def test_a_window_whose_weights_are_too_large_is_not_left_out_silently() -> None:
    with pytest.raises(BadSnapshot, match="divide all weights"):
        cut(events((0.1, 1, 2), (0.2, 2, 3), weights=[9e149, 9e149]))
    with pytest.raises(BadSettings):  # an edge needs two nodes
        EventSettings("mails", HOURLY, least_nodes=1)


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
    snapshots, _ = cut(events((0.0, 1, 2), (0.3, 2, 3), (5.0, 1, 3)), rule=Session(HOUR))
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


@pytest.mark.parametrize("ends", [("src", "dst"), ("Source", "Target"), ("from", "to")])
def test_both_ends_are_found_by_their_usual_names(ends: tuple[str, str], tmp_path: Path) -> None:
    """As in an edge list."""
    mails = pa.table({ends[0]: ["a", "b"], "t": [1, 2], ends[1]: ["b", "c"]})
    write(tmp_path, {"mails.parquet": mails})
    with mock.patch("stream_icd.sources.tables.columns_of", wraps=columns_of) as looked:
        (graph,) = training_graphs(f"events:path={tmp_path / 'mails.parquet'}")
    assert looked.call_count == 1  # for these and the time
    assert graph.adjacency.shape == (3, 3)


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
