"""The path of a message: `KIND/graph=NAME/date=DAY/FILE.parquet`, from its identity alone.

So a message that arrives twice, or is archived again after a crash, has one path.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date
from typing import Literal, cast, get_args
from urllib.parse import quote, unquote

from stream_icd.snapshot import Window

Kind = Literal["snapshots", "labels", "communities", "memory"]
KINDS: tuple[Kind, ...] = get_args(Kind)

COMPACTED = "compacted-"


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """The identity of a message within its kind and graph: each identity is kept once.

    Attributes:
        model: the model of communities and memory; empty for snapshots and labels.
        revision: changes with the content and with the settings of the detector; empty if the
            message has none.
    """

    snapshot_id: str
    model: str = ""
    revision: str = ""

    @property
    def name(self) -> tuple[str, str]:
        """Snapshot and model, which all its revisions share."""
        return self.snapshot_id, self.model


Received = tuple[int, int]
"""When Kafka received a message, milliseconds since 1970 UTC, and its offset: the revision received
last is the newest."""


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One day of one graph: the windows that begin on that day, UTC."""

    day: date
    graph: str
    kind: Kind

    @property
    def folder(self) -> str:
        """Its folder in the store; the graph's name is URL-encoded, as readers expect."""
        return f"{self.kind}/graph={quote(self.graph, safe='')}/date={self.day.isoformat()}"


def partition_of(kind: Kind, graph: str, window: Window) -> Partition:
    return Partition(window.start.astimezone(UTC).date(), graph, kind)


def partition_at(folder: str) -> Partition | None:
    """Return the partition of a folder; None if it is none of an archive."""
    kind, graph, day = folder.split("/")
    if not (graph.startswith("graph=") and day.startswith("date=")):
        return None
    with suppress(ValueError):
        day_of = date.fromisoformat(day.removeprefix("date="))
        return Partition(day_of, unquote(graph.removeprefix("graph=")), cast(Kind, kind))
    return None


def window_file(identity: Identity) -> str:
    """Return the file name of one window: readable, and unique by a digest."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", identity.snapshot_id.rpartition("/")[2])[:60]
    return f"w-{readable}-{_digest(_text(identity))}.parquet"


def compacted_file(windows: Iterable[tuple[Identity, Received]]) -> str:
    """Return the name of the merged file of these windows; equal windows give equal names."""
    text = "\n".join(f"{_text(identity)} {received}" for identity, received in sorted(windows))
    return f"{COMPACTED}{_digest(text)}.parquet"


def is_compacted(path: str) -> bool:
    return path.rpartition("/")[2].startswith(COMPACTED)


def _text(identity: Identity) -> str:
    revision = f"@{identity.revision!r}" if identity.revision else ""
    return f"{identity.snapshot_id!r}@{identity.model!r}{revision}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
