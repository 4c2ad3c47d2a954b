"""Exported files hold what was asked for, in order, and appear whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.export import export
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import START, add_snapshots, archived, make_communities, make_snapshot

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
