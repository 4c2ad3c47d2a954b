"""A folder of edge lists: every form gives the same graph, and no file is read half."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
import shlex
import threading
import zipfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars
import pyarrow as pa
import pytest

from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound, StoreUnreachable
from stream_icd.core.snapshot import MOST_NODE_BYTES, Window
from stream_icd.core.times import parse_window
from stream_icd.sources.edge_files import watch_edge_files
from stream_icd.wire.limits import Limits
from tests.sources.reading import Content, arrow, parquet, read, weighted, write

TABLE = pa.table({"src": ["a", "b", "d"], "dst": ["b", "c", None], "weight": [2.0, 1.0, 1.0]})
CSV = "src,dst,weight\na,b,2\nb,c,1\nd,,\n"
CATEGORIES = polars.DataFrame(TABLE).cast({"src": polars.Categorical, "dst": polars.Categorical})


def zipped(*files: tuple[str, str]) -> bytes:
    with zipfile.ZipFile(content := io.BytesIO(), "w") as archive:
        for name, text in files:
            archive.writestr(name, text)
    return content.getvalue()


FORMS: dict[str, Content] = {
    "g.csv": CSV,
    "g.csv.zip": zipped(("day/", ""), ("__MACOSX/day/._g.csv", "of macOS"), ("day/g.csv", CSV)),
    "commented.csv": f"# of me\n% of me\n#{CSV}# the end\n%\n",
    "named.csv": CSV.replace("src,dst", "source,target"),
    "g.parquet": TABLE,
    "categories.parquet": CATEGORIES.write_parquet,
    "categories.arrow": CATEGORIES.write_ipc,
    "packed.parquet.zst": pa.compress(parquet(TABLE), "zstd", asbytes=True),
    "stream.arrow": arrow(TABLE, pa.ipc.new_stream),
    "file.arrows": arrow(TABLE),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_graph(name: str, tmp_path: Path) -> None:
    (snapshot,), bad = read(write(tmp_path, {name: FORMS[name]}), graph="friends")
    assert (snapshot.id, bad) == (f"friends/{name}", [])
    assert snapshot.nodes.to_pylist() == ["a", "b", "c", "d"]
    assert weighted(snapshot) == {("a", "b"): 2, ("b", "c"): 1}


def test_integers_that_pandas_and_numpy_write_as_floats_are_ids(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        "all.csv": "src,dst\n1.0,2\n2.0,3\n5.0,",
        "g.graphml": "<graphml><graph><node id='5.0'/><edge source='1.0' target='2.0'/>"
        "<edge source='2' target='3.0'/></graph></graphml>",
        "numpy.txt": "1.0e+00 2.0e+00 1e-1\n2.0e+00 5.0e+00 1\n3.0e+00 5.0e+00 1\n",
        "g.parquet": pa.table({"src": [1, 2, 5], "dst": [2.0, 3.0, None]}),
    }
    snapshots, bad = read(write(tmp_path, files))
    assert ([snapshot.nodes.to_pylist() for snapshot in snapshots], bad) == ([[1, 2, 3, 5]] * 4, [])


@pytest.mark.parametrize(
    ("rows", "kind", "n_refused"),
    [
        (["1,2\n2,3\n", "admin,3\n1,2\n", "1,2\n3,1\n"], int, 1),  # the row of admin
        (["1,2\nadmin,3\n", "admin,3\n1,2\n", "1,2\n2,3\n"], str, 0),
        (["admin,3\n1,2\n", "1,2\n3,1\n", "1.0,2\n3.0,1\n"], str, 0),
    ],
)
def test_a_graph_keeps_the_kind_of_its_ids_from_file_to_file(
    rows: list[str], kind: type, n_refused: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {f"2026-01-0{day}.csv": f"src,dst\n{text}" for day, text in enumerate(rows, start=1)}
    snapshots, bad = read(write(tmp_path, files))
    assert all(kind(1) in snapshot.nodes.to_pylist() for snapshot in snapshots)
    assert sum("not of type integer (--ids)" in error for error in bad) == len(bad) == n_refused
    assert ("so all its ids are text (--ids): one is admin" in caplog.text) == (kind is str)


UNUSED = "src,dst,weight,kind\n1,2,3,4\n"
UNNAMED = ",src,dst,weight,kind,t\n0,1,2,3,4,5\n"
LOGGED = {
    "z.txt": "# SNAP\n# From\tTo\n1\t2\n2\t3\n",
    "a.txt": "1\t2\t\n",
    "b.txt": "1\t2\t.5\tx\n2\t3\t1\ty\n",
    "c.txt": "1\t2\t7\n",
    "1.csv": UNUSED,
    "2.csv": UNUSED,
    "3.csv": UNNAMED,
    "4.csv": UNNAMED,
    "5.csv": "from,kind,to,value\n1,x,2,3\n",
    "g.txt": "#FromNodeId\tToNodeId\n1\t2\n2\t3\n",
}


def test_what_is_guessed_or_not_used_is_logged_of_the_first_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, LOGGED)
    for at, name in enumerate(LOGGED):
        os.utime(tmp_path / name, (0, at))
    snapshots, bad = read(tmp_path)
    assert (len(snapshots), bad) == (len(LOGGED), [])
    _, *logged = caplog.messages  # the first one is of the names without a day
    starts = (
        "z.txt has no header: columns 1 and 2, separated by tabs, are the ends of edges, the "
        "first one is 1 - 2",
        "b.txt has no header: only columns 1 and 2, separated by tabs, are used, not 3, 4",
        "1.csv has columns that are not used: kind",
        "3.csv has columns that are not used: one without a name, t",
        "5.csv has no column named weight, so all edges weigh 1: not used are kind, value (",
        "g.txt holds numbers below its first line (#FromNodeId, ToNodeId), which is taken for",
    )
    for text, start in zip(logged, starts, strict=True):
        assert text.startswith(start)


def test_files_are_sent_in_the_order_of_windows_and_others_named_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the order of names, a tracker would take 2.csv to 9.csv for late."""
    names = ("10.csv", "9.csv", "notes.md", ".hidden.csv", "c.csv.tmp", "d.csv.part", "e/f.csv")
    write(tmp_path, dict.fromkeys(names, "1,2\n"))
    os.utime(tmp_path / "9.csv", (0, 9))
    os.utime(tmp_path / "10.csv", (0, 10))
    counted = Counter[str]()
    snapshots, _ = read(tmp_path, count=lambda what, n: counted.update({what: n}))
    assert [snapshot.id for snapshot in snapshots] == ["files/9.csv", "files/10.csv"]
    assert counted == {"other_files": 4}
    other_files, undated, _ = caplog.messages
    assert other_files.startswith("not sent: c.csv.tmp, d.csv.part, e/, notes.md. Files are read")
    assert undated.startswith("10.csv has no day such as 2026-01-31 in its name")
    os.utime(tmp_path / "9.csv", (0, 10))
    caplog.clear()
    looks = Looks(lambda: None, lambda: None, lambda: None)
    snapshots, _ = read(tmp_path, every_s=2.0, stop=looks)
    assert [snapshot.id for snapshot in snapshots] == ["files/10.csv", "files/9.csv"]
    assert "1 files share a window, and are late" in caplog.text
    (other_files,) = (text for text in caplog.messages if text.startswith("not sent"))
    assert other_files.startswith("not sent: e/, notes.md. ")  # the others are being written


