"""`stream-icd label`: a table of labels, whenever it is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.errors import BadRow, BadSettings
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.topics import LABELS, create_topics
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.snapshots import encode_snapshot
from tests.run_here import run_here
from tests.testbed.brokers import Broker
from tests.testbed.lessons import GRAPH, small_windows

WINDOWS = small_windows(3)


WRONG: list[tuple[str, list[tuple[object, ...]], str]] = [
    ("src,dst", [(1, 2)], "columns src, dst; a table of labels has node and community"),
    ("node,community", [], "no labels"),
    ("snapshot,node,community", [("a", 1, 2), ("a", 1, 3)], "node '1' of a is in '3'"),
    ("node,community", [(1, 2), (1, 3)], "node '1' of each window is in '3'"),
    ("snapshot,node,community", [("a", 1, "")], "node or community is missing"),
    ("window_start,node,community", [("soon", 1, 2)], "is not a time"),
]


@pytest.fixture
def archive(tmp_path: Path) -> str:
    place = str(tmp_path / "archive")
    for snapshot, _ in WINDOWS:
        Archive(open_store(place)).add("snapshots", encode_snapshot(snapshot))
    return place


def _table(path: Path, rows: list[tuple[object, ...]], columns: str) -> str:
    lines = [columns, *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _rows(numbers: tuple[int, ...]) -> list[tuple[object, ...]]:
    return [
        (WINDOWS[at][0].id, node, f"c{community}")
        for at in numbers
        for node, community in zip(
            WINDOWS[at][1].nodes.to_pylist(), WINDOWS[at][1].labels.tolist(), strict=True
        )
    ]


@pytest.mark.brokers("memory")
def test_labels_of_a_table_reach_the_topic(broker: Broker, archive: str, tmp_path: Path) -> None:
    create_topics(broker.settings())
    table = _table(tmp_path / "known.csv", _rows((0, 2)), "snapshot,node,community")
    done = run_here("label", table, "--archive", archive, "-b", broker.bootstrap_servers)
    assert done.stdout == "sent 320 labels of 2 windows (0 partly)\n", done.stderr
    with open_reader(broker.settings(), LABELS, until="end") as records:
        found = [decode_labels(r.key, r.value, r.headers) for r in records]
    by_id = {labels.snapshot_id: labels for labels in found}
    for at in (0, 2):
        snapshot, known = WINDOWS[at]
        sent = by_id[snapshot.id]
        assert (sent.graph, sent.window) == (GRAPH, snapshot.window)
        assert sent.nodes.equals(known.nodes)
        assert sent.labels.tolist() == known.labels.tolist()


def test_what_nobody_knows_is_counted_and_not_sent(archive: str, tmp_path: Path) -> None:
    rows = [*_rows((0,))[:100], (WINDOWS[0][0].id, 99_999, "c1"), ("small/never", 1, "c1")]
    table = _table(tmp_path / "known.csv", rows, "snapshot,node,community")
    done = run_here("label", table, "--archive", archive, "--dry-run")
    assert done.stdout.splitlines() == [
        "would send 100 labels of 1 windows (1 partly)",
        "1 labels are of nodes that their window does not have",
        "1 windows are not archived, such as small/never",
    ]


def test_a_window_with_two_names_is_refused(archive: str, tmp_path: Path) -> None:
    rows = _rows((0,))
    short = [(str(row[0]).removeprefix(f"{GRAPH}/"), *row[1:]) for row in rows]
    table = _table(tmp_path / "known.csv", [*rows[:80], *short[80:]], "snapshot,node,community")
    done = run_here("label", table, "--archive", archive, "--dry-run")
    assert done.returncode == 78
    assert f"are names of the same window, {rows[0][0]}: give all its labels one" in done.stderr


def test_windows_may_be_named_by_their_start(archive: str, tmp_path: Path) -> None:
    snapshot, known = WINDOWS[1]
    table = pa.table(
        {
            "graph": [GRAPH] * len(known.nodes),
            "window_start": [snapshot.window.start] * len(known.nodes),
            "node": known.nodes,
            "label": known.labels,
        }
    )
    pq.write_table(table, tmp_path / "known.parquet")
    done = run_here("label", str(tmp_path / "known.parquet"), "--archive", archive, "--dry-run")
    assert done.stdout == "would send 160 labels of 1 windows (0 partly)\n"


def test_labels_without_a_window_hold_in_each(archive: str, tmp_path: Path) -> None:
    rows = [row[1:] for row in _rows((0,))]
    table = _table(tmp_path / "known.csv", [*rows, (99_999, "c1")], "node,community")
    done = run_here("label", table, "--archive", archive, "--dry-run")
    assert done.stdout.splitlines() == [
        "would send 480 labels of 3 windows (0 partly)",
        "1 labels are of nodes that their window does not have",
    ]


def test_labels_that_may_be_of_several_graphs_are_refused(archive: str, tmp_path: Path) -> None:
    other = replace(WINDOWS[0][0], graph="other", id="other/1")
    Archive(open_store(archive)).add("snapshots", encode_snapshot(other))
    table = _table(tmp_path / "known.csv", [(1, 1)], "node,community")
    done = run_here("label", table, "--archive", archive, "--dry-run")
    assert done.returncode == 78
    assert f"those of 2 graphs, other, {GRAPH}: choose one with --graph" in done.stderr
    chosen = run_here("label", table, "--archive", archive, "--graph", "other", "--dry-run")
    assert chosen.stdout == "would send 1 labels of 1 windows (1 partly)\n"
    table = _table(tmp_path / "known.csv", [("other/1", 1, 1)], "snapshot,node,community")
    chosen = run_here("label", table, "--archive", archive, "--dry-run")
    assert chosen.stdout == "would send 1 labels of 1 windows (1 partly)\n"


def test_a_name_is_taken_for_a_file_only_if_it_is_no_window(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "archive"))
    for at, name in enumerate(("1999", "1999.04")):
        snapshot = replace(WINDOWS[at][0], id=f"{GRAPH}/{name}")
        Archive(store).add("snapshots", encode_snapshot(snapshot))
    table = _table(tmp_path / "known.csv", [("1999", 1, 1)], "snapshot,node,community")
    done = run_here("label", table, "--archive", str(tmp_path / "archive"), "--dry-run")
    assert done.stdout == "would send 1 labels of 1 windows (1 partly)\n"


def test_a_folder_that_is_no_archive_is_said(tmp_path: Path) -> None:
    table = _table(tmp_path / "known.csv", [(1, 1)], "node,community")
    done = run_here("label", table, "--archive", str(tmp_path), "--dry-run")
    assert done.returncode == 78
    assert "stream-icd consume archive" in done.stderr


@pytest.mark.parametrize(("columns", "rows", "said"), WRONG)
def test_a_wrong_table_is_refused_as_it_is_for_training(
    archive: str, tmp_path: Path, columns: str, rows: list[tuple[object, ...]], said: str
) -> None:
    table = _table(tmp_path / "wrong.csv", rows, columns)
    done = run_here("label", table, "--archive", archive, "--dry-run")
    assert done.returncode in (65, 78)
    assert said in done.stderr
    with pytest.raises((BadSettings, BadRow)) as error:
        training_graphs(f"archive:path={archive},labels={table}")
    assert str(error.value) in done.stderr.replace("\n", " ")
