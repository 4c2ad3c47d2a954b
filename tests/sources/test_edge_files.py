"""A folder of edge lists: every form gives the same graph, and no file is read half."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import os
import pickle
import re
import shlex
import threading
import zipfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import networkx
import numpy as np
import polars
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound, StoreUnreachable
from stream_icd.core.snapshot import MOST_NODE_BYTES, Window
from stream_icd.core.times import parse_window
from stream_icd.sources.edge_files import watch_edge_files
from stream_icd.wire.limits import Limits
from tests.sources.reading import read, weighted

EDGES = [("a", "b", 2.0), ("b", "c", 1.0)]
TABLE = pa.table({"src": ["a", "b", "d"], "dst": ["b", "c", None], "weight": [2.0, 1.0, 1.0]})
VIEWS = pa.table([TABLE["src"].cast(pa.string_view()), TABLE["dst"].cast(pa.string_view()),
                  TABLE["weight"]], TABLE.column_names)  # fmt: skip
FRAME = polars.DataFrame(TABLE).cast({"src": polars.Categorical, "dst": polars.Categorical})
CATEGORIES = pa.table([TABLE["src"].dictionary_encode(), TABLE["dst"].dictionary_encode(),
                       TABLE["weight"]], TABLE.column_names)  # fmt: skip
CSV = "src,dst,weight\na,b,2\nb,c,1\nd,,\n"


def write_arrows(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("day/", "")
        archive.writestr("__MACOSX/day/._g.csv", "of macOS")
        archive.writestr("day/g.csv", CSV)


def write_packed_parquet(path: Path) -> None:
    pq.write_table(TABLE, path)
    path.write_bytes(pa.compress(path.read_bytes(), "zstd", asbytes=True))


def write_graphml(path: Path) -> None:
    graph = networkx.Graph()
    graph.add_node("d")
    graph.add_weighted_edges_from(EDGES)
    networkx.write_graphml(graph, path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "g.csv": lambda path: path.write_text(CSV),
    "g.csv.zip": write_zip,
    "commented.csv": lambda path: path.write_text(f"# of me\n% of me\n#{CSV}# the end\n%\n"),
    "windows.csv": lambda path: path.write_bytes(CSV.replace("\n", "\r\n").encode("utf-16")),
    "named.csv": lambda path: path.write_text(CSV.replace("src,dst", "source,target")),
    "g.parquet": lambda path: pq.write_table(TABLE, path),
    "views.parquet": lambda path: pq.write_table(VIEWS, path),
    "categories.parquet": lambda path: pq.write_table(CATEGORIES, path),
    "categories.arrow": lambda path: FRAME.write_ipc(path),
    "packed.parquet.zst": write_packed_parquet,
    "stream.arrow": write_arrows,
    "file.arrows": lambda path: write_arrow(TABLE, path),
    "g.arrow": lambda path: feather.write_feather(TABLE, path),
    "g.graphml": write_graphml,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_form_gives_the_same_graph(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    (snapshot,), bad = read(tmp_path, graph="friends")
    assert (snapshot.id, bad) == (f"friends/{name}", [])
    assert snapshot.nodes.to_pylist() == ["a", "b", "c", "d"]
    assert weighted(snapshot) == {("a", "b"): 2, ("b", "c"): 1}


WHOLE = {
    "half.csv": "src,dst\n1,2.0\n2,3.0\n5,",
    "all.csv": "src,dst\n1.0,2\n2.0,3\n5.0,",
    "g.graphml": "<graphml><graph><node id='5.0'/><edge source='1.0' target='2.0'/>"
    "<edge source='2' target='3.0'/></graph></graphml>",
    "pandas.txt": "1.0,2.0\n2.0,3.0\n3.0,5.0\n",
    "numpy.txt": "1.0e+00 2.0e+00 1e-1\n2.0e+00 5.0e+00 1\n3.0e+00 5.0e+00 1\n",
    "g.parquet": "",
}


@pytest.mark.parametrize("name", WHOLE)
def test_integers_that_pandas_and_numpy_write_as_floats_are_ids(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(WHOLE[name])
    if name == "g.parquet":
        pq.write_table(pa.table({"src": [1, 2, 5], "dst": [2.0, 3.0, None]}), tmp_path / name)
    (snapshot,), bad = read(tmp_path)
    assert (snapshot.nodes.to_pylist(), bad) == ([1, 2, 3, 5], [])


DAYS = {
    "all numbers first": ["1,2\n2,3\n", "admin,3\n1,2\n", "1,2\n3,1\n"],
    "a name in the middle": ["1,2\nadmin,3\n", "admin,3\n1,2\n", "1,2\n2,3\n"],
    "a name first": ["admin,3\n1,2\n", "1,2\n3,1\n", "1.0,2\n3.0,1\n"],
}


@pytest.mark.parametrize("name", DAYS)
def test_a_graph_keeps_the_kind_of_its_ids_from_file_to_file(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for day, rows in enumerate(DAYS[name], start=1):
        (tmp_path / f"2026-01-0{day}.csv").write_text("src,dst\n" + rows)
    found, bad = read(tmp_path)
    numbers = name == "all numbers first"
    one = 1 if numbers else "1"
    assert all(one in snapshot.nodes.to_pylist() for snapshot in found)
    refused = [error for error in bad if "not of type integer (--ids)" in error]
    assert len(refused) == numbers  # the row of admin; else all are used
    assert ("so all its ids are text (--ids): one is admin" in caplog.text) != numbers


def test_files_keep_the_kind_that_the_graph_has(tmp_path: Path) -> None:
    (tmp_path / "2026-01-01.csv").write_text("src,dst\n1,2.0\n2,3.0\n")
    pq.write_table(pa.table({"src": [1], "dst": [2]}), tmp_path / "2026-01-02.parquet")
    for snapshot in read(tmp_path, kind_before=lambda: "string")[0]:
        assert set(snapshot.nodes.to_pylist()) <= {"1", "2", "3"}
    for snapshot in read(tmp_path, id_kind="integer", kind_before=lambda: "string")[0]:
        assert set(snapshot.nodes.to_pylist()) <= {1, 2, 3}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {
                "z.txt": "# SNAP\n# From\tTo\n1\t2\n2\t3\n",
                "a.txt": "1\t2\t\n",
                "b.txt": "1\t2\t.5\tx\n2\t3\t1\ty\n",
                "c.txt": "1\t2\t7\n",
            },
            [
                "z.txt has no header: columns 1 and 2, separated by tabs, are the ends of edges, "
                "the first one is 1 - 2",
                "b.txt has no header: only columns 1 and 2, separated by tabs, are used, not 3, 4",
            ],
        ),
        (
            {
                "2026-01-01.csv": "src,dst,weight,kind\n1,2,3,4\n",
                "2026-01-02.csv": "src,dst,weight,kind\n1,2,3,4\n",
                "2026-01-03.csv": ",src,dst,weight,kind,t\n0,1,2,3,4,5\n",
                "2026-01-04.csv": ",src,dst,weight,kind,t\n0,1,2,3,4,5\n",
                "2026-01-05.csv": "from,kind,to,value\n1,x,2,3\n",
            },
            [
                "2026-01-01.csv has columns that are not used: kind",
                "2026-01-03.csv has columns that are not used: one without a name, t",
                "2026-01-05.csv has no column named weight, so all edges weigh 1: not used are "
                "kind, value (",
            ],
        ),
        (
            {"g.txt": "#FromNodeId\tToNodeId\n1\t2\n2\t3\n"},
            [
                "g.txt holds numbers below its first line (#FromNodeId, ToNodeId), which is taken "
                "for a comment",
                "g.txt has no header",
            ],
        ),
    ],
    ids=["without a header", "not used", "a comment"],
)
def test_what_is_guessed_or_not_used_is_logged_of_the_first_file(
    files: dict[str, str], said: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found, bad = read(tmp_path)
    assert (len(found), bad) == (len(files), [])
    logged = [text for text in caplog.messages if " no day " not in text and "late" not in text]
    assert len(logged) == len(said)
    assert all(one.startswith(start) for one, start in zip(logged, said, strict=True)), logged


def test_one_snapshot_a_file_in_the_order_of_windows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the order of names, a tracker would take 2.csv to 9.csv for late."""
    for name in ("10.csv", "9.csv", "notes.md", ".hidden.csv", "c.csv.tmp", "d.csv.part"):
        (tmp_path / name).write_text("1,2\n")
        os.utime(tmp_path / name, (0, {"9.csv": 9, "10.csv": 10}.get(name, 0)))
    assert [snapshot.id for snapshot in read(tmp_path)[0]] == ["files/9.csv", "files/10.csv"]
    others, said, _ = (record.getMessage() for record in caplog.records)
    assert others.startswith("not sent: c.csv.tmp, d.csv.part, notes.md. Files are read that are")
    assert said.startswith("10.csv has no day such as 2026-01-31 in its name")
    os.utime(tmp_path / "9.csv", (0, 10))
    assert [snapshot.id for snapshot in read(tmp_path)[0]] == ["files/10.csv", "files/9.csv"]
    assert "1 files share a window, and are late" in caplog.text