LATIN = pa.Array.from_buffers(pa.string(), 2, pa.array([b"b", b"caf\xe9"]).buffers())  # no UTF-8
BOMB = '<!DOCTYPE g [<!ENTITY a "b">]><graphml><node id="&a;"/></graphml>'


def long_arrow() -> bytes:
    """An Arrow file whose buffer says that it has 2^62 bytes."""
    table = pa.table({"src": range(2000), "dst": range(1, 2001)})
    content = bytearray(arrow(table, compression="lz4"))
    content[content.index((8 * len(table)).to_bytes(8, "little")) + 7] = 0x40
    return bytes(content)


DOUBLED = pa.table([["a"], ["b"], ["c"]], ["src", "dst", "src"])
TWO_FILES = zipped(("a.csv", "1,2\n"), ("b.csv", "2,3\n"))
TWICE = "more than one column 'src': rename the others"
REFUSED: dict[str, tuple[Content, str]] = {
    "loops.csv": ("1,1\n", "no edge"),
    "torn.parquet": (b"PAR1", "damaged"),
    "torn.arrow": (b"ARROW1", "damaged"),
    "torn.graphml": ("<graphml>", "damaged"),
    "torn.csv.gz": (gzip.compress(b"1,2\n" * 99)[:20], "damaged"),
    "long.arrow": (long_arrow(), "it has more than 1,073,741,824 bytes"),
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
    "other.parquet": (pa.table({"x": [1]}), "expected src, dst"),
    "nodes.parquet": (pa.table({"node": [1, 2], "community": [0, 0]}), "table of labels"),
    "latin.arrow": (arrow(pa.table({"src": LATIN, "dst": ["c", "d"]})), "damaged.*UTF8"),
    "doubled.parquet": (DOUBLED, TWICE),
    "doubled.arrow": (arrow(DOUBLED), TWICE),
    "two.csv.zip": (TWO_FILES, "holds 2 files \\(a.csv, b.csv\\): put one file in each"),
    "packed.csv": (bz2.compress(b"1,2\n2,3\n"), "compressed, so its name needs that ending"),
    "utf16.csv": ("src,dst\na,b\nb,c\n".encode("utf-16-le"), "binary, or UTF-16 without its mark"),
    "long.csv": ("x" * 200_000, "is no row of a table: field larger"),
    "graph.pkl": (b"", "opening a pickle can run any code: save GraphML instead"),
    "pipe.csv": (os.mkfifo, "it is no regular file"),
    "link.csv": (lambda path: path.symlink_to("unmounted.csv"), "No such file"),
    "labels.csv": ("node,community\n1,0\n2,0\n3,1\n", "column community says .* table of labels"),
    "scores.csv": ("1,0.5\n2,0.25\n3,.5\n", "column 2 holds fractions"),
    "all in one.csv": ("1,7\n2,7\n3,7\n", "column 2 holds 7 in each row: is it a label"),
    "header.csv": ("user,friend\n1,2\n2,3\n", "first line .user, friend. is a header"),
    "ends.csv": ("source,destination\na,b\nb,c\n", "source, destination. looks like a header"),
    "index.csv": (",a,b,c\na,0.0,1.0,1.0\nb,1.0,0.0,1.0\n", "line .*a, b, c. looks like a header"),
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
    "annex.csv": ("../.git/annex/objects/x/SHA256E-s1--07.csv\n", "pointer of git-annex"),
    "DOT.csv": ("graph G {\n a -- b;\n}\n", "Graphviz"),
    "lfs.csv": ("version https://git-lfs.github.com/spec/v1\noid\n", "Git LFS.*`git lfs pull`"),
    "JSON.csv": ('{"nodes": [], "links": []}\n', "it is JSON"),
    "GML.csv": ('Creator "igraph"\ngraph\n[\n  node [ id 1 ]\n]\n', "it is GML"),
    "snapshots.csv": ("snapshot,src,dst\na,1,2\nb,2,3\n", "column snapshot names 2 graphs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_edge_list_is_reported_and_the_others_go_on(
    name: str, tmp_path: Path
) -> None:
    content, why = REFUSED[name]
    snapshots, bad = read(write(tmp_path, {name: content, "zz.csv": "1,2\n"}))
    assert [snapshot.id for snapshot in snapshots] == ["files/zz.csv"]
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
    (snapshot,), (bad,) = read(write(tmp_path, {"g.csv": text}), id_kind="integer")
    assert (snapshot.n_edges, bad[:6], ROWS[text] in bad) == (1, "g.csv:", True), bad


FAR_DAYS = pa.array([2**31 - 1, 0], pa.date32())  # Python has no such day
NO_ZONE = pa.array([1, 2], pa.timestamp("us", "Mars/Jezero"))


def test_ids_that_no_node_may_have_and_times_that_python_has_not_are_bad_rows(
    tmp_path: Path,
) -> None:
    ids = pa.array([1, 2]).cast(pa.decimal128(38, 0))  # as databases export integers
    longest = "y" * MOST_NODE_BYTES
    files: dict[str, Content] = {
        "g.csv": f"src,dst\na,b\na,{longest}y\nb,{longest}\n",
        "h.parquet": pa.table({"src": ["1", "2"], "dst": ids}),
    }
    (snapshot,), bad = read(write(tmp_path, files))
    assert snapshot.nodes.to_pylist() == ["a", "b", longest]
    *decimals, long = sorted(bad, reverse=True)
    assert long.endswith("an id is one of 4,097 bytes; the limit is 4,096: send a hash of it")
    assert decimals[0].endswith("an id is of type decimal128(38, 0), no integer or text")
    for name, times in (("dst", FAR_DAYS), ("weight", NO_ZONE)):
        columns = {"src": [1, 2], "dst": [2, 3], "weight": [1.0, 1.0], name: times}
        snapshots, bad = read(write(tmp_path / name, {"g.parquet": pa.table(columns)}))
        assert (snapshots, len(bad)) == ([], 3)
        assert f"g.parquet:0: src 1, dst {'2' if name == 'weight' else times[0].value}" in bad[0]


N_EQUAL = 2_000_000
"""Rows of a file of a few kB: more than fit the memory, if there are some more."""


def equal_rows() -> pa.Table:
    return pa.table({"src": np.zeros(N_EQUAL, np.int64), "dst": np.ones(N_EQUAL, np.int64)})


def categories() -> pa.Table:
    texts = (ids.cast(pa.string()).dictionary_encode() for ids in equal_rows())
    return pa.table(list(texts), ["src", "dst"])


def long_texts() -> pa.Table:
    """Each text has 1 kB, and all are one, of which the file has few bytes."""
    ids = pa.array(["x" * 1000] * 1000).dictionary_encode()
    return pa.table({"src": ids, "dst": ids})


def packed_text() -> bytes:
    return gzip.compress(b"src,dst\n" + b"1,2\n" * N_EQUAL, compresslevel=1)


OF_ROWS = Limits(rows=500_000), "500,000 rows"
OF_BYTES = Limits(decoded_bytes=100_000), "100,000 bytes"


@pytest.mark.parametrize(
    ("name", "make", "limit"),
    [
        ("g.arrow", lambda: arrow(categories(), compression="zstd"), OF_ROWS),
        ("g.arrows", lambda: arrow(equal_rows(), pa.ipc.new_stream, compression="zstd"), OF_ROWS),
        ("g.parquet", lambda: parquet(equal_rows(), compression="zstd"), OF_ROWS),
        ("g.csv.gz", packed_text, OF_ROWS),
        ("g.csv.gz", packed_text, OF_BYTES),
        ("g.graphml.gz", packed_text, OF_BYTES),
        ("g.parquet", long_texts, OF_BYTES),
    ],
)
def test_no_more_of_a_file_is_read_than_a_snapshot_may_have(
    name: str, make: Callable[[], Content], limit: tuple[Limits, str], tmp_path: Path
) -> None:
    write(tmp_path, {name: make()})
    limits, most = limit
    pool, usual = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        snapshots, (bad,) = read(tmp_path, limits=limits)
    finally:
        pa.set_memory_pool(usual)
    assert snapshots == []
    assert f"it has more than {most}, the limit of a snapshot: divide it" in bad
    assert ("STREAM_ICD_LIMITS_ROWS" in bad) == (limit is OF_ROWS)
    assert ("STREAM_ICD_LIMITS_DECODED_BYTES" in bad) == (limit is OF_BYTES)
    assert pool.max_memory() < 30_000_000


def windows_of(folder: Path, *names: str, window: str | None = None) -> dict[str, Window]:
    """The windows of files that were changed five seconds after 1970 began."""
    write(folder, dict.fromkeys(names, "1,2\n"))
    for name in names:
        os.utime(folder / name, (0, 5))
    snapshots, _ = read(folder, window=window and parse_window(window))
    return {snapshot.id.removeprefix("files/"): snapshot.window for snapshot in snapshots}


CHANGED = datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
NAMES: dict[str, tuple[datetime, int]] = {
    "2026-01-31.csv": (datetime(2026, 1, 31, tzinfo=UTC), 1),
    "2026_01_31_12-30.csv": (datetime(2026, 1, 31, 12, 30, tzinfo=UTC), 0),
    "g-2026-01-31_12-30-05.csv": (datetime(2026, 1, 31, 12, 30, 5, tzinfo=UTC), 0),
    "graph.csv": (CHANGED, 0),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_window_is_in_the_name_or_when_the_file_was_changed(name: str, tmp_path: Path) -> None:
    window = windows_of(tmp_path, name)[name]
    start, days = NAMES[name]
    assert (window.start, window.end - window.start) == (start, timedelta(days=days))


def test_hourly_files_have_windows_of_their_spacing(tmp_path: Path) -> None:
    names = [f"g-2026-01-01T{hour:02d}00.csv" for hour in range(24)]
    hours = windows_of(tmp_path / "hours", *names, "undated.csv")
    assert {hours[name].end - hours[name].start for name in names} == {timedelta(hours=1)}
    assert hours["undated.csv"].end == CHANGED
    (month,) = windows_of(tmp_path / "month", "2026-02-14.csv", window="month").values()
    assert (month.start.day, month.end) == (1, datetime(2026, 3, 1, tzinfo=UTC))
    with pytest.raises(BadSettings, match="after the year 9999"):
        windows_of(tmp_path, "9999-12-31.csv")


def test_a_first_line_of_sizes_is_no_edge(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Numbers of nodes and edges, in as many columns as the rows or not."""
    edges = [(0, 1), (0, 2), (3, 4), (2, 5)]
    plain, weighing = ("".join(f"{a} {b}{end}\n" for a, b in edges) for end in ("", " .5"))
    files = {"a.txt": f"6 4\n{plain}", "b.txt": f"6 4\n{weighing}", "c.txt": f"6 6 4\n{weighing}"}
    snapshots, bad = read(write(tmp_path, files))
    pairs = [snapshot.edges.T.tolist() for snapshot in snapshots]
    assert (pairs, bad) == ([sorted(map(list, edges))] * 3, [])
    assert "a.txt begins with its number of edges: the first line (6, 4) is taken" in caplog.text


FIRST_LINES = {
    "ann,bob\nbob,cy\n": ("ann", "bob"),
    "ann,bob\ncy,dee\n": ("ann", "bob"),
    "<a@x.org>,<b@x.org>\n<b@x.org>,<c@x.org>\n": ("<a@x.org>", "<b@x.org>"),
    "a,1\nb,2\n": ("1", "a"),
    "1 2 7\n2 3 9\n1 3 5\n": (1, 2),
    "1,2\n1\n2,3\n3,4\n": (1, 2),
    "1,2\n": (1, 2),
    "6 5\n0 1\n0 2\n3 4\n2 5\n": (5, 6),  # no sizes: four rows follow
    "3 4\n0 1\n0 2\n3 1\n4 5\n": (3, 4),  # no sizes: 5 is above 3
    "time,src,dst\n2026-01-01,1,2\n2026-01-01,2,3\n": (1, 2),  # of one time
    "src,dst,,\na,b,,\n": ("a", "b"),  # columns that nobody asks for may be doubled
    "Source,Target,Type,Weight\na,b,Undirected,2\n": ("a", "b"),
    "src,dst,label\n1,7,a\n2,7,b\n3,7,c\n": (1, 7),  # ends that are named may be a star
}


@pytest.mark.parametrize("text", FIRST_LINES)
def test_the_first_edge_of_a_text_is_an_edge(text: str, tmp_path: Path) -> None:
    (snapshot,), _ = read(write(tmp_path, {"g.csv": text}))
    assert FIRST_LINES[text] in weighted(snapshot)


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
    folder = write(tmp_path / "mails", {name: EVENTS[name]})
    snapshots, (bad,) = read(folder)
    assert snapshots == []
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


def test_an_empty_file_makes_no_snapshot_and_no_error_and_one_of_bad_rows_is_not_called_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    no_rows = pa.table({"src": pa.array([], "int64"), "dst": pa.array([], "int64")})
    files = {"a.csv": "", "b.csv": "src,dst\n", "c.csv": "1,2\n", "d.parquet": no_rows}
    write(tmp_path, files)
    assert len(training_graphs(str(tmp_path))) == 1
    caplog.clear()
    write(tmp_path, {"e.csv": "src,dst,weight\na,b,x\nb,c,-1\n"})
    counted = Counter[str]()
    snapshots, bad = read(tmp_path, count=lambda what, n: counted.update({what: n}))
    assert [snapshot.id for snapshot in snapshots] == ["files/c.csv"]
    assert counted == {"empty_files": 3}
    empty = [text.split()[0] for text in caplog.messages if "is empty" in text]
    assert empty == ["a.csv", "b.csv", "d.parquet"]
    assert len(bad) == 3
    why = "it has no good row and 2 bad ones; the first: e.csv:2"
    assert f"e.csv makes no snapshot: {why}" in bad[2]


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
        lambda: same.chmod(0o600),  # so far, perhaps nobody was allowed to read it
        lambda: None,
    )
    found, bad = read(tmp_path, every_s=2.0, stop=looks)
    snapshots = [(snapshot.id, snapshot.n_edges) for snapshot in found]
    assert (snapshots[:2], bad) == ([("files/a.csv", 1), ("files/b.csv", 3)], [])
    assert snapshots[2:] == [("files/a.csv", 2)] * 2


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
