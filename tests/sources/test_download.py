"""Fetching public data: whole or not at all, resumed, and helpful without a network."""

from __future__ import annotations

import io
import re
import socket
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stream_icd.core.errors import BadSettings, SourceNotFound
from stream_icd.sources.datasets.public_data import CATALOGUE
from tests.run_here import run_here
from tests.testbed.http_server import serving

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
