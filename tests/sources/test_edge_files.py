"""A folder of edge lists: every form gives the same graph, and no file is read half."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import pickle
import re
import shlex
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
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
from stream_icd.core.errors import (
    BadRow,
    BadSettings,
    LimitExceeded,
    SourceNotFound,
    StoreUnreachable,
)
from stream_icd.core.snapshot import MOST_NODE_BYTES, Snapshot, Window
from stream_icd.core.times import parse_window
from stream_icd.sources.content import within
from stream_icd.sources.edge_files import watch_edge_files
from stream_icd.wire.limits import Limits

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


def compressed_by_arrow(codec: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), codec) as sink:
            sink.write(CSV.encode())

    return write


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
    "g.csv.gz": lambda path: path.write_bytes(gzip.compress(CSV.encode())),
    "g.csv.xz": lambda path: path.write_bytes(lzma.compress(CSV.encode())),
    "g.csv.zst": compressed_by_arrow("zstd"),
    "g.csv.zip": write_zip,
    "g.dat": lambda path: path.write_text(CSV.replace(",", "\t")),
    "commented.csv": lambda path: path.write_text(f"# of me\n% of me\n#{CSV}# the end\n%\n"),
    "spaced.csv": lambda path: path.write_text(CSV.replace(",", ", ")),
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


def read(folder: Path, **options: object) -> tuple[list[Snapshot], list[str]]:
    bad: list[BadRow] = []
    source = watch_edge_files(folder, on_bad_row=bad.append, **options)  # type: ignore[arg-type]
    return [snapshot for snapshot, _ in source.snapshots], [str(error) for error in bad]


@pytest.mark.parametrize("name", WRITERS)
def test_every_form_gives_the_same_graph(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    (snapshot,), bad = read(tmp_path, graph="friends")
    assert (snapshot.id, bad) == (f"friends/{name}", [])
    assert snapshot.nodes.to_pylist() == ["a", "b", "c", "d"]
    assert snapshot.edges.tolist() == [[0, 1], [1, 2]]
    assert snapshot.weights is not None
    assert snapshot.weights.tolist() == [2, 1]


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


def test_versions_keep_their_zero_and_ids_that_a_float_does_not_hold_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "2026-01-01.csv").write_text("src,dst\napp,1.0\nlib,2.0\n")
    (tmp_path / "2026-01-02.csv").write_text("src,dst\napp,1.0\nlib,1.1\n")
    first, second = read(tmp_path)[0]
    assert first.nodes.to_pylist() == ["1.0", "2.0", "app", "lib"]
    assert second.nodes.to_pylist() == ["1.0", "1.1", "app", "lib"]
    (tmp_path / "2026-01-01.csv").write_text(f"src,dst\n1,2.0\n2,{2**53}.0\n")
    (tmp_path / "2026-01-02.csv").unlink()
    (snapshot,), (bad,) = read(tmp_path)
    assert snapshot.nodes.to_pylist() == [1, 2]
    assert "a decimal number of at least 2^53" in bad


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


def test_what_is_ignored_without_a_header_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "z.txt").write_text("# SNAP\n# From\tTo\n1\t2\n2\t3\n")
    for name, rows in (("a", "1\t2\t\n"), ("b", "1\t2\t.5\tx\n2\t3\t1\ty\n"), ("c", "1\t2\t7\n")):
        (tmp_path / f"{name}.txt").write_text(rows)
    found, bad = read(tmp_path)
    assert [snapshot.weights for snapshot in found] == [None] * 4
    assert (found[0].nodes.to_pylist(), found[0].n_edges, bad) == ([1, 2, 3], 2, [])
    guess, said = (text for text in caplog.messages if "header" in text)
    assert guess.startswith("z.txt has no header: columns 1 and 2, separated by tabs, are the ends")
    assert "the first one is 1 - 2" in guess
    assert said.startswith("b.txt has no header: only columns 1 and 2, separated by tabs, are used")
    assert "not 3, 4; " in said


def test_columns_beside_the_ends_that_are_not_named_weight_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "b.csv").write_text("t,from,to\n5,1,2\n")
    (tmp_path / "c.csv").write_text("from,kind,to,value\n1,x,2,3\n")
    pq.write_table(pa.table({"src": [1], "dst": [2], "kind": [4]}), tmp_path / "d.parquet")
    found, bad = read(tmp_path)
    assert [snapshot.weights for snapshot in found] == [None] * 3
    assert bad == []
    (said,) = (text for text in caplog.messages if "weight" in text)
    assert said.startswith("c.csv has no column named weight, so all edges weigh 1: not used are")
    assert "kind, value (" in said


def test_a_column_that_is_not_used_is_logged_of_the_first_file_that_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = "src,dst,weight,kind\n1,2,3,4\n", ",src,dst,weight,kind,t\n0,1,2,3,4,5\n"
    for day, content in enumerate((first, first, second, second), start=1):
        (tmp_path / f"2026-01-0{day}.csv").write_text(content)
    write_arrow(pa.table({"src": [1], "dst": [2], "x": [7.0]}), tmp_path / "2026-01-05.arrow")
    found, bad = read(tmp_path)
    assert (len(found), bad) == (5, [])
    assert [text.partition(" (")[0] for text in caplog.messages] == [
        "2026-01-01.csv has columns that are not used: kind",
        "2026-01-03.csv has columns that are not used: one without a name, t",
        "2026-01-05.arrow has no column named weight, so all edges weigh 1: not used are x",
    ]


def test_the_reason_says_whether_an_id_or_a_weight_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("src,dst,weight\n1,2,1\na,3,1\n3,4,-1\n")
    ids = pa.array([1, 2]).cast(pa.decimal128(38, 0))  # as databases export integers
    pq.write_table(pa.table({"src": ["1", "2"], "dst": ids}), tmp_path / "h.parquet")
    _, bad = read(tmp_path, id_kind="integer")
    assert bad[0].endswith("an id is not of type integer (--ids)")
    assert bad[1].endswith("its weight is no finite number above 0")
    assert bad[2].endswith("an id is of type decimal128(38, 0), no integer or text")
    (tmp_path / "h.parquet").unlink()
    longest = "y" * MOST_NODE_BYTES
    (tmp_path / "g.csv").write_text(f"src,dst\na,b\na,{longest}y\nb,{longest}\n")
    (snapshot,), (said,) = read(tmp_path)
    assert snapshot.nodes.to_pylist() == ["a", "b", longest]
    assert said.endswith("an id is one of 4,097 bytes; the limit is 4,096: send a hash of it")


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


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "loops.csv": (b"1,1\n", "no edge"),
    "torn.parquet": (b"PAR1", "damaged"),
    "torn.arrow": (b"ARROW1", "damaged"),
    "torn.graphml": (b"<graphml>", "damaged"),
    "torn.csv.gz": (gzip.compress(b"1,2\n" * 99)[:20], "damaged"),
    "bomb.graphml": (BOMB.encode(), "entities"),
    "named.graphml": (
        f"<?xml version='1.0' encoding='utf-16'?>{BOMB}".encode("utf-16"),
        "entities",
    ),
    "default.graphml": (
        b'<!DOCTYPE g [<!ATTLIST node x CDATA "AAAA">]><graphml><node/></graphml>',
        "ATTLIST",
    ),
    "unknown.graphml": (b"<?xml version='1.0' encoding='x'?><graphml/>", "encoding"),
    "other.parquet": (b"", "expected src, dst"),
    "latin.parquet": (b"", "damaged.*UTF8"),
    "latin.arrow": (b"", "damaged.*UTF8"),
    "two.csv.zip": (two_files(), "holds 2 files \\(a.csv, b.csv\\): put one file in each"),
    "torn.csv.zst": (pa.compress(b"1,2\n" * 99, "zstd", asbytes=True)[:-4], "damaged"),
    "packed.csv": (bz2.compress(b"1,2\n2,3\n"), "compressed, so its name needs that ending"),
    "graph.pickle": (pickle.dumps(EDGES), "pickle can run any code"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_edge_list_is_reported_and_the_others_go_on(
    name: str, tmp_path: Path
) -> None:
    content, why = BAD_FILES[name]
    if name == "other.parquet":
        pq.write_table(pa.table({"x": [1]}), tmp_path / name)
    elif name.startswith("latin"):
        write = pq.write_table if name.endswith("parquet") else write_arrow
        write(pa.table({"src": LATIN, "dst": ["c", "d"]}), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "zz.csv").write_text("1,2\n")
    found, bad = read(tmp_path)
    assert [snapshot.id for snapshot in found] == ["files/zz.csv"]
    assert any(re.search(f"{name}.*{why}", error) for error in bad), bad
    with pytest.raises(BadRow):
        list(watch_edge_files(tmp_path).snapshots)


def test_an_arrow_file_with_a_damaged_length_is_a_bad_row(tmp_path: Path) -> None:
    table = pa.table({"src": range(2000), "dst": range(1, 2001)})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema, options=options) as file:
        file.write_table(table)
    content = bytearray((tmp_path / "a.arrow").read_bytes())
    at = content.index((8 * len(table)).to_bytes(8, "little"))  # the size of a buffer
    content[at + 7] = 0x40
    (tmp_path / "a.arrow").write_bytes(content)
    found, bad = read(tmp_path)
    assert found == []
    assert bad[0].startswith("a.arrow makes no snapshot: it has more than 1,073,741,824 bytes")


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


def test_batches_are_read_up_to_the_limit() -> None:
    """As those of Parquet whose footer says less than is there."""
    n_read = 0

    def batches() -> Iterator[pa.Table]:
        nonlocal n_read
        for n_read in range(1, 11):  # noqa: B007
            yield pa.table({"src": [1, 2]})

    with pytest.raises(LimitExceeded, match="more than 5 rows"):
        list(within(batches(), Limits(rows=5)))
    assert n_read == 3


@pytest.mark.parametrize("name", ["g.graphml.gz", "g.csv.gz"])
def test_no_more_bytes_of_a_file_are_read_than_a_snapshot_may_have(
    name: str, tmp_path: Path
) -> None:
    with gzip.open(tmp_path / name, "wb") as file:
        file.write(b"src,dst\n" + b"a,b\n" * 100_000)
    found, (bad,) = read(tmp_path, limits=Limits(decoded_bytes=100_000))
    assert (found, "it has more than 100,000 bytes, the limit of a snapshot" in bad) == ([], True)
    assert "STREAM_ICD_LIMITS_DECODED_BYTES" in bad


def test_a_named_pipe_is_a_bad_row(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    found, bad = read(tmp_path)
    assert (found, bad) == ([], ["a.csv makes no snapshot: it is no regular file"])


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


def test_a_bad_row_of_a_file_is_reported_with_its_place(tmp_path: Path) -> None:
    for text, shown in {
        "src,dst\n1,2\nx,3\n": "src 'x'",
        "src,dst,weight\n1,2,1\n2,3,-1\n": "weight '-1'",
        "src,dst,weight\n1,2,1\n2,3,heavy\n": "weight 'heavy'",
        "src,dst\n1,2\n,3\n": "src ''",
        "1,2\n1\n": "'1'",
    }.items():
        (tmp_path / "g.csv").write_text(text)
        (snapshot,), (bad,) = read(tmp_path, id_kind="integer")
        assert (snapshot.n_edges, bad[:6], shown in bad) == (1, "g.csv:", True)


def windows_of(folder: Path, *names: str, window: str | None = None) -> dict[str, Window]:
    """The windows of files that were changed five seconds after 1970 began."""
    for name in names:
        (folder / name).write_text("1,2\n")
        os.utime(folder / name, (0, 5))
    found, _ = read(folder, window=window and parse_window(window))
    return {snapshot.id.removeprefix("files/"): snapshot.window for snapshot in found}


@pytest.mark.parametrize(
    ("name", "start", "days"),
    [
        ("2026-01-31.csv", datetime(2026, 1, 31, tzinfo=UTC), 1),
        ("g_20260131.csv", datetime(2026, 1, 31, tzinfo=UTC), 1),
        ("2026_01_31_12-30.csv", datetime(2026, 1, 31, 12, 30, tzinfo=UTC), 0),
        ("20260131T1230.csv", datetime(2026, 1, 31, 12, 30, tzinfo=UTC), 0),
        ("g-2026-01-31_12-30-05.csv", datetime(2026, 1, 31, 12, 30, 5, tzinfo=UTC), 0),
        ("graph.csv", datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), 0),
    ],
)
def test_the_window_is_in_the_name_or_when_the_file_was_changed(
    name: str, start: datetime, days: int, tmp_path: Path
) -> None:
    window = windows_of(tmp_path, name)[name]
    assert (window.start, window.end - window.start) == (start, timedelta(days=days))


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


@pytest.mark.parametrize("window", [None, "month"])
def test_a_window_that_would_end_after_9999_is_refused(window: str | None, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="after the year 9999"):
        windows_of(tmp_path, "9999-12-31.csv", window=window)


NOT_EDGES = {
    "labels": ("node,community\n1,0\n2,0\n3,1\n", "column community says .* table of labels"),
    "scores": ("1,0.5\n2,0.25\n3,.5\n", "column 2 holds fractions"),
    "all in one": ("1,7\n2,7\n3,7\n", "column 2 holds 7 in each row: is it a label"),
    "header": ("user,friend\n1,2\n2,3\n", "first line .user, friend. is a header"),
    "ends": ("source,destination\na,b\nb,c\n", "source, destination. looks like a header"),
    "matrix": (",a,b,c\na,0.0,1.0,1.0\nb,1.0,0.0,1.0\n", "line .*a, b, c. looks like a header"),
    "series": (",team\na,red\nb,red\nc,blue\n", "first line .*team. looks like a header"),
    "own names": (
        "person_a,person_b\nann,bob\nbob,cy\n",
        "person_a, person_b. looks like a header",
    ),
    "own pairs": (
        "FromNodeId,user 2\nann,bob\ncy,dee\n",
        "FromNodeId, user 2. looks like a header",
    ),
    "only a header": ("person_a,person_b\n", "looks like a header"),
    "a day": ("a,b,when\na,b,2026-01-01\nb,a,2026-01-02\n", "a, b, when. is a header"),
    "short header": ("node1 node2\nann bob 3\nbob cy 2\n", "has 2 columns and the rows 3"),
    "neighbours": ("a b c\nb c\nd a\ne\nf a b c\n", "different numbers of columns"),
    "sizes": ("9 9 9\n1 2\n2 3\n", "has 3 columns and the rows 2"),
    "one column": ("1\n2\n3\n", "rows have one column"),
    "adjacency": ("0,1,1,0\n1,0,1,0\n1,1,0,1\n0,0,1,0\n", "is a matrix of 4 rows and 4 columns"),
    "distances": ("0,.5,2\n.5,0,1\n2,1,0\n", "is a matrix of 3 rows and 3 columns"),
    "named matrix": ("a 0 1 1\nb 1 0 1\nc 1 1 0\n", "is a matrix of 3 rows and 3 columns"),
    "page": ("\n<!DOCTYPE html>\n<html lang='en'>\n", "it is HTML or XML"),
    "pointer": (
        "version https://git-lfs.github.com/spec/v1\noid sha256:07\nsize 12345\n",
        "pointer of Git LFS.*`git lfs pull`",
    ),
    "annex": ("../.git/annex/objects/x/SHA256E-s1--07.csv\n", "pointer of git-annex"),
    "JSON": ('{"nodes": [], "links": []}\n', "it is JSON"),
    "JSON list": ('[\n  {"source": 1}\n]\n', "it is JSON"),
    "GML": ('Creator "igraph"\ngraph\n[\n  node [ id 1 ]\n]\n', "it is GML"),
    "DOT": ("graph G {\n a -- b;\n}\n", "Graphviz"),
    "snapshots": ("snapshot,src,dst\na,1,2\nb,2,3\n", "column snapshot names 2 graphs"),
    "denied": ("Access Denied\n", "looks like a header"),
    "doubled": ("src,dst,src\na,b,c\n", "more than one column 'src': rename the others"),
}


@pytest.mark.parametrize("name", NOT_EDGES)
def test_a_table_that_is_no_edge_list_is_refused(name: str, tmp_path: Path) -> None:
    content, why = NOT_EDGES[name]
    (tmp_path / "table.csv").write_text(content)
    found, bad = read(tmp_path)
    assert found == []
    assert re.search(why, bad[0]), bad


def test_a_first_line_of_sizes_is_no_edge(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Numbers of nodes and edges, in as many columns as the rows or not."""
    edges = [(0, 1), (0, 2), (3, 4), (2, 5)]
    (tmp_path / "a.txt").write_text("6 4\n" + "".join(f"{a} {b}\n" for a, b in edges))
    (tmp_path / "b.txt").write_text("6 4\n" + "".join(f"{a} {b} .5\n" for a, b in edges))
    (tmp_path / "c.txt").write_text("6 6 4\n" + "".join(f"{a} {b} .5\n" for a, b in edges))
    found, bad = read(tmp_path)
    assert ([one.edges.T.tolist() for one in found], bad) == ([sorted(map(list, edges))] * 3, [])
    assert "a.txt begins with its number of edges: the first line (6, 4) is taken" in caplog.text


