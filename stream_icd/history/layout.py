"""Where a message is kept: `KIND/graph=NAME/date=DAY/FILE.parquet`, by what it is and nothing else.

So a message that arrives twice, or is archived again after a crash, has one place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date
from typing import Literal, get_args
from urllib.parse import quote, unquote

from stream_icd.errors import LimitExceeded
from stream_icd.snapshot import Window

Kind = Literal["snapshots", "labels", "communities"]
KINDS: tuple[Kind, ...] = get_args(Kind)

COMPACTED = "compacted-"
MOST_GRAPH_BYTES = 200
"""File systems take names of 255 bytes; `graph=` is before it."""


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """What makes two messages of a kind and graph the same: they are kept once.

    Attributes:
        model: of communities; empty for snapshots and labels, which do not depend on one.
        revision: changes with the content, and with what a detector was told; empty where the
            message does not say it.
    """

    snapshot_id: str
    model: str = ""
    revision: str = ""

    @property
    def name(self) -> tuple[str, str]:
        """What its revisions share: snapshot and model."""
        return self.snapshot_id, self.model


Received = tuple[int, int]
"""When Kafka got a message, milliseconds since 1970 UTC, and its offset: of two revisions the one
that was received later is the newest."""


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One day of one graph: the windows that begin on it, UTC."""

    day: date
    graph: str
    kind: Kind

    @property
    def folder(self) -> str:
        """Its folder in the store; the graph is written as in a URL, as readers expect."""
        return f"{self.kind}/{graph_folder(self.graph)}/date={self.day.isoformat()}"


def partition_of(kind: Kind, graph: str, window: Window) -> Partition:
    """Where a window belongs.

    Raises:
        LimitExceeded: the graph's name is too long for the name of a folder.
    """
    if len(quote(graph, safe="")) > MOST_GRAPH_BYTES:
        raise LimitExceeded(
            f"the name of graph {graph:.40}… has {len(quote(graph, safe=''))} bytes when "
            f"written as in a URL; the archive allows {MOST_GRAPH_BYTES}"
        )
    return Partition(window.start.astimezone(UTC).date(), graph, kind)


def graph_folder(graph: str) -> str:
    """The name of a graph's folder."""
    return f"graph={quote(graph, safe='')}"


def graph_of_folder(name: str) -> str | None:
    """The graph of a folder's name, or None where it is no such folder."""
    return unquote(name.removeprefix("graph=")) if name.startswith("graph=") else None


def day_of_folder(name: str) -> date | None:
    """The day of a folder's name, or None where it is no such folder."""
    try:
        return date.fromisoformat(name.removeprefix("date=")) if name[:5] == "date=" else None
    except ValueError:
        return None


def window_file(identity: Identity) -> str:
    """The name of the file of one window: readable, and unique by a digest."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", identity.snapshot_id.rpartition("/")[2])[:60]
    return f"w-{readable}-{_digest(_text(identity))}.parquet"


def compacted_file(windows: Iterable[tuple[Identity, Received]]) -> str:
    """The name of the file that holds these windows: the same for the same ones."""
    text = "\n".join(f"{_text(one)} {received}" for one, received in sorted(windows))
    return f"{COMPACTED}{_digest(text)}.parquet"


def is_compacted(path: str) -> bool:
    """Whether a file is a merged one."""
    return path.rpartition("/")[2].startswith(COMPACTED)


def _text(identity: Identity) -> str:
    revision = f"@{identity.revision!r}" if identity.revision else ""
    return f"{identity.snapshot_id!r}@{identity.model!r}{revision}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
