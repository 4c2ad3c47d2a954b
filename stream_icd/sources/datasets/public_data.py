"""Public data sets for producers, and how to download them: resumable, never visible in part."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from stream_icd.core.errors import BadSettings, SourceNotFound

_CHUNK = 1 << 18
_TIMEOUT_S = 30.0
_AGENT = "stream-icd (data fetch)"
"""Some servers refuse programs without a user agent."""

_OnProgress = Callable[[str, int, int | None], None]
"""Called with a file's name, bytes so far, and total bytes if the server reports them."""


@dataclass(frozen=True, slots=True)
class _PublicData:
    """A public data set, in one file or several."""

    name: str
    urls: tuple[str, ...]  # one for each file
    about: str
    page: str  # URL of the owner's description
    terms: str  # the owner's terms of use
    citation: str
    produce: str  # command to send it, with `{path}` for the file, or the folder of several

    def fetch(
        self, folder: Path, on_progress: _OnProgress = lambda _name, _got, _all: None
    ) -> Path:
        """Download the missing files into `folder/name`, and unpack `.zip`.

        If a connection breaks, the partial file is kept as `.part`, and the next call resumes it.
        Returns the file, or the folder if the data are several files. Raises `SourceNotFound` if
        the server cannot be reached, which says how to download manually; `BadSettings` if a file
        is damaged, or cannot be written.
        """
        target = folder / self.name
        try:
            target.mkdir(parents=True, exist_ok=True)
            files = [_file(url, target, on_progress) for url in self.urls]
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            raise SourceNotFound(_by_hand(self, target, error)) from error
        except OSError as error:
            raise BadSettings(f"cannot write to {target}: {error.strerror or error}") from error
        return files[0] if len(files) == 1 else target


_SNAP_TERMS = "SNAP states no licence for the data; it asks for the citation."
_AS_CITATION = (
    "J. Leskovec, J. Kleinberg, C. Faloutsos: Graphs over Time: Densification Laws, Shrinking "
    "Diameters and Possible Explanations. KDD 2005."
)
_T_DRIVE_CITATION = (
    "J. Yuan et al.: T-Drive: Driving Directions Based on Taxi Trajectories. GIS 2010; and "
    "Driving with Knowledge from the Physical World. KDD 2011."
)

_T_DRIVE = "https://www.microsoft.com/en-us/research/wp-content/uploads/2016/02"

CATALOGUE: tuple[_PublicData, ...] = (
    _PublicData(
        name="as-733",
        urls=("https://snap.stanford.edu/data/as-733.tar.gz",),
        about="733 daily topologies of the Internet, 1997 to 2000",
        page="https://snap.stanford.edu/data/as-733.html",
        terms=_SNAP_TERMS,
        citation=_AS_CITATION,
        produce="stream-icd produce as {path} --graph as733 "
        "--source https://snap.stanford.edu/data/as-733.html",
    ),
    _PublicData(
        name="as-caida",
        urls=("https://snap.stanford.edu/data/as-caida.tar.gz",),
        about="122 topologies of the Internet by CAIDA, 2004 to 2007",
        page="https://snap.stanford.edu/data/as-Caida.html",
        terms=_SNAP_TERMS,
        citation=_AS_CITATION,
        produce="stream-icd produce as {path} --graph as-caida "
        "--source https://snap.stanford.edu/data/as-Caida.html",
    ),
    _PublicData(
        name="t-drive",
        urls=tuple(f"{_T_DRIVE}/{part:02d}.zip" for part in range(6, 15)),
        about="15 million fixes of 10,357 taxis in Beijing, one week of 2008",
        page="https://www.microsoft.com/en-us/research/publication/t-drive-trajectory-data-sample/",
        terms="Microsoft Research offers it as a sample, and asks for its citations.",
        citation=_T_DRIVE_CITATION,
        produce="stream-icd produce taxi {path} --t-drive --tick 10m",
    ),
    _PublicData(
        name="email-eu",
        urls=("https://snap.stanford.edu/data/email-Eu-core-temporal.txt.gz",),
        about="332,334 mails among 986 people of a research institution, 804 days",
        page="https://snap.stanford.edu/data/email-Eu-core-temporal.html",
        terms=_SNAP_TERMS,
        citation="A. Paranjape, A. R. Benson, J. Leskovec: Motifs in Temporal Networks. WSDM 2017.",
        produce="stream-icd produce events {path} --columns src,dst,t --window 3d --graph email-eu",
    ),
    _PublicData(
        name="college-msg",
        urls=("https://snap.stanford.edu/data/CollegeMsg.txt.gz",),
        about="59,835 private messages among 1,899 students, 193 days",
        page="https://snap.stanford.edu/data/CollegeMsg.html",
        terms=_SNAP_TERMS,
        citation="P. Panzarasa, T. Opsahl, K. M. Carley: Patterns and Dynamics of Users' Behavior "
        "and Interaction. JASIST 60 (2009).",
        produce="stream-icd produce events {path} --columns src,dst,t --window 1d "
        "--graph college-msg",
    ),
)


def _file(url: str, folder: Path, on_progress: _OnProgress) -> Path:
    if urlsplit(url).scheme not in ("http", "https"):
        raise BadSettings(f"{url} is not a web address")
    name = url.rpartition("/")[2]
    whole, part = folder / name, folder / f"{name}.part"
    if not whole.exists():
        _download(url, part, partial(on_progress, name))
        part.rename(whole)  # at the end: what is called so is never a part
    if whole.suffix == ".zip":
        _unpack(whole, folder)
    return whole


def _download(url: str, part: Path, on_progress: Callable[[int, int | None], None]) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": _AGENT} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urlopen(Request(url, headers=headers), timeout=_TIMEOUT_S)
    except HTTPError as error:
        if error.code != 416 or not have:
            raise
        part.unlink()  # the partial file does not match the file on the server
        _download(url, part, on_progress)
        return
    with answer:
        # A server that cannot resume sends the whole file again, with status 200.
        resumed = answer.status == 206
        length = answer.headers.get("Content-Length")
        size = None if length is None else int(length) + (have if resumed else 0)
        with part.open("ab" if resumed else "wb") as file:
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                on_progress(file.tell(), size)
    if size is not None and part.stat().st_size != size:
        raise ConnectionError(f"the connection ended after {part.stat().st_size} of {size} bytes")


def _unpack(archive: Path, folder: Path) -> None:
    unpacked, unpacking = folder / archive.stem, folder / f"{archive.stem}.part"
    if unpacked.exists():
        return
    shutil.rmtree(unpacking, ignore_errors=True)  # of a run that was killed
    try:
        with zipfile.ZipFile(archive) as content:
            content.extractall(unpacking)  # which keeps every name inside the folder
    except zipfile.BadZipFile as error:
        archive.unlink()  # else each later run would find it, and not download another
        raise BadSettings(f"{archive.name} is damaged ({error}) and was deleted") from error
    unpacking.rename(unpacked)


def _by_hand(data: _PublicData, folder: Path, error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    addresses = "\n".join(f"  {url}" for url in data.urls)
    return (
        f"cannot download {data.name} ({reason}). What came so far is kept; run it again to go on."
        f" Or download by hand:\n{addresses}\nand put it into {folder}/"
        f" (its page: {data.page})"
    )
