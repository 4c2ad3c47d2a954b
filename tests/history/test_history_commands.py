"""`stream-icd history`: the archive as people list, show and export it; files appear whole."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from stream_icd.core.errors import BadSettings, SourceNotFound
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.export import export
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.events import encode_events
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import (
    START,
    add_snapshots,
    archived,
    make_communities,
    make_events,
    make_snapshot,
    run,
)

history = partial(run, "history")


@pytest.fixture
def filled(disk: Store) -> Store:
    """Three snapshots of two days, and the communities of the first."""
    archive = Archive(disk)
    for i in (1, 2, 30):
        archive.add("snapshots", encode_snapshot(make_snapshot(i)))
    archive.add("communities", encode_communities(make_communities(make_snapshot(1))))
    return disk


COMMANDS = {"list": (), "show": ("test/1",), "export": ("--out", "out.csv"), "compact": ()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_without_an_archive_is_named(command: str, disk: Store, tmp_path: Path) -> None:
    (tmp_path / "file.csv").touch()
    (tmp_path / "empty").mkdir()
    add_snapshots(disk, [make_snapshot(1)])  # its first write was cut short
    (file,) = Path(disk.root).rglob("*.parquet")
    file.rename(file.with_name("_0123.part"))
    nothing = "holds no archived snapshots; to archive them: .*archive"
    for place, error, reason in (
        (
            tmp_path / "histry",
            SourceNotFound,
            "there is no .*/histry: .*stream-icd consume archive",
        ),
        (tmp_path / "file.csv", BadSettings, r"/file\.csv is a file: give a folder"),
        (tmp_path / "empty", SourceNotFound, nothing),
        (disk.root, SourceNotFound, nothing),
    ):
        with pytest.raises(error, match=reason):
            history(command, str(place), *COMMANDS[command])


@pytest.mark.parametrize("command", ["list", "export", "compact"])
def test_a_graph_that_matches_nothing_is_an_error(command: str, filled: Store) -> None:
    with pytest.raises(
        BadSettings, match="no snapshots of graph tset; it holds test; did you mean"
    ):
        history(command, filled.uri, "--graph", "tset", *COMMANDS[command])


def test_what_matches_nothing_is_an_error_that_names_what_there_is(filled: Store) -> None:
    model = ("--model", "m@2", "--out", "o.csv")
    for command, arguments, error, reason in (
        ("list", ("--from", "2027-01-01"), BadSettings, "start from 2026-01-01 .* to 2026-01-02 "),
        ("list", ("--from", "tomorrow"), BadSettings, "--from 'tomorrow': give a day or a time"),
        ("list", ("--from", "0001-01-01T00:00+05:00"), BadSettings, "give a day or a time"),
        ("list", ("--kind", "memory"), SourceNotFound, "holds no archived memory"),
        ("export", ("--kind", "communities", *model), BadSettings, "holds those of m@1"),
        ("export", model, BadSettings, "give --kind communities or events, too"),
    ):
        with pytest.raises(error, match=reason):
            history(command, filled.uri, *arguments)
    missing = history("show", filled.uri, "test/77", exit_code=1)
    assert "holds no snapshot test/77" in missing.stderr


def test_list_counts_what_is_there_and_show_gives_the_headers(filled: Store) -> None:
    lines = history("list", filled.uri).stdout.splitlines()
    (snapshots,) = [line.split() for line in lines if line.strip().startswith("snapshots")]
    assert snapshots[1:7] == ["test", "2026-01-01", "01:00", "2026-01-02", "06:00", "3"]
    assert any(line.split()[:3] == ["communities", "test", "m@1"] for line in lines)
    listed = history("list", filled.uri, "--windows", "--kind", "snapshots", "--to", "2026-01-02")
    assert [line.split("\t")[5] for line in listed.stdout.splitlines()] == ["test/1", "test/2"]
    shown = history("show", filled.uri, "test/1").stdout.replace("}\n{", "},{")
    snapshot, communities = json.loads(f"[{shown}]")
    assert (snapshot["kind"], communities["kind"]) == ("snapshots", "communities")
    assert snapshot["headers"]["icd_k"] == "3"
    assert communities["headers"]["icd_model"] == "m@1"


@pytest.mark.parametrize("kind", [int, str])
def test_events_are_listed_shown_and_exported_like_the_others(
    filled: Store, tmp_path: Path, kind: type
) -> None:
    named = make_events(make_snapshot(1, kind=kind), "mostly US")
    for events in (make_events(make_snapshot(0, kind=kind)), named):
        Archive(filled).add("events", encode_events(events))
    lines = history("list", filled.uri, "--kind", "events").stdout.splitlines()
    assert lines[-1].split()[:3] == ["events", "test", "m@1"]
    lines = history("list", filled.uri, "--kind", "events", "--windows").stdout.splitlines()
    assert lines[-1].split("\t")[3:] == ["3", "test", "test/1", "m@1", "r1", "newest"]
    shown = history("show", filled.uri, "test/1").stdout
    assert '"kind": "events"' in shown
    assert '"icd_late": "false"' in shown
    out = tmp_path / "events.csv"
    result = history("export", filled.uri, "--kind", "events", "--model", "m@1", "--out", str(out))
    assert "6 rows" in result.stdout
    table = pyarrow.csv.read_csv(out)
    assert table["event"].to_pylist() == ["born"] * 6
    assert table["name"].to_pylist() == ["", "", "", "mostly US", "", ""]
    assert set(table["model"].to_pylist() + table["revision"].to_pylist()) == {"m@1", "r1"}
    members = named.members_of(0).to_pylist()
    assert table["members"].to_pylist()[3].split() == [str(node) for node in members]


def test_compact_says_what_it_did(filled: Store) -> None:
    # A day of another zone is over when it is over in UTC.
    for before, n_days in (("2026-01-02T01:00+05:00", 0), ("2026-01-01T23:00-05:00", 1)):
        dry = history("compact", filled.uri, "--dry-run", "--before", before).stdout
        assert f"{n_days} days would be merged" in dry
    assert "date=2026-01-01: 2 windows, 2 files -> 1" in dry
    assert "1 days would be merged, 1 files would be saved" in dry
    assert len(filled.files()) == 4
    assert "1 days were merged" in history("compact", filled.uri, "--before", "2026-02-01").stdout
    assert len(filled.files()) == 3
    (file, *_) = Path(filled.root).rglob("*.parquet")
    (unfinished := file.with_name("_0123.part")).write_bytes(b"half of it")
    history("compact", filled.uri, "--before", "2999-01-01")
    assert unfinished.exists()


READERS = {
    "parquet": pq.read_table,
    "csv": pa.csv.read_csv,
    "arrow": lambda path: pa.ipc.open_file(path).read_all(),
}


@pytest.mark.parametrize("suffix", READERS)
def test_each_format_holds_every_row(disk: Store, tmp_path: Path, suffix: str) -> None:
    sent = [make_snapshot(i) for i in (5, 1)]
    add_snapshots(disk, sent)
    out = tmp_path / f"rows.{suffix}"
    n_rows = export(disk, Selection(), out)
    table = READERS[suffix](out)
    assert table.num_rows == n_rows == sum(one.n_edges + 1 for one in sent)
    assert list(dict.fromkeys(table["snapshot_id"].to_pylist())) == ["test/1", "test/5"]
    assert set(table["graph"].to_pylist()) == {"test"}
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_ids_of_two_types_do_not_go_into_one_file(disk: Store, tmp_path: Path) -> None:
    add_snapshots(disk, [make_snapshot(0), make_snapshot(1, graph="words", kind=str)])
    out = tmp_path / "rows.parquet"
    with pytest.raises(BadSettings, match="words.*--graph"):
        export(disk, Selection(), out)
    assert not out.exists()
    export(disk, Selection(graph="words"), out)
    assert pq.read_table(out)["src"].type == pa.string()
    with pytest.raises(BadSettings, match="rows.xls"):
        export(disk, Selection(), tmp_path / "rows.xls")


@pytest.mark.parametrize("narrow_one", [0, 1])
def test_integers_of_all_widths_go_into_one_file(
    disk: Store, tmp_path: Path, narrow_one: int
) -> None:
    """An archiver of an earlier version took int32 ids as a producer sent them."""
    messages = [encode_snapshot(make_snapshot(i)) for i in range(2)]
    sent = list(messages)
    table = pa.ipc.open_stream(sent[narrow_one].value).read_all()
    ids = {name: table[name].cast(pa.int32()) for name in ("src", "dst")}
    columns = dict(zip(table.column_names, table.columns, strict=True))
    sent[narrow_one] = replace(sent[narrow_one], value=write_table(pa.table(columns | ids)))
    for message in sent:
        Archive(disk).add("snapshots", message)
    assert "int32" in list(Archive(disk).windows())[narrow_one].schema
    assert archived(disk) == messages
    export(disk, Selection(), tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet")["src"].type == pa.int64()


GEXF = {"g": "http://gexf.net/1.3"}
AT = [f"2026-01-01T{hour:02}:00:00Z" for hour in range(5)]
ALL = Selection(graph="g")


def window(hour: int, pairs: list[tuple[str, str]], weights: list[float]) -> Snapshot:
    start = START + timedelta(hours=hour)
    src, dst = zip(*pairs, strict=True)
    span = Window(start, start + timedelta(hours=1))
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{hour}", window=span, weights=weights)


def found(snapshot: Snapshot, ids: list[int], model: str = "m@1") -> Message:
    known, labels = np.unique(ids, return_inverse=True)
    communities = replace(
        make_communities(snapshot, model),
        labels=labels.astype(np.int32),
        community_ids=known.astype(np.int64),
        replaced=np.empty((0, 2), np.int64),
        probabilities=np.full(len(ids), 0.75, np.float32),
    )
    return encode_communities(communities)


@pytest.fixture
def archive(disk: Store) -> Store:
    """Three hours: b leaves community 4, the edge a-b pauses for an hour, and d comes last."""
    hours = [
        window(0, [("a", "b"), ("b", "c")], [1, 2]),
        window(1, [("b", "c"), ("a", "c")], [2, 1]),
        window(2, [("a", "b"), ("b", "c"), ("c", "<d>")], [1, 3, 1]),
    ]
    add_snapshots(disk, hours)
    for hour, ids in zip(hours, ([4, 4, 4], [4, 4, 4], [7, 4, 7, 7]), strict=True):
        Archive(disk).add("communities", found(hour, ids))
    return disk


def spells(element: Any) -> list[tuple[str, str]]:
    return [(s.get("start"), s.get("end")) for s in element.findall(".//g:spell", GEXF)]


def values(element: Any, name: str) -> list[tuple[str, str, str]]:
    return [
        (v.get("value"), v.get("start"), v.get("end"))
        for v in element.findall(".//g:attvalue", GEXF)
        if v.get("for") == name
    ]


def test_gexf_has_a_time_line(archive: Store, tmp_path: Path) -> None:
    out = tmp_path / "g.gexf"
    assert export(archive, ALL, out) == 4
    root = ElementTree.parse(out).getroot()
    nodes = {node.get("id"): node for node in root.iter(f"{{{GEXF['g']}}}node")}
    edges = {(e.get("source"), e.get("target")): e for e in root.iter(f"{{{GEXF['g']}}}edge")}
    assert set(nodes) == {"a", "b", "c", "<d>"}
    # In the last hour, nodes are "<d>", "a", "b", "c": ids ascend.
    assert values(nodes["a"], "community_id") == [("4", AT[0], AT[3])]
    assert values(nodes["b"], "community_id") == [("4", AT[0], AT[2]), ("7", AT[2], AT[3])]
    assert values(nodes["<d>"], "community_id") == [("7", AT[2], AT[3])]
    assert values(nodes["b"], "probability") == [("0.75", AT[0], AT[3])]
    assert spells(nodes["b"]) == [(AT[0], AT[3])]
    assert spells(edges["a", "b"]) == [(AT[0], AT[1]), (AT[2], AT[3])]
    assert values(edges["b", "c"], "weight") == [("2", AT[0], AT[2]), ("3", AT[2], AT[3])]
    assert len(edges) == 4


def test_graphml_has_the_newest_window(archive: Store, tmp_path: Path) -> None:
    out = tmp_path / "g.graphml"
    assert export(archive, ALL, out) == 4
    graph = networkx.read_graphml(out)
    assert dict(graph.nodes["b"]) == {"community_id": 7, "probability": 0.75}
    assert graph.edges["b", "c"] == {"weight": 3.0}
    assert {tuple(sorted(edge)) for edge in graph.edges} == {("a", "b"), ("b", "c"), ("<d>", "c")}
    before = replace(ALL, end=START + timedelta(hours=1))
    assert export(archive, before, out) == 3
    for path in archive.files("communities"):
        archive.delete(path)
    export(archive, ALL, out)
    assert dict(networkx.read_graphml(out).nodes["b"]) == {}


def test_what_is_no_single_graph_is_said(archive: Store, tmp_path: Path) -> None:
    out = tmp_path / "g.gexf"
    with pytest.raises(BadSettings, match="holds one graph: name it with --graph"):
        export(archive, Selection(), out)
    with pytest.raises(BadSettings, match="holds no snapshots of graph other"):
        export(archive, Selection(graph="other"), out)
    hour = window(0, [("a", "b"), ("b", "c")], [1, 2])
    Archive(archive).add("communities", found(hour, [4, 4, 4], "other@2"))
    with pytest.raises(BadSettings, match=r"m@1.*other@2.*--model"):
        export(archive, ALL, out)
    assert export(archive, replace(ALL, model="m@1"), out) == 4
