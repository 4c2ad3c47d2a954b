"""Public data: fetched whole or not at all; each form of a topology gives the same snapshots."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import socket
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from stream_icd.core.errors import BadRow, BadSettings, SourceNotFound
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.times import missed_windows, parse_window
from stream_icd.sources.datasets.as_topology import name_of, read_as_topology
from stream_icd.sources.datasets.public_data import CATALOGUE
from tests.real_data import real_data
from tests.run_here import run_here
from tests.sources.reading import Content, write
from tests.testbed.http_server import serving

# As SNAP keeps them: comments, both directions, self loops.
FIRST_DAY = b"# Autonomous systems\n# FromNodeId\tToNodeId\n1\t2\n2\t1\n2\t3\n3\t3\n10\t1\n"
SECOND_DAY = b"# Autonomous systems\n1\t2\n"
FILES = {"as19971108.txt": FIRST_DAY, "as19971109.txt": SECOND_DAY}


def archive_of(*files: tuple[str, bytes]) -> bytes:
    with tarfile.open(fileobj=(content := io.BytesIO()), mode="w:gz") as archive:
        for name, text in files:
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


def route(path: str) -> str:
    return f"TABLE_DUMP2|878947200|B|193.0.0.1|1|10.0.0.0/8|{path}|IGP|193.0.0.1|0|0||NAG||\n"


DAYS = [date(1997, 11, 9), *[date(1997, 11, 8)] * 3]
FORMS: dict[str, dict[str, Content]] = {
    "directory": {**FILES, "README": "not a day"},
    "compressed": {
        "as19971108.txt.gz": gzip.compress(FIRST_DAY),
        "as19971109.txt.bz2": bz2.compress(SECOND_DAY),
    },
    "as-733.tar.gz": {
        "as-733.tar.gz": archive_of(
            *((f"one/{name}", content) for name, content in FILES.items()),
            ("two/as19971108.txt", b"# Nodes\n3\t2\n"),  # of another collector
        )
    },
    "days.parquet": {
        "days.parquet": pa.table({"window_start": DAYS, "src": [1, 1, 2, 1], "dst": [2, 2, 3, 10]})
    },
    "relationships": {
        "19971108.as-rel.txt": "# source: x\n1|2|-1\n2|3|0\n1|10|0\n",
        "19971109.as-rel2.txt.bz2": bz2.compress(b"1|2|-1|bgp\n"),
    },
    "CAIDA": {
        "as-caida19971108.txt": "# From\tTo\tRel\n1\t2\t1\n2\t3\t0\n1\t10\t-1\n",
        "as-caida19971109.txt": "1\t2\t1\n",
    },
    # Two dumps of one day are one snapshot; prepending and an aggregate's set make no link.
    "routes": {
        "rib.19971108.0000.txt": route("1 2 2 3") + route("1 2 {7,8} 9"),
        "rib.19971108.0200.txt": route("10 1 2") + route("1 2 3"),
        "rib.19971109.0000.txt.gz": gzip.compress(route("1 2").encode()),
    },
}


def snapshots(path: Path, graph: str = "as733", **options: Any) -> list[Snapshot]:
    return [snapshot for snapshot, _ in read_as_topology(path, graph=graph, **options).snapshots]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_two_days(form: str, tmp_path: Path) -> None:
    day = parse_window("1d") if form == "routes" else None  # it has two files of one day
    path = write(tmp_path, FORMS[form]) / (form if "." in form else "")
    first, second = snapshots(path, window=day)
    assert (first.id, second.id) == ("as733/1997-11-08", "as733/1997-11-09")
    assert first.nodes.to_pylist() == [1, 2, 3, 10]
    assert first.edges.tolist() == [[0, 0, 1], [1, 3, 2]]
    assert first.window.start == datetime(1997, 11, 8, tzinfo=UTC)
    assert first.window.end == second.window.start
    assert second.n_edges == 1
    assert snapshots(path, window=day) == [first, second]


def pairs_at(folder: Path, names: Iterable[str]) -> Path:
    return write(folder, dict.fromkeys(names, "1\t2\n"))


def lengths(series: Iterable[Snapshot]) -> set[timedelta]:
    return {snapshot.window.end - snapshot.window.start for snapshot in series}


def missing(series: list[Snapshot]) -> int:
    return sum(
        missed_windows(snapshot.window, other.window) for snapshot, other in pairwise(series)
    )


def test_windows_last_until_the_next_file(tmp_path: Path) -> None:
    months = pairs_at(tmp_path / "m", (f"2004{month:02d}01.as-rel.txt" for month in range(1, 13)))
    for window in (None, parse_window("month")):
        series = snapshots(months, window=window)
        assert [snapshot.id for snapshot in series[:2]] == ["as733/2004-01-01", "as733/2004-02-01"]
        assert missing(series) == 0
    start = date(2004, 1, 5)  # from monthly to weekly
    offsets = [*range(0, 10 * 28, 28), *range(10 * 28, 10 * 28 + 20 * 7, 7)]
    names = (f"as-caida{start + timedelta(days=n):%Y%m%d}.txt" for n in offsets)
    series = snapshots(pairs_at(tmp_path / "w", names))
    assert missing(series) == 0
    assert [lengths([series[at]]) for at in (0, -1)] == [{timedelta(days=28)}, {timedelta(days=7)}]
    names = (f"as200001{day:02d}.txt" for day in range(1, 31) if day not in (9, 20, 21))
    series = snapshots(pairs_at(tmp_path / "d", names))  # a missing day leaves a gap
    assert lengths(series) == {timedelta(days=1)}
    assert missing(series) == 3
    for text in ("0s", "1", "months"):
        with pytest.raises(BadSettings):
            parse_window(text)


def test_topologies_of_one_day_are_snapshots_of_their_own(tmp_path: Path) -> None:
    hours = pairs_at(tmp_path, (f"rib.20080101.{hour:02d}00.txt" for hour in range(0, 24, 2)))
    series = snapshots(hours)
    assert len(series) == 12
    assert series[1].id == "as733/2008-01-01T02:00Z"
    assert lengths(series) == {timedelta(hours=2)}
    (day,) = snapshots(hours, window=parse_window("1d"))
    assert day.id == "as733/2008-01-01"


BAD_PARQUET = {
    "has the columns src, dst, day; expected window_start, src, dst": {"day": [date(2026, 1, 1)]},
    r"window_start \(string\) does not hold dates or times": {"window_start": ["Monday"]},
    r"window_start \(int32\) does not hold": {"window_start": pa.array([1], pa.int32())},
    r"window_start .* from the year 1 to 9999": {
        "window_start": pa.array([10**18], pa.timestamp("us"))
    },
    "window_start is missing in 1 rows": {"window_start": pa.array([None], pa.date32())},
}


@pytest.mark.parametrize("reason", BAD_PARQUET)
def test_what_is_wrong_with_parquet_is_said_in_one_line(reason: str, tmp_path: Path) -> None:
    table = pa.table({"src": [1], "dst": [2], **BAD_PARQUET[reason]})
    write(tmp_path, {"days.parquet": table})
    with pytest.raises(BadSettings, match=reason) as refused:
        read_as_topology(tmp_path / "days.parquet")
    assert "\n" not in str(refused.value)


def test_times_in_parquet_are_windows_with_names_of_their_own(tmp_path: Path) -> None:
    def read_table(times: list[Any], **ends: object) -> list[Snapshot]:
        table = pa.table({"window_start": times, **ends})
        return snapshots(write(tmp_path, {"routes.parquet": table}) / "routes.parquet")

    times = [datetime(2008, 1, 1, 3) + timedelta(0, 0, micro) for micro in (0, 10**6, 10**6 + 5)]
    series = read_table(times, src=[1, 1, 1], dst=[2, 2, 3])
    assert series[1].window.end == series[2].window.start
    assert [snapshot.id.removeprefix("as733/2008-01-01T") for snapshot in series] == [
        "03:00Z",
        "03:00:01Z",
        "03:00:01.000005Z",
    ]
    for kind in (pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        src, dst = (pa.array([id]).cast(kind) for id in "ab")
        (only,) = read_table([date(2026, 1, 1)], src=src, dst=dst)
        assert only.nodes.to_pylist() == ["a", "b"]


def test_a_graph_is_named_after_its_file_and_its_source_is_nobody_elses(tmp_path: Path) -> None:
    assert name_of(Path("20040101.txt")) == "as"
    folder = pairs_at(tmp_path / "as-caida", ["as-caida20071105.txt"])
    ((only, _),) = read_as_topology(folder).snapshots
    assert (only.graph, only.source) == ("as-caida", "urn:stream_icd:as")


def test_days_are_chosen_both_ends_included(tmp_path: Path) -> None:
    folder, days = write(tmp_path, FILES), (date(1997, 11, 8), date(1997, 11, 9))
    for first, last, expected in (
        (None, None, days),
        (days[1], None, days[1:]),
        (days[0], days[0], days[:1]),
    ):
        source = read_as_topology(folder, first=first, last=last, graph="as733")
        assert source.total == len(expected)
        assert [snapshot.id for snapshot, _ in source.snapshots] == [
            f"as733/{day}" for day in expected
        ]
    with pytest.raises(BadSettings, match="1997-11-08 to 1997-11-09"):
        read_as_topology(folder, first=date(2020, 1, 1))


@pytest.mark.parametrize(
    ("line", "shown"), [(b"1\tx\n", "x"), (b"1\n", "1"), (b"12345678901\t2\n", "12345678901")]
)
def test_a_bad_line_is_shown_and_nothing_else_is_lost(
    tmp_path: Path, line: bytes, shown: str
) -> None:
    files = {"as20000101.txt": b"1\t2\n" + line + b"2\t3\n3\t4\n", "as19991231.txt": b"1\t2\n"}
    write(tmp_path, files)
    bad: list[BadRow] = []
    _, snapshot = snapshots(tmp_path, on_bad_row=bad.append)
    assert snapshot.n_edges == 3
    assert len(bad) == 1
    assert "as20000101.txt" in str(bad[0])
    source = read_as_topology(tmp_path).snapshots
    assert next(source)[0].n_edges == 1  # reading is lazy
    with pytest.raises(BadRow, match=shown):
        next(source)


def test_a_bad_route_is_shown(tmp_path: Path) -> None:
    updates = "BGP4MP|1|W|10.0.0.1|1|10.0.0.0/8\nBGP4MP|1|STATE|10.0.0.1|1|3|6\n# comment\n"
    lines = [route("1 2"), route("1 x"), "garbage\n", updates, route("2 3")]
    write(tmp_path, {"rib.20000101.txt": "".join(lines)})
    bad: list[BadRow] = []
    (snapshot,) = snapshots(tmp_path, on_bad_row=bad.append)
    assert (snapshot.n_edges, len(bad)) == (2, 2)


def test_a_day_without_a_link_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    files = {
        "as19971107.txt": b"7\t7\n",
        "as19971108.txt.gz": gzip.compress(FIRST_DAY)[:30],
        "as19971109.txt": SECOND_DAY,
    }
    bad: list[BadRow] = []
    found = snapshots(write(tmp_path, files), on_bad_row=bad.append)
    assert [snapshot.id for snapshot in found] == ["as733/1997-11-09"]
    loop, torn, *_ = map(str, bad)
    assert "1997-11-07" in loop
    assert "as19971108.txt.gz is damaged" in torn


def test_files_of_other_endings_are_read_or_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files: dict[str, Content] = {
        "as20260101.TXT": "  1   2\n 10  20 \n# of two\n1 10\r\n2 2\n",
        "as20260102.txt.xz": lzma.compress(b"1\t2\n"),
        "as20260103.csv": "1,2\n",
        "readme.txt": "of somebody",
        "._as20260104.txt": b"\0\5\x16\7Mac OS X",  # is hidden
    }
    aligned, _ = snapshots(write(tmp_path, files))
    assert aligned.nodes.to_pylist() == [1, 2, 10, 20]
    assert (aligned.n_edges, aligned.n_self_loops) == (3, 1)
    assert "as20260103.csv, readme.txt. Files are read whose names hold a date" in caplog.text
    (only,) = snapshots(tmp_path / "as20260101.TXT", graph="as")
    assert (only.id, only.graph) == ("as/2026-01-01", "as")


def test_a_folder_without_days_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match=r"as19971108\.txt"):
        read_as_topology(tmp_path)
    with pytest.raises(SourceNotFound, match=r"nothing at .*absent.*data fetch as-733"):
        read_as_topology(tmp_path / "absent")
    refused: dict[str, tuple[Content, str]] = {
        "graph.csv": ("1,2\n", "graph.csv"),
        "as-733.tar.gz": ("not an archive", "as-733.tar.gz"),
        "days.parquet": ("not Parquet", "days.parquet"),
        "as19971340.txt": ("1\t2\n", "as19971340.txt"),
        "rib.20000101.txt": (b"\x47\x79\0\0\0\x0d\0\x01", "bgpdump -m"),
    }
    for name, (content, why) in refused.items():
        with pytest.raises(BadSettings, match=why):
            snapshots(write(tmp_path, {name: content}) / name)


def test_as_733_has_the_statistics_of_its_documentation() -> None:
    source = read_as_topology(real_data("as733.parquet"))
    counts = [(snapshot.n_nodes, snapshot.n_edges) for snapshot, _ in source.snapshots]
    nodes, edges = zip(*counts, strict=True)
    assert (source.total, len(counts)) == (733, 733)
    assert (min(nodes), max(nodes), min(edges), max(edges)) == (103, 6474, 239, 12572)
    assert round(sum(nodes) / 733) == 4183
    assert round(sum(edges) / 733) == 7784


def test_links_in_an_archive_are_the_files_that_they_link_to(tmp_path: Path) -> None:
    path = tmp_path / "as-733.tar"
    with tarfile.open(path, "w") as archive:
        day = tarfile.TarInfo("as19971108.txt")
        day.size = len(b"1\t2\n")
        archive.addfile(day, io.BytesIO(b"1\t2\n"))
        for name, kind, target in (
            ("as19971109.txt", tarfile.LNKTYPE, day.name),
            ("as19971110.txt", tarfile.SYMTYPE, day.name),
            ("as19971111.txt", tarfile.LNKTYPE, "gone.txt"),
            ("as19971112.txt", tarfile.SYMTYPE, "as19971112.txt"),
        ):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, target
            archive.addfile(link)
    bad: list[BadRow] = []
    series = [snapshot for snapshot, _ in read_as_topology(path, on_bad_row=bad.append).snapshots]
    assert [f"{snapshot.window.start:%d}" for snapshot in series] == ["08", "09", "10"]
    assert all(snapshot.edges.shape == (2, 1) for snapshot in series)
    missing = [str(row) for row in bad if "to which it is a link" in str(row)]
    assert len(missing) == 2
    assert "no file gone.txt" in missing[0]


CONTENT = bytes(range(256)) * 2048


class Handler(BaseHTTPRequestHandler):
    files: ClassVar[dict[str, bytes]]
    asked: ClassVar[list[str | None]]
    breaks_after: ClassVar[int | None]
    can_resume: ClassVar[bool]

    def do_GET(self) -> None:
        content = self.files.get(self.path)
        wanted = self.headers.get("Range")
        Handler.asked.append(wanted)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted[6:-1]) if wanted and self.can_resume else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : self.breaks_after])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A web server on this machine that resumes; its address."""
    usual = {"files": {"/data.bin": CONTENT}, "asked": [], "breaks_after": None, "can_resume": True}
    for name, value in usual.items():
        monkeypatch.setattr(Handler, name, value, raising=False)
    with serving(Handler) as address:
        yield address


