"""`stream-icd label`: a table of labels, whenever it is known."""

from __future__ import annotations

from collections.abc import Sequence
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
from tests.run_here import Done, run_here
from tests.testbed.brokers import Broker
from tests.testbed.lessons import GRAPH, small_windows

Row = tuple[object, ...]
WINDOWS = small_windows(3)
PER_WINDOW = "snapshot,node,community"


@pytest.fixture
def archive(tmp_path: Path) -> str:
    place = str(tmp_path / "archive")
    for snapshot, _ in WINDOWS:
        Archive(open_store(place)).add("snapshots", encode_snapshot(snapshot))
    return place


def labelled(archive: str, columns: str, rows: Sequence[Row], *options: str) -> Done:
    """Run `stream-icd label` with a table of these rows; a dry run without further options."""
    table = Path(archive).with_name("known.csv")
    table.write_text("\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return run_here("label", str(table), "--archive", archive, *(options or ["--dry-run"]))


def labels_of(at: int) -> list[Row]:
    """Rows of a table: window, node, community."""
    snapshot, labels = WINDOWS[at]
    communities = [f"c{community}" for community in labels.labels.tolist()]
    return [(snapshot.id, *row) for row in zip(labels.nodes.to_pylist(), communities, strict=True)]


@pytest.mark.brokers("memory")
def test_labels_of_a_table_reach_the_topic(broker: Broker, archive: str) -> None:
    create_topics(broker.settings())
    rows = [*labels_of(0), *labels_of(2)]
    done = labelled(archive, PER_WINDOW, rows, "-b", broker.bootstrap_servers)
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


def test_what_nobody_knows_is_counted_and_not_sent(archive: str) -> None:
    rows = [*labels_of(0)[:100], (WINDOWS[0][0].id, 99_999, "c1"), ("small/never", 1, "c1")]
    assert labelled(archive, PER_WINDOW, rows).stdout.splitlines() == [
        "would send 100 labels of 1 windows (1 partly)",
        "1 labels are of nodes that their window does not have",
        "1 windows are not archived, such as small/never",
    ]
    in_each_window = [row[1:] for row in [*labels_of(0), ("", 99_999, "c1")]]
    assert labelled(archive, "node,community", in_each_window).stdout.splitlines() == [
        "would send 480 labels of 3 windows (0 partly)",
        "1 labels are of nodes that their window does not have",
    ]


def test_a_window_has_one_name_or_its_start(archive: str, tmp_path: Path) -> None:
    rows = labels_of(0)
    short = [(str(row[0]).removeprefix(f"{GRAPH}/"), *row[1:]) for row in rows]
    done = labelled(archive, PER_WINDOW, [*rows[:80], *short[80:]])
    assert done.returncode == 78
    assert f"are names of the same window, {rows[0][0]}: give all its labels one" in done.stderr

    snapshot, known = WINDOWS[1]
    n = len(known.nodes)
    places = {"graph": [GRAPH] * n, "window_start": [snapshot.window.start] * n}
    table = pa.table(places | {"node": known.nodes, "label": known.labels})
    pq.write_table(table, tmp_path / "known.parquet")
    done = run_here("label", str(tmp_path / "known.parquet"), "--archive", archive, "--dry-run")
    assert done.stdout == "would send 160 labels of 1 windows (0 partly)\n"


def test_labels_that_may_be_of_several_graphs_are_refused(archive: str) -> None:
    other = replace(WINDOWS[0][0], graph="other", id="other/1")
    Archive(open_store(archive)).add("snapshots", encode_snapshot(other))
    refused = labelled(archive, "node,community", [(1, 1)])
    assert refused.returncode == 78
    assert f"those of 2 graphs, other, {GRAPH}: choose one with --graph" in refused.stderr
    chosen = labelled(archive, "node,community", [(1, 1)], "--graph", "other", "--dry-run")
    named = labelled(archive, PER_WINDOW, [("other/1", 1, 1)])
    assert chosen.stdout == named.stdout == "would send 1 labels of 1 windows (1 partly)\n"


def test_a_name_is_taken_for_a_file_only_if_it_is_no_window_of_an_archive(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "archive"))
    for at, name in enumerate(("1999", "1999.04")):
        snapshot = replace(WINDOWS[at][0], id=f"{GRAPH}/{name}")
        Archive(store).add("snapshots", encode_snapshot(snapshot))
    done = labelled(str(tmp_path / "archive"), PER_WINDOW, [("1999", 1, 1)])
    assert done.stdout == "would send 1 labels of 1 windows (1 partly)\n"
    (tmp_path / "empty").mkdir()
    done = labelled(str(tmp_path / "empty"), "node,community", [(1, 1)])
    assert (done.returncode, "stream-icd consume archive" in done.stderr) == (78, True)


def test_a_wrong_table_is_refused_as_it_is_for_training(archive: str) -> None:
    for columns, rows, said in (
        ("node,community", [], "no labels"),
        ("node,community", [(1, 2), (1, 3)], "node '1' of each window is in '3'"),
        (PER_WINDOW, [("a", 1, 2), ("a", 1, 3)], "node '1' of a is in '3'"),
    ):
        done = labelled(archive, columns, rows)
        assert (done.returncode in (65, 78), said in done.stderr) == (True, True)
        with pytest.raises((BadSettings, BadRow)) as error:
            training_graphs(f"archive:path={archive},labels={Path(archive).with_name('known.csv')}")
        assert str(error.value) in done.stderr.replace("\n", " ")
