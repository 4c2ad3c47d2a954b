"""Download public data: resumable, verified, and never visible in part."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from stream_icd.datasets.public_data import PublicData
from stream_icd.errors import BadSettings, SourceNotFound

CHUNK = 1 << 18
TIMEOUT_S = 30.0
# Some servers refuse programs without a user agent.
AGENT = "stream-icd (data fetch)"

OnProgress = Callable[[str, int, int | None], None]
"""Called with a file's name, bytes so far, and total bytes if the server reports them."""


def fetch(
    data: PublicData, folder: Path, on_progress: OnProgress = lambda _name, _got, _all: None
) -> Path:
    """Download the missing files of the data into `folder/name`, and unpack `.zip`.

    If a connection breaks, the partial file is kept as `.part`, and the next call resumes it. A
    file gets its final name only when it is complete.

    Returns:
        The file, or the folder if the data are several files.

    Raises:
        SourceNotFound: the server cannot be reached; the message says how to download manually.
        BadSettings: a file fails verification, or cannot be written.
    """
    target = folder / data.name
    try:
        target.mkdir(parents=True, exist_ok=True)
        files = [_file(data, url, target, on_progress) for url in data.urls]
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise SourceNotFound(_by_hand(data, target, error)) from error
    except OSError as error:
        raise BadSettings(f"cannot write to {target}: {error.strerror or error}") from error
    return files[0] if len(files) == 1 else target


def _file(data: PublicData, url: str, folder: Path, on_progress: OnProgress) -> Path:
    if urlsplit(url).scheme not in ("http", "https"):
        raise BadSettings(f"{url} is not a web address")
    name = url.rpartition("/")[2]
    whole, part = folder / name, folder / f"{name}.part"
    if not whole.exists():
        _download(url, part, lambda got, size: on_progress(name, got, size))
        _check(part, data.sha256.get(name))
        part.rename(whole)
    if whole.suffix == ".zip":
        _unpack(whole, folder)
    return whole


def _download(url: str, part: Path, on_progress: Callable[[int, int | None], None]) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": AGENT} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urlopen(Request(url, headers=headers), timeout=TIMEOUT_S)
    except HTTPError as error:
        if error.code != 416 or not have:
            raise
        part.unlink()  # the partial file does not match the file on the server
        _download(url, part, on_progress)
        return
    with answer:
        # A server that cannot resume sends the whole file again, with status 200.
        resumed = answer.status == 206
        size = _size(answer, have if resumed else 0)
        with part.open("ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                on_progress(file.tell(), size)
    if size is not None and part.stat().st_size != size:
        raise ConnectionError(f"the connection ended after {part.stat().st_size} of {size} bytes")


def _size(answer: Any, before: int) -> int | None:
    length = answer.headers.get("Content-Length")
    return None if length is None else before + int(length)


def _check(file: Path, sha256: str | None) -> None:
    if sha256 is None:
        return
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != sha256:
        file.unlink()
        raise BadSettings(
            f"{file.name} has SHA-256 {found}, expected {sha256}; the file was deleted. Try "
            "again; if the error repeats, its owner has changed it"
        )


def _unpack(archive: Path, folder: Path) -> None:
    unpacked, unpacking = folder / archive.stem, folder / f"{archive.stem}.part"
    if unpacked.exists():
        return
    shutil.rmtree(unpacking, ignore_errors=True)
    try:
        with zipfile.ZipFile(archive) as content:
            content.extractall(unpacking)  # which keeps every name inside the folder
    except zipfile.BadZipFile as error:
        archive.unlink()
        raise BadSettings(f"{archive.name} is damaged ({error}) and was deleted") from error
    unpacking.rename(unpacked)


def _by_hand(data: PublicData, folder: Path, error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    addresses = "\n".join(f"  {url}" for url in data.urls)
    return (
        f"cannot download {data.name} ({reason}). What came so far is kept; run it again to go on."
        f" Or download by hand:\n{addresses}\nand put it into {folder}/"
        f" (its page: {data.page})"
    )