def test_a_first_edge_that_fits_no_sizes_is_an_edge(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("6 5\n0 1\n0 2\n3 4\n2 5\n")  # four follow
    (tmp_path / "nodes.txt").write_text("4 4\n0 1\n0 2\n3 4\n4 5\n")  # 5 is above 4
    found = {one.id: (one.n_edges, one.n_self_loops) for one in read(tmp_path)[0]}
    assert found == {"files/rows.txt": (5, 0), "files/nodes.txt": (4, 1)}


@pytest.mark.parametrize(
    "text",
    [
        "ann,bob\nbob,cy\n",
        "ann,bob\ncy,dee\n",
        "user1,user2\nuser3,user4\n",
        "<a@x.org>,<b@x.org>\n<b@x.org>,<c@x.org>\n",
        "a,1\nb,2\n",
        "1 2 7\n2 3 9\n1 3 5\n",
        "1,2\n1\n2,3\n3,4\n",
        "1,2\n",
    ],
)
def test_the_first_line_of_an_edge_list_is_an_edge(text: str, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(text)
    (snapshot,), _ = read(tmp_path)
    first = re.split("[, ]", text.split()[0] if "," in text else text.split("\n")[0])[:2]
    nodes = list(map(str, snapshot.nodes.to_pylist()))
    assert sorted(map(nodes.index, first)) in snapshot.edges.T.tolist()


def test_a_comment_without_a_space_is_known_by_the_numbers_below(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "g.txt").write_text("#FromNodeId\tToNodeId\n1\t2\n2\t3\n")
    (snapshot,), bad = read(tmp_path)
    assert (snapshot.nodes.to_pylist(), bad) == ([1, 2, 3], [])
    assert "(#FromNodeId, ToNodeId), which is taken for a comment" in caplog.text


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


def test_an_edge_list_of_one_time_is_a_graph(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("time,src,dst\n2026-01-01,1,2\n2026-01-01,2,3\n")
    (tmp_path / "weighted.txt").write_text("1 2 7\n2 3 9\n")
    found, bad = read(tmp_path)
    assert ([snapshot.n_edges for snapshot in found], bad) == ([2, 2], [])


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


def test_an_archive_is_no_folder_of_edge_lists(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    with pytest.raises(SourceNotFound, match="stream-icd produce replay"):
        watch_edge_files(tmp_path)


def test_a_doubled_column_of_a_table_is_refused(tmp_path: Path) -> None:
    for name, columns in {"src": ["src", "dst", "src"], "t": ["src", "t", "t"]}.items():
        table = pa.table([["a"], ["b"], ["c"]], columns)
        pq.write_table(table, tmp_path / f"{name}.parquet")
        write_arrow(table, tmp_path / f"{name}.arrow")
    found, bad = read(tmp_path)
    assert found == []
    assert [re.findall("than one column '(.*)'", error) for error in bad] == [["src"]] * 2 + [
        ["t"]
    ] * 2


def test_columns_that_nobody_asks_for_may_be_doubled(tmp_path: Path) -> None:
    (tmp_path / "sheet.csv").write_text("src,dst,,\na,b,,\n")
    (tmp_path / "capital.csv").write_text("src,dst,Src\na,b,x\n")
    found, bad = read(tmp_path)
    assert ([one.nodes.to_pylist() for one in found], bad) == ([["a", "b"]] * 2, [])


def test_content_of_another_kind_makes_no_graph(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1, 2], "dst": [2, 3]}), tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes("src,dst\na,b\nb,c\n".encode("utf-16-le"))
    (tmp_path / "c.csv").write_text("x" * 200_000)
    pq.write_table(pa.table({"node": [1, 2], "community": [0, 0]}), tmp_path / "d.parquet")
    binary = "is binary, or UTF-16 without its mark"
    whys = (binary, binary, "is no row of a table: field larger", "table of labels")
    found, bad = read(tmp_path)
    assert (found, [why in said for why, said in zip(whys, bad, strict=True)]) == ([], [True] * 4)


def test_names_of_columns_may_be_capitalised_and_those_that_are_named_hold_a_star(
    tmp_path: Path,
) -> None:
    (tmp_path / "gephi.csv").write_text("Source,Target,Type,Weight\na,b,Undirected,2\n")
    (tmp_path / "star.csv").write_text("src,dst,label\n1,7,a\n2,7,b\n3,7,c\n")
    (gephi, star), bad = read(tmp_path)
    assert (gephi.nodes.to_pylist(), star.n_edges, bad) == (["a", "b"], 3, [])
    assert gephi.weights is not None


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


def test_a_watched_folder_sends_files_when_they_stop_growing(tmp_path: Path) -> None:
    growing = tmp_path / "b.csv"
    (tmp_path / "a.csv").write_text("1,2\n")
    looks = Looks(
        lambda: growing.write_text("1,2\n"),
        lambda: growing.write_text("1,2\n2,3\n"),
        lambda: growing.write_text("1,2\n2,3\n3,4\n"),
        lambda: None,
        lambda: None,
    )
    found, bad = read(tmp_path, every_s=2.0, stop=looks)
    assert [(s.id, s.n_edges) for s in found] == [("files/a.csv", 1), ("files/b.csv", 3)]
    assert bad == []


def test_a_link_without_its_file_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n")
    (tmp_path / "b.csv").symlink_to(tmp_path / "unmounted.csv")
    found, bad = read(tmp_path)
    assert [snapshot.id for snapshot in found] == ["files/a.csv"]
    assert len(bad) == 1
    assert "b.csv makes no snapshot" in bad[0]
    assert "No such file" in bad[0]


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


def test_a_watched_folder_that_vanishes_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    source = watch_edge_files(folder, every_s=0.01)
    folder.rmdir()
    with pytest.raises(StoreUnreachable, match="cannot read the folder .*/mounted: No such file"):
        next(source.snapshots)


def test_a_watched_file_that_changes_is_sent_again_and_one_that_vanishes_is_not(
    tmp_path: Path,
) -> None:
    file, other = tmp_path / "a.csv", tmp_path / "b.csv"
    file.write_text("1,2\n")
    other.write_text("1,2\n")
    looks = Looks(other.unlink, lambda: None, lambda: file.write_text("1,2\n2,3\n"), lambda: None)
    found, _ = read(tmp_path, every_s=2.0, stop=looks)
    assert [(s.id, s.n_edges) for s in found] == [("files/a.csv", 1), ("files/a.csv", 2)]


def test_a_folder_that_is_not_there_or_empty_is_told(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="nothing at"):
        watch_edge_files(tmp_path / "absent")
    with pytest.raises(SourceNotFound, match="holds no edge list"):
        watch_edge_files(tmp_path)
    (tmp_path / "a.csv").write_text("1,2\n")
    with pytest.raises(BadSettings, match="is not a folder"):
        watch_edge_files(tmp_path / "a.csv")
    with pytest.raises(BadSettings, match="above 0"):
        watch_edge_files(tmp_path, every_s=0)