LATIN = pa.Array.from_buffers(pa.string(), 2, pa.array([b"b", b"caf\xe9"]).buffers())  # no UTF-8
BOMB = '<!DOCTYPE g [<!ENTITY a "b">]><graphml><node id="&a;"/></graphml>'


def two_files() -> bytes:
    with zipfile.ZipFile(content := io.BytesIO(), "w") as archive:
        archive.writestr("a.csv", "1,2\n")
        archive.writestr("b.csv", "2,3\n")
    return content.getvalue()


def write_long_arrow(path: Path) -> None:
    """An Arrow file whose buffer says that it has 2^62 bytes."""
    table = pa.table({"src": range(2000), "dst": range(1, 2001)})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(path), table.schema, options=options) as file:
        file.write_table(table)
    content = bytearray(path.read_bytes())
    content[content.index((8 * len(table)).to_bytes(8, "little")) + 7] = 0x40
    path.write_bytes(content)


LATIN_TABLE = pa.table({"src": LATIN, "dst": ["c", "d"]})
DOUBLED = pa.table([["a"], ["b"], ["c"]], ["src", "dst", "src"])
TWICE = "more than one column 'src': rename the others"
BINARY = "is binary, or UTF-16 without its mark"
REFUSED: dict[str, tuple[str | bytes | Callable[[Path], object], str]] = {
    "loops.csv": ("1,1\n", "no edge"),
    "torn.parquet": (b"PAR1", "damaged"),
    "torn.arrow": (b"ARROW1", "damaged"),
    "torn.graphml": ("<graphml>", "damaged"),
    "torn.csv.gz": (gzip.compress(b"1,2\n" * 99)[:20], "damaged"),
    "torn.csv.zst": (pa.compress(b"1,2\n" * 99, "zstd", asbytes=True)[:-4], "damaged"),
    "long.arrow": (write_long_arrow, "it has more than 1,073,741,824 bytes"),
    "bomb.graphml": (BOMB, "entities"),
    "bomb16.graphml": (
        f"<?xml version='1.0' encoding='utf-16'?>{BOMB}".encode("utf-16"),
        "entities",
    ),
    "default.graphml": (
        '<!DOCTYPE g [<!ATTLIST node x CDATA "AAAA">]><graphml><node/></graphml>',
        "ATTLIST",
    ),
    "unknown.graphml": ("<?xml version='1.0' encoding='x'?><graphml/>", "encoding"),
    "other.parquet": (lambda path: pq.write_table(pa.table({"x": [1]}), path), "expected src, dst"),
    "nodes.parquet": (
        lambda path: pq.write_table(pa.table({"node": [1, 2], "community": [0, 0]}), path),
        "table of labels",
    ),
    "latin.parquet": (lambda path: pq.write_table(LATIN_TABLE, path), "damaged.*UTF8"),
    "latin.arrow": (lambda path: write_arrow(LATIN_TABLE, path), "damaged.*UTF8"),
    "doubled.parquet": (lambda path: pq.write_table(DOUBLED, path), TWICE),
    "doubled.arrow": (lambda path: write_arrow(DOUBLED, path), TWICE),
    "doubled.csv": ("src,dst,src\na,b,c\n", TWICE),
    "two.csv.zip": (two_files(), "holds 2 files \\(a.csv, b.csv\\): put one file in each"),
    "packed.csv": (bz2.compress(b"1,2\n2,3\n"), "compressed, so its name needs that ending"),
    "parquet.csv": (lambda path: pq.write_table(TABLE, path), BINARY),
    "utf16.csv": ("src,dst\na,b\nb,c\n".encode("utf-16-le"), BINARY),
    "long.csv": ("x" * 200_000, "is no row of a table: field larger"),
    "pipe.csv": (os.mkfifo, "it is no regular file"),
    "link.csv": (lambda path: path.symlink_to("unmounted.csv"), "No such file"),
    "labels.csv": ("node,community\n1,0\n2,0\n3,1\n", "column community says .* table of labels"),
    "scores.csv": ("1,0.5\n2,0.25\n3,.5\n", "column 2 holds fractions"),
    "all in one.csv": ("1,7\n2,7\n3,7\n", "column 2 holds 7 in each row: is it a label"),
    "header.csv": ("user,friend\n1,2\n2,3\n", "first line .user, friend. is a header"),
    "ends.csv": ("source,destination\na,b\nb,c\n", "source, destination. looks like a header"),
    "index.csv": (",a,b,c\na,0.0,1.0,1.0\nb,1.0,0.0,1.0\n", "line .*a, b, c. looks like a header"),
    "series.csv": (",team\na,red\nb,red\nc,blue\n", "first line .*team. looks like a header"),
    "own names.csv": ("person_a,person_b\nann,bob\nbob,cy\n", "person_b. looks like a header"),
    "own pairs.csv": ("FromNodeId,user 2\nann,bob\ncy,dee\n", "user 2. looks like a header"),
    "only a header.csv": ("person_a,person_b\n", "looks like a header"),
    "a day.csv": ("a,b,when\na,b,2026-01-01\nb,a,2026-01-02\n", "a, b, when. is a header"),
    "short header.csv": ("node1 node2\nann bob 3\nbob cy 2\n", "has 2 columns and the rows 3"),
    "neighbours.csv": ("a b c\nb c\nd a\ne\nf a b c\n", "different numbers of columns"),
    "sizes.csv": ("9 9 9\n1 2\n2 3\n", "has 3 columns and the rows 2"),
    "one column.csv": ("1\n2\n3\n", "rows have one column"),
    "adjacency.csv": ("0,1,1,0\n1,0,1,0\n1,1,0,1\n0,0,1,0\n", "a matrix of 4 rows and 4 columns"),
    "distances.csv": ("0,.5,2\n.5,0,1\n2,1,0\n", "is a matrix of 3 rows and 3 columns"),
    "named matrix.csv": ("a 0 1 1\nb 1 0 1\nc 1 1 0\n", "is a matrix of 3 rows and 3 columns"),
    "page.csv": ("\n<!DOCTYPE html>\n<html lang='en'>\n", "it is HTML or XML"),
    "lfs.csv": ("version https://git-lfs.github.com/spec/v1\noid\n", "Git LFS.*`git lfs pull`"),
    "annex.csv": ("../.git/annex/objects/x/SHA256E-s1--07.csv\n", "pointer of git-annex"),
    "JSON.csv": ('{"nodes": [], "links": []}\n', "it is JSON"),
    "JSON list.csv": ('[\n  {"source": 1}\n]\n', "it is JSON"),
    "GML.csv": ('Creator "igraph"\ngraph\n[\n  node [ id 1 ]\n]\n', "it is GML"),
    "DOT.csv": ("graph G {\n a -- b;\n}\n", "Graphviz"),
    "snapshots.csv": ("snapshot,src,dst\na,1,2\nb,2,3\n", "column snapshot names 2 graphs"),
    "denied.csv": ("Access Denied\n", "looks like a header"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_edge_list_is_reported_and_the_others_go_on(
    name: str, tmp_path: Path
) -> None:
    content, why = REFUSED[name]
    if callable(content):
        content(tmp_path / name)
    else:
        whole = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(whole)
    (tmp_path / "zz.csv").write_text("1,2\n")
    found, bad = read(tmp_path)
    assert [snapshot.id for snapshot in found] == ["files/zz.csv"]
    assert any(re.search(f"^{name} makes no snapshot.*{why}", error) for error in bad), bad
    with pytest.raises(BadRow):
        list(watch_edge_files(tmp_path).snapshots)


ROWS = {
    "src,dst\n1,2\nx,3\n": "src 'x', dst '3' is not an edge: an id is not of type integer (--ids)",
    "src,dst,weight\n1,2,1\n2,3,-1\n": "weight '-1' is not an edge: its weight is no finite number",
    "src,dst,weight\n1,2,1\n2,3,heavy\n": "weight 'heavy'",
    "src,dst\n1,2\n,3\n": "src ''",
    "1,2\n1\n": "'1'",
    f"src,dst\n1,2\n{2**53}.0,3\n": "a decimal number of at least 2^53",
}


@pytest.mark.parametrize("text", ROWS)
def test_a_bad_row_is_reported_with_its_place_and_reason(text: str, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(text)
    (snapshot,), (bad,) = read(tmp_path, id_kind="integer")
    assert (snapshot.n_edges, bad[:6], ROWS[text] in bad) == (1, "g.csv:", True), bad


def test_ids_of_other_types_or_too_long_are_bad_rows(tmp_path: Path) -> None:
    ids = pa.array([1, 2]).cast(pa.decimal128(38, 0))  # as databases export integers
    pq.write_table(pa.table({"src": ["1", "2"], "dst": ids}), tmp_path / "h.parquet")
    longest = "y" * MOST_NODE_BYTES
    (tmp_path / "g.csv").write_text(f"src,dst\na,b\na,{longest}y\nb,{longest}\n")
    (snapshot,), bad = read(tmp_path)
    assert snapshot.nodes.to_pylist() == ["a", "b", longest]
    *decimals, long = sorted(bad, reverse=True)
    assert long.endswith("an id is one of 4,097 bytes; the limit is 4,096: send a hash of it")
    assert decimals[0].endswith("an id is of type decimal128(38, 0), no integer or text")


def write_equal_rows(path: Path, n_rows: int) -> None:
    ends = {"src": np.zeros(n_rows, np.int64), "dst": np.ones(n_rows, np.int64)}
    table = pa.table(ends)
    if path.name.startswith("categories"):
        table = pa.table({n: table[n].cast(pa.string()).dictionary_encode() for n in ends})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, compression="zstd")
        case ".arrow":
            feather.write_feather(table, path, compression="zstd", chunksize=n_rows)
        case ".arrows":
            with (
                pa.OSFile(str(path), "wb") as sink,
                pa.ipc.new_stream(sink, table.schema, options=options) as stream,
            ):
                stream.write_table(table)
        case _:
            rows = "src,dst\n" + "1,2\n" * n_rows
            path.write_bytes(gzip.compress(rows.encode(), compresslevel=1))


@pytest.mark.parametrize("name", ["categories.arrow", "g.arrows", "g.parquet", "g.csv.gz"])
def test_no_more_of_a_file_is_read_than_a_snapshot_may_have(name: str, tmp_path: Path) -> None:
    """A file of a few kB can hold more rows than fit the memory."""
    write_equal_rows(tmp_path / name, 2_000_000)
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        found, (bad,) = read(tmp_path, limits=Limits(rows=500_000))
    finally:
        pa.set_memory_pool(usual)
    assert found == []
    assert "it has more than 500,000 rows, the limit of a snapshot: divide it" in bad
    assert "STREAM_ICD_LIMITS_ROWS" in bad
    assert pool.max_memory() < 30_000_000


@pytest.mark.parametrize("name", ["g.graphml.gz", "g.csv.gz", "g.parquet"])
def test_no_more_bytes_of_a_file_are_read_than_a_snapshot_may_have(
    name: str, tmp_path: Path
) -> None:
    if name == "g.parquet":  # a text of 1 kB in each row, which takes a few bytes
        texts = pa.array(["x" * 1000] * 1000).dictionary_encode()
        pq.write_table(pa.table({"src": texts, "dst": texts}), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(gzip.compress(b"src,dst\n" + b"a,b\n" * 100_000))
    found, (bad,) = read(tmp_path, limits=Limits(decoded_bytes=100_000))
    assert (found, "it has more than 100,000 bytes, the limit of a snapshot" in bad) == ([], True)
    assert "STREAM_ICD_LIMITS_DECODED_BYTES" in bad


class Trap:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


FAR_DAYS = pa.array([2**31 - 1, 0], pa.date32())  # Python has no such day
NO_ZONE = pa.array([1, 2], pa.timestamp("us", "Mars/Jezero"))


def test_times_that_python_cannot_hold_are_bad_rows(tmp_path: Path) -> None:
    for name, times in (("dst", FAR_DAYS), ("weight", NO_ZONE)):
        columns = {"src": [1, 2], "dst": [2, 3], "weight": [1.0, 1.0], name: times}
        pq.write_table(pa.table(columns), tmp_path / "g.parquet")
        found, bad = read(tmp_path)
        assert (found, len(bad)) == ([], 3)
        assert f"g.parquet:0: src 1, dst {'2' if name == 'weight' else times[0].value}" in bad[0]


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    (folder / "graph.pkl").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    assert read(folder)[0] == []
    assert not (tmp_path / "sprung").exists()


def windows_of(folder: Path, *names: str, window: str | None = None) -> dict[str, Window]:
    """The windows of files that were changed five seconds after 1970 began."""
    for name in names:
        (folder / name).write_text("1,2\n")
        os.utime(folder / name, (0, 5))
    found, _ = read(folder, window=window and parse_window(window))
    return {snapshot.id.removeprefix("files/"): snapshot.window for snapshot in found}


def test_the_window_is_in_the_name_or_when_the_file_was_changed(tmp_path: Path) -> None:
    for name, time, days in (
        ("2026-01-31.csv", (2026, 1, 31), 1),
        ("g_20260131.csv", (2026, 1, 31), 1),
        ("2026_01_31_12-30.csv", (2026, 1, 31, 12, 30), 0),
        ("20260131T1230.csv", (2026, 1, 31, 12, 30), 0),
        ("g-2026-01-31_12-30-05.csv", (2026, 1, 31, 12, 30, 5), 0),
        ("graph.csv", (1970, 1, 1, 0, 0, 5), 0),
    ):
        (folder := tmp_path / name.partition(".")[0]).mkdir()
        window = windows_of(folder, name)[name]
        start = datetime(*time, tzinfo=UTC)  # type: ignore[arg-type, misc]
        assert (window.start, window.end - window.start) == (start, timedelta(days=days))
    for given in (None, "month"):
        with pytest.raises(BadSettings, match="after the year 9999"):
            windows_of(tmp_path, "9999-12-31.csv", window=given)


def test_monthly_and_hourly_files_have_windows_of_their_spacing(tmp_path: Path) -> None:
    for folder in ("months", "hours", "month"):
        (tmp_path / folder).mkdir()
    names = (f"mails-2026-{month:02d}-01.csv" for month in range(1, 13))
    months = windows_of(tmp_path / "months", *names)
    assert months["mails-2026-01-01.csv"].end == datetime(2026, 2, 1, tzinfo=UTC)
    names = [f"g-2026-01-01T{hour:02d}00.csv" for hour in range(24)]
    hours = windows_of(tmp_path / "hours", *names, "undated.csv")
    assert {hours[name].end - hours[name].start for name in names} == {timedelta(hours=1)}
    assert hours["undated.csv"].end == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    (given,) = windows_of(tmp_path / "month", "2026-02-14.csv", window="month").values()
    assert (given.start, given.end) == (
        datetime(2026, 2, 1, tzinfo=UTC),
        datetime(2026, 3, 1, tzinfo=UTC),
    )


def test_a_first_line_of_sizes_is_no_edge(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Numbers of nodes and edges, in as many columns as the rows or not."""
    edges = [(0, 1), (0, 2), (3, 4), (2, 5)]
    (tmp_path / "a.txt").write_text("6 4\n" + "".join(f"{a} {b}\n" for a, b in edges))
    (tmp_path / "b.txt").write_text("6 4\n" + "".join(f"{a} {b} .5\n" for a, b in edges))
    (tmp_path / "c.txt").write_text("6 6 4\n" + "".join(f"{a} {b} .5\n" for a, b in edges))
    found, bad = read(tmp_path)
    assert ([one.edges.T.tolist() for one in found], bad) == ([sorted(map(list, edges))] * 3, [])
    assert "a.txt begins with its number of edges: the first line (6, 4) is taken" in caplog.text


FIRST_LINES = {
    "ann,bob\nbob,cy\n": ("ann", "bob"),
    "ann,bob\ncy,dee\n": ("ann", "bob"),
    "user1,user2\nuser3,user4\n": ("user1", "user2"),
    "<a@x.org>,<b@x.org>\n<b@x.org>,<c@x.org>\n": ("<a@x.org>", "<b@x.org>"),
    "a,1\nb,2\n": ("1", "a"),
    "1 2 7\n2 3 9\n1 3 5\n": (1, 2),
    "1,2\n1\n2,3\n3,4\n": (1, 2),
    "1,2\n": (1, 2),
    "6 5\n0 1\n0 2\n3 4\n2 5\n": (5, 6),  # no sizes: four rows follow
    "3 4\n0 1\n0 2\n3 1\n4 5\n": (3, 4),  # no sizes: 5 is above 3
    "time,src,dst\n2026-01-01,1,2\n2026-01-01,2,3\n": (1, 2),  # of one time
    "src,dst,,\na,b,,\n": ("a", "b"),  # columns that nobody asks for may be doubled
    "src,dst,Src\na,b,x\n": ("a", "b"),
    "Source,Target,Type,Weight\na,b,Undirected,2\n": ("a", "b"),
    "src,dst,label\n1,7,a\n2,7,b\n3,7,c\n": (1, 7),  # ends that are named may be a star
}


@pytest.mark.parametrize("text", FIRST_LINES)
def test_the_first_edge_of_a_text_is_an_edge(text: str, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(text)
    (snapshot,), _ = read(tmp_path)
    assert FIRST_LINES[text] in weighted(snapshot)


def test_files_of_other_endings_are_named_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "2026-01-01.csv").write_text(CSV)
    (tmp_path / "2026-01-02.gexf").write_text("<gexf/>")
    (tmp_path / "2026-01-03.csv.tmp").write_text(CSV)
    (tmp_path / "2026-01-04").mkdir()
    counted = Counter[str]()
    source = watch_edge_files(tmp_path, count=lambda what, n: counted.update({what: n}))
    assert len(list(source.snapshots)) == 1
    assert counted == {"other_files": 3}
    assert "not sent: 2026-01-02.gexf, 2026-01-03.csv.tmp, 2026-01-04/. " in caplog.text
    caplog.clear()
    looks = Looks(lambda: None, lambda: None, lambda: None)
    read(tmp_path, every_s=2.0, stop=looks)
    (said,) = (text for text in caplog.messages if text.startswith("not sent"))
    assert "not sent: 2026-01-02.gexf, 2026-01-04/. " in said


@pytest.mark.parametrize("rows", ["a,b,x\nb,c,-1\n", "a\nb\n"])
def test_a_file_of_only_bad_rows_is_not_called_empty(
    rows: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "g.csv").write_text(f"src,dst,weight\n{rows}")
    found, bad = read(tmp_path)
    assert (found, len(bad)) == ([], 3)
    assert (
        "g.csv makes no snapshot: it has no good row and 2 bad ones; the first: g.csv:2" in bad[2]
    )
    assert "empty" not in caplog.text


EVENTS = {
    "named.csv": "t,src,dst\n2026-01-01,1,2\n2026-01-03,2,3\n",
    "time.csv": "source,target,weight,Time\n1,2,1,1767225600\n2,3,1,1767398400\n",
    "two.csv": "time,timestamp,src,dst\n1767225600,7,1,2\n1767398400,9,2,3\n",
    "windows.csv": "window_start,src,dst\n2026-01-03,2,3\n2026-01-01,1,2\n",
    "unweighted.csv": "window_start,src,dst,weight\n2026-01-03,2,3,\n2026-01-01,1,2,\n",
    "snap.txt": "1 2 1767225600\n2 3 1767398400\n",
    "rated.csv": "6,2,4,1767225600.72\n6,5,2,1767398400.2\n",
}


@pytest.mark.parametrize("name", EVENTS)
def test_a_table_of_events_is_refused_with_the_commands_that_read_it(
    name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "mails"
    folder.mkdir()
    (folder / name).write_text(EVENTS[name])
    found, (bad,) = read(folder)
    assert found == []
    with pytest.raises(BadRow) as error:
        training_graphs(str(folder))
    assert str(error.value) == bad
    (learn,) = re.findall(r"--data (\S+)\. For", bad)
    learn = shlex.split(learn)[0]
    assert [graph.adjacency.shape[0] for graph in training_graphs(learn)] == [2, 2]
    (command,) = re.findall(r"`stream-icd (produce [^`]+)`", bad)
    missing = [word for word in command.split()[3:] if word not in ("1d", "--window", "--sort")]
    assert str(folder) in command
    assert all(word.lstrip("-").replace(",", ";") in re.split("[,=]", learn) for word in missing)


def test_an_empty_file_makes_no_snapshot_and_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("src,dst\n")
    (tmp_path / "c.csv").write_text("1,2\n")
    pq.write_table(
        pa.table({"src": pa.array([], "int64"), "dst": pa.array([], "int64")}),
        tmp_path / "d.parquet",
    )
    counted = Counter[str]()
    source = watch_edge_files(tmp_path, count=lambda what, n: counted.update({what: n}))
    assert [snapshot.id for snapshot, _ in source.snapshots] == ["files/c.csv"]
    assert counted == {"empty_files": 3}
    empty = [text.split()[0] for text in caplog.messages if "is empty" in text]
    assert empty == ["a.csv", "b.csv", "d.parquet"]
    assert len(training_graphs(str(tmp_path))) == 1


class Looks:
    """Stands for the time between two looks at the folder: does something in each."""

    def __init__(self, *between: Callable[[], object]) -> None:
        self._between = list(between)
        self._stopped = threading.Event()

    def is_set(self) -> bool:
        return self._stopped.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout == 2.0
        if self._between:
            self._between.pop(0)()
        else:
            self._stopped.set()
        return self.is_set()


def test_a_watched_folder_sends_files_when_they_stop_growing_or_change(tmp_path: Path) -> None:
    same, growing, gone = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    same.write_text("1,2\n")
    gone.write_text("1,2\n")

    def first() -> None:
        gone.unlink()
        growing.write_text("1,2\n")

    looks = Looks(
        first,
        lambda: growing.write_text("1,2\n2,3\n"),
        lambda: growing.write_text("1,2\n2,3\n3,4\n"),
        lambda: None,
        lambda: same.write_text("1,2\n2,3\n"),
        lambda: None,
    )
    found, bad = read(tmp_path, every_s=2.0, stop=looks)
    sent = [(one.id, one.n_edges) for one in found]
    assert (sent, bad) == ([("files/a.csv", 1), ("files/b.csv", 3), ("files/a.csv", 2)], [])


def test_a_watched_file_is_read_again_when_its_permissions_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1,2\n")
    opened = Path.open

    def refused(path: Path, *args: object, **options: object) -> object:  # root may read all files
        if not path.stat().st_mode & 0o040:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", refused)
    file.chmod(0o600)
    looks = Looks(lambda: None, lambda: None, lambda: file.chmod(0o640), lambda: None, lambda: None)
    found, bad = read(tmp_path, every_s=2.0, stop=looks)
    assert [snapshot.id for snapshot in found] == ["files/a.csv"]
    assert len(bad) == 1
    assert "Permission denied" in bad[0]


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    folder, archive, file = (tmp_path / name for name in ("mounted", "archive", "a.csv"))
    folder.mkdir()
    (archive / "snapshots").mkdir(parents=True)
    file.write_text("1,2\n")
    for path, error, why in (
        (tmp_path / "absent", SourceNotFound, "nothing at"),
        (folder, SourceNotFound, "holds no edge list"),
        (archive, SourceNotFound, "stream-icd produce replay"),
        (file, BadSettings, "is not a folder"),
    ):
        with pytest.raises(error, match=why):
            watch_edge_files(path)
    with pytest.raises(BadSettings, match="above 0"):
        watch_edge_files(tmp_path, every_s=0)
    source = watch_edge_files(folder, every_s=0.01)
    folder.rmdir()
    with pytest.raises(StoreUnreachable, match="cannot read the folder .*/mounted: No such file"):
        next(source.snapshots)
