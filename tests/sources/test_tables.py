"""Rows of any form: read alike, and each line used, or reported with its place."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import re
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from stream_icd.core.errors import BadRow, BadSettings, LimitExceeded, SourceNotFound
from stream_icd.core.node_ids import plain_columns
from stream_icd.core.times import time_at
from stream_icd.sources import tables
from stream_icd.sources.content import Parquet
from stream_icd.sources.tables import columns_of, read_rows
from stream_icd.sources.timed_rows import Columns, sorted_by_time
from stream_icd.sources.values import TimeUnit, read_times
from stream_icd.sources.windows import TimedRows
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from tests.sources.reading import parquet, write

EVENTS = Columns("t", {"src": "src", "dst": "dst"})
INTEGERS = replace(EVENTS, id_kind="integer")
ROWS = [(10, 1, 2), (20, 2, 3), (30, 1, 3)]
BEIJING = timezone(timedelta(hours=8))


Read = tuple[list[dict[str, object]], list[str]]


def read(path: Path, columns: Columns = EVENTS, header: list[str] | None = None) -> Read:
    """Rows with their times in seconds, and the bad ones."""
    bad: list[BadRow] = []
    raw = read_rows(path, columns.names, bad.append, header=header)
    rows = []
    for batch in columns.read(raw, bad.append):
        assert isinstance(batch, TimedRows)
        times = (batch.time / 1e6).tolist()
        rows += [{"t": t, **row} for t, row in zip(times, batch.rows.to_pylist(), strict=True)]
    return rows, [str(error) for error in bad]


EXPECTED = [{"t": t, "src": src, "dst": dst} for t, src, dst in ROWS]
CSV = "t,src,dst\n" + "".join(f"{t},{src},{dst}\n" for t, src, dst in ROWS)
TEXTS = {
    "rows.csv": CSV,
    "rows.tsv": CSV.replace(",", "\t"),
    "rows.txt": CSV.replace(",", " "),
    "excel.csv": "sep=;\n" + CSV.replace(",", ";"),
    "windows.csv": "\ufeff" + CSV.replace("\n", "\r\n"),
    "mac.csv": "# of somebody\n".replace("\n", "\r") + CSV.replace("\n", "\r"),
    "spaced.csv": CSV.replace(",", ", "),
    "quoted.csv": re.sub(r"(\w+)", r'"\1"', CSV).replace(",", ", "),
    "aligned.txt": "\n".join(f"  {line} " for line in CSV.split("\n")).replace(",", "   "),
    "commented.csv": "# of somebody\n\n" + CSV + "# the end\n%\n",
    "other_order.csv": "dst,x,t,src\n" + "".join(f'{d},"a,b",{t},{s}\n' for t, s, d in ROWS),
    "rows.jsonl": "".join(
        json.dumps(dict(zip(("t", "src", "dst"), r, strict=True))) + "\n" for r in ROWS
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_form_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    assert read(write(tmp_path, {name: TEXTS[name]}) / name) == (EXPECTED, [])


READ_AS: dict[str, tuple[str, list[tuple[object, object]], int]] = {
    "quotes": ('t,src,dst\n1,"Acme, ""The"" Co", "b"\n', [('Acme, "The" Co', "b")], 0),
    "hashtags": (
        "t,src,dst\n10,#b,#a\n# a comment\n20,#c,d\n% another\n30,%e,d\n",
        [("#b", "#a"), ("#c", "d"), ("%e", "d")],
        0,
    ),
    "missing in JSON": (
        '{"t": 1, "src": null, "dst": 2}\n{"t": 1, "src": NaN, "dst": 2}\n{}',
        [],
        3,
    ),
    # As pandas writes the receivers if one is missing, and the senders if one is a name.
    "whole numbers": ("t,src,dst\n1,1,2.0\n2,admin,1.0\n3,2,\n", [("1", "2"), ("admin", "1")], 1),
    "sections": (
        "t,src,dst\n1,1.0,1.1\n2,2.0,1.0\n3,1.0,b\n",
        [("1.0", "1.1"), ("2.0", "1.0"), ("1.0", "b")],
        0,
    ),
    "versions in JSON": (
        '{"t": 1, "src": "1", "dst": "1.0"}\n{"t": 2, "src": "a", "dst": "2.0"}\n',
        [("1", "1.0"), ("a", "2.0")],
        0,
    ),
    "names beside numbers": ("t,src,dst\n1e9,ann,1\n1e9,bob,2\n", [("ann", "1"), ("bob", "2")], 0),
}


@pytest.mark.parametrize("name", READ_AS)
def test_ids_are_read_as_they_are_meant(name: str, tmp_path: Path) -> None:
    text, expected, n_bad = READ_AS[name]
    path = tmp_path / ("rows.jsonl" if text.startswith("{") else "rows.csv")
    path.write_bytes(text.encode(errors="surrogateescape"))
    with capture_logs() as logs:
        rows, bad = read(path)
    assert ([(row["src"], row["dst"]) for row in rows], len(bad)) == (expected, n_bad)
    assert name != "names beside numbers" or logs == []  # they are no surprise


def test_a_mark_of_utf_16_is_read_and_bad_ids_are_said_to_be_so(tmp_path: Path) -> None:
    latin = "t,src,dst\n10,Zo\xeb,a\n".encode("latin-1")
    write(tmp_path, {"16.csv": TEXTS["windows.csv"].encode("utf-16-le"), "latin.csv": latin})
    assert read(tmp_path / "16.csv") == (EXPECTED, [])
    assert "is not UTF-8" in read(tmp_path / "latin.csv")[1][0]


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_doubled_column_is_refused_if_it_is_read(name: str, tmp_path: Path) -> None:
    def doubled(column: str) -> Path:
        names = ["t", "src", "dst", "x", column]
        table = pa.table([["10"], ["a"], ["b"], ["c"], ["d"]], names)
        text = f"{','.join(names)}\n10,a,b,c,d\n"
        return write(tmp_path, {name: text if name == "rows.csv" else table}) / name

    assert read(doubled("x")) == ([{"t": 10, "src": "a", "dst": "b"}], [])
    with pytest.raises(BadSettings, match=r"rows\.\w+ has more than one column 'src'"):
        read(doubled("src"))


@pytest.mark.parametrize("first", ["[" * 100_000, "1", ""])
def test_columns_are_those_of_the_first_json_object(first: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(f'{first}\n{{"Time": 1, "from": 2, "to": 3}}\n')
    assert columns_of(tmp_path / "rows.jsonl") == ["Time", "from", "to"]
    rows, bad = read(tmp_path / "rows.jsonl", Columns("Time", {"src": "from", "dst": "to"}))
    assert rows == [{"t": 1, "src": 2, "dst": 3}]
    assert len(bad) == (first != "")


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.gz"])
def test_an_endless_line_is_a_bad_row_and_takes_no_memory(name: str, tmp_path: Path) -> None:
    lines = TEXTS[name.removesuffix(".gz")].splitlines(keepends=True)
    with gzip.open(tmp_path / name, "wt", compresslevel=1) as file:
        file.writelines(lines[:2])
        file.writelines(["x" * 1_000_000] * 40)
        file.writelines(["\n", *lines[2:]])
    tracemalloc.start()
    rows, (bad,) = read(tmp_path / name)
    assert tracemalloc.get_traced_memory()[1] < 25_000_000
    tracemalloc.stop()
    assert rows == EXPECTED
    assert bad.startswith(f"{name}:3 is no row: it has more than")
    if name == "rows.csv.gz":
        with gzip.open(tmp_path / name, "wt", compresslevel=1) as file:
            file.writelines(["x" * 1_000_000] * 2)
        with pytest.raises(BadSettings, match=r"rows\.csv\.gz:1 is no row: it has more than"):
            read(tmp_path / name)


def test_compressed_text_is_read(tmp_path: Path) -> None:
    columns = zip(("t", "src", "dst"), zip(*ROWS, strict=True), strict=True)
    table = pa.table({name: list(values) for name, values in columns})
    files = {
        "rows.csv.gz": gzip.compress(CSV.encode()),
        "rows.ndjson.BZ2": bz2.compress(TEXTS["rows.jsonl"].encode()),
        "rows.csv.xz": lzma.compress(CSV.encode()),
        "rows.csv.zst": pa.compress(CSV.encode(), "zstd", asbytes=True),
        "rows.parquet": parquet(table),
        "rows.parquet.zst": pa.compress(parquet(table), "zstd", asbytes=True),
    }
    for path in write(tmp_path, files).iterdir():
        assert read(path) == (EXPECTED, [])
        assert sorted(tables.columns_of(path)) == ["dst", "src", "t"]


def test_a_folder_or_a_link_that_cannot_be_read_is_a_bad_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"06/z.csv": CSV, "x.csv": "t,src,dst\n10,1,2\n"})
    (tmp_path / "y.csv").symlink_to(tmp_path / "unmounted.csv")
    scan = os.scandir

    def refused(folder: str) -> object:  # root may read all folders
        if Path(folder).name == "06":
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refused)
    rows, (folder, link) = read(tmp_path)
    assert rows == EXPECTED[:1]
    assert folder.endswith("06 cannot be read: Permission denied")
    assert re.search("y.csv is damaged.*No such file", link)


def test_a_folder_is_read_in_the_order_of_names_and_below(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / ".data"
    files = {
        "06/1.csv": "t,src,dst\n10,1,2\n",
        "07.csv": "t,src,dst\n20,2,3\n",
        "06/2.xlsx": "rows of a spreadsheet",
        "README": "not rows",
        ".ipynb_checkpoints/x-checkpoint.csv": "t,src,dst\n10,1,2\n",  # hidden copies
        "._x.csv": "t,src,dst\n10,1,2\n",
    }
    assert read(write(folder, files)) == (EXPECTED[:2], [])
    (logged,) = [line.getMessage() for line in caplog.records if line.name == tables.__name__]
    assert logged.startswith("not read in .data: 06/2.xlsx, README. Files are read that")
    assert read(folder / "._x.csv") == (EXPECTED[:1], [])


def test_a_file_larger_than_a_batch_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_BATCH_CHARACTERS", 37)
    lines = [f"{t},{t % 7},bad\n" if t % 10 == 3 else f"{t},{t % 7},{t % 5}\n" for t in range(100)]
    (tmp_path / "rows.csv").write_text("t,src,dst\n" + "".join(lines))
    rows, bad = read(tmp_path / "rows.csv", INTEGERS)
    assert [row["t"] for row in rows] == [t for t in range(100) if t % 10 != 3]
    assert [error.split(":")[1] for error in bad] == [str(t + 2) for t in range(100) if t % 10 == 3]


BAD_ROWS = {
    "10,1": "rows.csv:3: '10,1' is not a row",
    "t,src, dst": "rows.csv:3 is a header, not a row",
    "yesterday,1,2": "rows.csv:3: t 'yesterday' is not a time",
    "1e300,1,2": "not a time",
    "0001-01-01T00:00:00+01:00,1,2": "not a time",
    "10,x,2": "src 'x' is not of type integer",
    "10,1,": "dst '' is empty",
    '10,"1,2': "is not a row",
    "10,1,\udcff": "not of type integer",
}


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_row_is_reported_and_nothing_else_is_lost(row: str, tmp_path: Path) -> None:
    text = f"t,src,dst\n10,1,2\n{row}\n20,2,3\n30,1,3\n"
    (tmp_path / "rows.csv").write_bytes(text.encode(errors="surrogateescape"))
    rows, bad = read(tmp_path / "rows.csv", INTEGERS)
    assert rows == EXPECTED
    assert len(bad) == 1
    assert BAD_ROWS[row] in bad[0]


def test_lines_of_a_quoted_field_are_no_rows(tmp_path: Path) -> None:
    note = '10,1,"see\n11,7,8\n\n12,8,9"\n'  # a quote that nobody closes ends with its line
    text = f't,src,dst\n10,1,2\n{note}20,2,3\n25,3,"x\n30,1,3\n'
    (tmp_path / "rows.csv").write_text(text)
    rows, bad = read(tmp_path / "rows.csv")
    assert rows == EXPECTED
    assert [error.partition(" ")[0] for error in bad] == [f"rows.csv:{n}:" for n in (3, 4, 6, 8)]


@settings(max_examples=80)
@given(lines=st.lists(st.text(alphabet='ab1,"#%\r \x0b\u2028é', max_size=8), max_size=12))
def test_every_line_is_a_row_or_reported_or_empty_or_a_comment(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_bytes(("t,src,dst\n" + "\n".join(lines) + "\n").encode())
    bad: list[BadRow] = []
    n_rows = sum(len(batch.place) for batch in read_rows(path, ["src"], bad.append))
    whole = "\n".join(lines).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    meant = [line for line in whole if line.strip() and not re.match(r"[#%]+(\s|$)", line)]
    assert n_rows + len(bad) == len(meant)


TEXTS_OF_TWO = pa.array(["1", "2"])
BAD_COLUMNS: dict[str, tuple[dict[str, object], list[int]]] = {
    "views": ({"src": TEXTS_OF_TWO.cast(pa.string_view())}, [0, 1]),
    "categories": ({"src": TEXTS_OF_TWO.dictionary_encode()}, [0, 1]),
    "gaps": ({"src": pa.array([1, None])}, [0]),
    "gaps in times": ({"t": pa.array([None, 2])}, [1]),
    "u64 ids": ({"src": pa.array([1, 2**63], pa.uint64())}, [0]),
    "days": ({"t": pa.array([0, 2**31 - 1], pa.date32())}, [0]),
    "lists": ({"src": pa.array([[1], [2]])}, []),
    "fractions": ({"src": pa.array([1.5, 2.0])}, [1]),
    "weights": ({"w": pa.array([[1.0], [2.0]])}, []),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_values_of_parquet_that_no_row_may_have_are_bad_rows(name: str, tmp_path: Path) -> None:
    changed, good = BAD_COLUMNS[name]
    columns = {"t": [1, 2], "src": [1, 2], "dst": [2, 3], "w": [1, 2]} | changed
    write(tmp_path, {"rows.parquet": pa.table(columns)})
    weighed = replace(EVENTS, numbers={"weight": ("w", lambda weight: weight > 0)})
    rows, bad = read(tmp_path / "rows.parquet", weighed)
    assert [row["dst"] for row in rows] == [columns["dst"][at] for at in good]  # type: ignore[index]
    places = [at for at in (0, 1) if at not in good]
    assert [error.split(": ")[0] for error in bad] == [f"rows.parquet:{at}" for at in places]


def test_a_damaged_file_is_reported_and_the_next_one_read(tmp_path: Path) -> None:
    latin = pa.Array.from_buffers(pa.string(), 1, pa.array([b"caf\xe9"]).buffers())
    damaged = {
        "a.csv.gz": gzip.compress(CSV.encode() * 3)[:-12],
        "b.parquet": b"not Parquet",
        "bb.parquet": pa.table({"t": [1], "src": latin, "dst": ["b"]}),
    }
    rows, bad = read(write(tmp_path, {**damaged, "c.csv": CSV}))
    assert rows[-3:] == EXPECTED
    assert all(any(f"{name} is damaged" in error for error in bad) for name in damaged)


def read_text(folder: Path, text: str, columns: Columns = EVENTS, name: str = "rows.csv") -> Read:
    return read(write(folder, {name: text}) / name, columns)


STRINGS = replace(EVENTS, id_kind="string")


@pytest.mark.parametrize("odd", ["a", "007", "-0", "1.5", "1e5", str(2**63)])
@pytest.mark.parametrize("order", [1, -1])
def test_ids_are_integers_if_all_of_them_are_whatever_comes_first(
    odd: str, order: int, tmp_path: Path
) -> None:
    text = "t,src,dst\n" + "".join(["1,1,2\n", f"2,3,{odd}\n"][::order])
    with capture_logs() as logs:
        rows, bad = read_text(tmp_path, text)
    assert ({row["src"] for row in rows}, bad) == ({"1", "3"}, [])
    assert [line["id"] for line in logs if "all ids are text" in line["event"]] == [odd]
    rows, bad = read_text(tmp_path, text, INTEGERS)
    assert ([row["src"] for row in rows], len(bad)) == ([1], 1)


@pytest.mark.parametrize("one", ["1.0", "1e+00", "1.000000000000000000e+00"])
def test_whole_numbers_written_as_fractions_are_integers(one: str, tmp_path: Path) -> None:
    written = [("10", one, "2"), ("20", "2", "3.0"), ("30", one, "3")]
    text = "t,src,dst\n" + "".join(f"{','.join(row)}\n" for row in written)
    lines = [f'{{"t": {t}, "src": {src}, "dst": {dst}}}\n' for t, src, dst in written]
    for columns in (EVENTS, INTEGERS):
        assert read_text(tmp_path, text, columns) == (EXPECTED, [])
        assert read_text(tmp_path, "".join(lines), columns, "rows.jsonl") == (EXPECTED, [])
    # As text, they stay as they are written, except in JSON, where 1.0 and 1 are the same.
    assert [row["src"] for row in read_text(tmp_path, text, STRINGS)[0]] == [one, "2", one]
    rows, _ = read_text(tmp_path, "".join(lines), STRINGS, "rows.jsonl")
    assert [row["src"] for row in rows] == ["1", "2", "1"]


@pytest.mark.parametrize("large", [f"{2**53}.0", "1e+16", "-1.2345678901234567e+19", "1e+400"])
def test_fractions_from_2_to_the_53_on_are_refused(large: str, tmp_path: Path) -> None:
    in_json = large.replace("1e+400", "1e+40")  # which Python reads as infinity
    for rows, (bad,) in (
        read_text(tmp_path, f"t,src,dst\n1,1,2.0\n2,{large},3.0\n3,4,5.0\n"),
        read_text(
            tmp_path,
            f'{{"t": 1, "src": 1, "dst": 2.0}}\n{{"t": 2, "src": {in_json}, "dst": 3.0}}\n'
            '{"t": 3, "src": 4, "dst": 5.0}\n',
            name="rows.jsonl",
        ),
    ):
        assert [row["src"] for row in rows] == [1, 4]
        assert "a decimal number of at least 2^53 = 9,007,199,254,740,992, not exact" in bad


@pytest.mark.parametrize("last", [2**63 - 1, -(2**63)])
def test_ids_of_text_are_integers_as_far_as_int64_goes(last: int, tmp_path: Path) -> None:
    text = f"t,src,dst\n1,7,{last}\n2,{last},7\n3,7,{2**63}\n"
    rows, bad = read_text(tmp_path, text, INTEGERS)
    assert [(row["src"], row["dst"]) for row in rows] == [(7, last), (last, 7)]
    assert len(bad) == 1
    assert {row["dst"] for row in read_text(tmp_path, text)[0]} == {str(last), "7", str(2**63)}


def times(
    values: Sequence[object] | pa.Array, unit: TimeUnit = "s", zone: str = "UTC", form: str = ""
) -> list[str | None]:
    """The times in minutes, or None in place of a value that is none."""
    column = values if isinstance(values, pa.Array) else pa.array(values)
    micros, good = read_times(pa.chunked_array([column]), unit, zone, form or None)
    read = zip(micros.tolist(), good.tolist(), strict=True)
    return [f"{time_at(time):%Y-%m-%dT%H:%M}" if is_good else None for time, is_good in read]


NOON, TWENTY = "2008-02-02T12:00", datetime(2008, 2, 2, 20)
IN_CHINA, IN_JAPAN = {"zone": "Asia/Shanghai"}, {"zone": "Asia/Tokyo"}
US_FORM = {"form": "%m/%d/%Y %I:%M %p"}
TIMES: list[tuple[list[object] | pa.Array, dict[str, Any], list[str | None]]] = [
    (["2008-02-02 20:00:00"], IN_CHINA, [NOON]),
    (["2008-02-02T12:00:00Z"], IN_CHINA, [NOON]),
    (["1201953600"], {}, [NOON]),
    (["1201953600.0"], {}, [NOON]),
    ([1201953600 * 10**9], {"unit": "ns"}, [NOON]),
    ([1201953600.0], {}, [NOON]),
    (pa.array([TWENTY], pa.timestamp("us")), IN_CHINA, [NOON]),
    (pa.array([TWENTY.replace(tzinfo=BEIJING)], pa.timestamp("ms", "Asia/Shanghai")), {}, [NOON]),
    (["2008-02-02T20:00+08:00", "soon", "1201953600", NOON], {}, [NOON, None, NOON, NOON]),
    (["2008-02-02 12:00:00 UTC", "2008-02-02 12:00:00.000 UTC"], IN_CHINA, [NOON, NOON]),
    (["2008-02-02 20:00:00 +0800"], {}, [NOON]),
    (["Sat, 02 Feb 2008 20:00:00 +0800", "2 Feb 2008 12:00 GMT"], IN_CHINA, [NOON, NOON]),
    (["2 Feb 2008 12:00 -0000", "Sat,  2 Feb 2008 07:00 EST (Ohio)"], IN_JAPAN, [NOON, NOON]),
    (["2 Feb 2008 12:00 UT", "02/02/2008 12:00 PM"], IN_JAPAN, [NOON, None]),
    (["2008-02-02 20:00 +08:00", "2 Feb 2008 12:00 UT"], IN_JAPAN, [NOON, NOON]),
    (["2/1/2008 1:05 PM", " 02/01/2008 01:05 pm"], US_FORM, ["2008-02-01T13:05"] * 2),
    (["31/12/2026 1:05 PM", "2/30/2026 1:05 PM", "2026-01-31", None], US_FORM, [None] * 4),
    (["Sat Feb 02 20:00:00 +0800 2008"], {"form": "%a %b %d %H:%M:%S %z %Y"}, [NOON]),
    ([20080202, 20080202], {"form": "%Y%m%d"}, ["2008-02-02T00:00"] * 2),
    ([20080202.0, 20080202.0], {"form": "%Y%m%d"}, ["2008-02-02T00:00"] * 2),
    ([date(2008, 2, 2)], {"form": "%Y"}, ["2008-02-02T00:00"]),
    # An hour that a clock shows twice is the first, one that it never shows ends with its gap.
    (["2024-10-27 02:30", "2024-03-31 02:30"], {"zone": "Europe/Rome"},
     ["2024-10-27T00:30", "2024-03-31T01:00"]),
    (["2024-10-27 02:30", "tomorrow"], {"zone": "Europe/Rome"}, ["2024-10-27T00:30", None]),
    # Days without hyphens are no seconds; of some numbers, a few could be days.
    (["20260131"] * 3 + [None, "1700000000"], {}, [None] * 4 + ["2023-11-14T22:13"]),
    ([20260131] * 3 + [None, 1700000000], {}, [None] * 4 + ["2023-11-14T22:13"]),
    ([f"{20_260_080 + at}" for at in range(40)], {}, ["1970-08-23T11:48"] * 40),
]  # fmt: skip


@pytest.mark.parametrize(("values", "how", "expected"), TIMES)
def test_times_are_read_in_every_form(
    values: Sequence[object] | pa.Array, how: dict[str, Any], expected: list[str | None]
) -> None:
    assert times(values, **how) == expected


def test_microseconds_are_exact_and_forms_that_lose_a_part_of_the_time_are_refused() -> None:
    exact, _ = read_times(pa.chunked_array([[1201953600123457]]), "us", "UTC")
    assert exact.tolist() == [1201953600123457]
    Columns("t", {"src": "src"}, time_format="%a %b %d %H:%M:%S %z %Y")
    partial = ("", "MM/DD/YYYY", "%Y-%d", "%m/%d/%Y %I:%M", "%m/%d/%Y %H:%M %p", "%Y-%m-%d %Z", "%")
    for form in partial:
        with pytest.raises(BadSettings, match="--time-format"):
            Columns("t", {"src": "src"}, time_format=form)


def test_times_in_doubtful_order_or_unit_ask_for_the_form(tmp_path: Path) -> None:
    text = "t,src,dst\n1/2/2026 1:05 PM,1,2\n"
    assert "--time-format" in read_text(tmp_path, text)[1][0]
    us = replace(EVENTS, time_format="%m/%d/%Y %I:%M %p", zone="America/New_York")
    (row,), bad = read_text(tmp_path, text, us)
    assert (row["t"], bad) == (datetime(2026, 1, 2, 18, 5, tzinfo=UTC).timestamp(), [])
    rows, (beyond_calendar,) = read_text(tmp_path, "t,src,dst\n1201953600000,1,2\n")
    assert (rows, "--time-unit" in beyond_calendar) == ([], True)


def test_years_and_a_single_day_that_count_as_seconds_are_warned_of(tmp_path: Path) -> None:
    for time, warns in (("2021", 1), ("20260131", 1), ("1700000000", 0)):
        with capture_logs() as logged:
            read_text(tmp_path, f"t,src,dst\n{time},1,2\n")
        assert [line["event"][:13] for line in logged] == ["times of 1970"] * warns


def test_a_system_without_time_zones_reads_times_of_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    def assume(*_: object, **__: object) -> None:
        raise pa.ArrowInvalid("not found in timezone database")

    monkeypatch.setattr("stream_icd.sources.values.pc.assume_timezone", assume)
    assert None not in times(["2026-01-31", "2026-02-01 12:00"])
    with pytest.raises(BadSettings, match="package tzdata"):
        Columns("t", {"src": "src"}, zone="Asia/Shanghai")


def rows_in_order(path: Path, limits: Limits = DEFAULT_LIMITS) -> list[TimedRows]:
    raw = read_rows(path, EVENTS.names, lambda _: None)
    return list(sorted_by_time(EVENTS.read(raw, lambda _: None), limits))


def test_rows_are_sorted_by_time_up_to_a_limit(tmp_path: Path) -> None:
    path = write(tmp_path, {"rows.csv": "t,src,dst\n30,1,3\n10,1,2\n20,2,3\n"}) / "rows.csv"
    (batch,) = rows_in_order(path)
    assert np.array_equal(batch.time, [10e6, 20e6, 30e6])
    assert batch.rows["dst"].to_pylist() == [2, 3, 3]
    assert list(sorted_by_time([])) == []
    with pytest.raises(LimitExceeded, match="more than 2 rows to sort.*STREAM_ICD_LIMITS_ROWS"):
        rows_in_order(path, Limits(rows=2))
    for bad in ("no row", "# nothing", "10,,2"):  # behind a file without a good row
        (batch,) = rows_in_order(write(tmp_path, {"a.csv": f"t,src,dst\n{bad}\n"}))
        assert batch.rows["src"].to_pylist() == [1, 2, 1]


def test_what_cannot_be_read_at_all_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="nothing at"):
        read_rows(tmp_path / "absent.csv", ["t"], lambda _: None)
    with pytest.raises(SourceNotFound, match="folder of"):
        read_rows(tmp_path, ["t"], lambda _: None)
    (tmp_path / "rows.xlsx").write_bytes(b"")
    with pytest.raises(BadSettings, match=r"rows\.xlsx is none of \.csv"):
        read_rows(tmp_path / "rows.xlsx", ["t"], lambda _: None)
    with pytest.raises(BadSettings, match="Asia/Shangai"):
        Columns("t", {"src": "src"}, zone="Asia/Shangai")


N = 3000


def categories(*texts: str) -> pa.Array:
    """N rows, which repeat the texts in turn."""
    return pa.DictionaryArray.from_arrays(
        pa.array(np.arange(N) % len(texts), pa.int32()), pa.array(texts)
    )


HOSTILE = pa.table({"src": categories("x" * 1_000_000), "dst": categories("a", "b")})


@pytest.mark.parametrize("says_type", [True, False], ids=["categories", "text"])
def test_one_long_text_repeated_is_read_in_small_parts(says_type: bool) -> None:
    content = parquet(HOSTILE, store_schema=says_type)
    assert len(content) < 100_000
    parts = Parquet(io.BytesIO(content)).parts(["dst", "src"])
    sizes = [(len(part), plain_columns(part).nbytes) for part in parts]
    assert sum(n for n, _ in sizes) == N
    assert max(size for _, size in sizes) < 1.1 * (64 << 20)


def test_rows_with_long_texts_are_read_as_they_are(tmp_path: Path) -> None:
    short = pa.table({"src": ["a"] * 10, "dst": ["b"] * 10})
    texts = ["y" * 5000, "c", None]
    long = pa.table({"src": pa.array(texts * 5), "dst": pa.array(["d", None, "e"] * 5)})
    with pq.ParquetWriter(tmp_path / "t.parquet", short.schema) as writer:
        for table in (short, long):  # a group of rows each
            writer.write_table(table)
    batches = read_rows(tmp_path / "t.parquet", ["dst", "src"], pytest.fail)
    rows = pa.concat_tables([batch.rows for batch in batches])
    assert rows.column_names == ["dst", "src"]
    assert rows["src"].to_pylist() == ["a"] * 10 + texts * 5
    assert rows["dst"].to_pylist() == ["b"] * 10 + ["d", None, "e"] * 5


def test_a_compressed_file_around_parquet_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compressed(io.BytesIO):
        def seekable(self) -> bool:
            return False

    content = parquet(HOSTILE)
    assert Parquet(Compressed(content)).schema.names == ["src", "dst"]
    monkeypatch.setattr("stream_icd.sources.content._MOST_PACKED", len(content) - 1)
    with pytest.raises(LimitExceeded, match="bytes uncompressed: uncompress it"):
        Parquet(Compressed(content))