def offered(*urls: str) -> Any:
    return replace(CATALOGUE[0], name="test", urls=urls)


def test_a_file_is_fetched_with_progress_and_once(server: str, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    data = offered(f"{server}/data.bin")
    path = data.fetch(tmp_path, lambda *now: seen.append(now))
    assert path == tmp_path / "test" / "data.bin"
    assert path.read_bytes() == CONTENT
    assert len(seen) > 1
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    data.fetch(tmp_path)
    assert Handler.asked == [None]


@pytest.mark.parametrize("can_resume", [True, False])
def test_a_broken_download_goes_on_where_it_was(
    server: str, tmp_path: Path, can_resume: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "breaks_after", 1000)
    monkeypatch.setattr(Handler, "can_resume", can_resume)
    data = offered(f"{server}/data.bin")
    with pytest.raises(SourceNotFound, match="go on"):
        data.fetch(tmp_path)
    assert not (tmp_path / "test" / "data.bin").exists()
    monkeypatch.setattr(Handler, "breaks_after", None)
    assert data.fetch(tmp_path).read_bytes() == CONTENT
    assert Handler.asked == [None, "bytes=1000-"]
    assert [file.name for file in (tmp_path / "test").iterdir()] == ["data.bin"]
    path = tmp_path / "test" / "data.bin"
    path.rename(path.with_name("data.bin.part")).write_bytes(CONTENT + b"too long")
    assert data.fetch(tmp_path).read_bytes() == CONTENT


def test_several_archives_are_unpacked_into_one_folder(server: str, tmp_path: Path) -> None:
    for part in ("06", "07"):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(f"{part}/1{part}.txt", "1,2008-02-02 15:36:08,116.5,39.9\n")
            archive.writestr("../../escaped.txt", "x")
        Handler.files[f"/{part}.zip"] = packed.getvalue()
    folder = offered(f"{server}/06.zip", f"{server}/07.zip").fetch(tmp_path / "to")
    assert sorted(f.name for f in folder.rglob("1*.txt")) == ["106.txt", "107.txt"]
    assert not list(tmp_path.glob("*.txt"))
    Handler.files["/08.zip"] = b"not an archive"
    with pytest.raises(BadSettings, match=r"08\.zip is damaged"):
        offered(f"{server}/08.zip").fetch(tmp_path)
    assert list((tmp_path / "test").iterdir()) == []  # it was thrown away


def test_without_a_network_it_says_what_to_do_by_hand(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/data.bin"
        with pytest.raises(SourceNotFound) as raised:
            offered(url).fetch(tmp_path)
    assert url in str(raised.value)
    assert str(tmp_path / "test") in str(raised.value)


def test_what_is_not_there_or_no_web_address_is_said(server: str, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match=r"Not Found.*by hand"):
        offered(f"{server}/gone.bin").fetch(tmp_path)
    with pytest.raises(BadSettings, match="not a web address"):
        offered("file:///etc/passwd").fetch(tmp_path)
    unknown = run_here("data", "fetch", "as-734")
    assert (unknown.returncode, "choose from as-733, as-caida" in unknown.stderr) == (78, True)


def test_what_is_offered_says_whom_to_cite_and_how_to_go_on() -> None:
    for data in CATALOGUE:
        assert all(url.startswith("https://") for url in data.urls)
        assert "" not in (data.terms, data.citation)
        assert re.match("stream-icd produce .*{path}", data.produce)
