"""The events of a window, compressed: a window of 2,000 communities has as many events."""

from __future__ import annotations

import json
import zlib
from dataclasses import astuple
from typing import Any

from stream_icd.events import CommunityEvent


def packed_events(events: tuple[CommunityEvent, ...]) -> bytes:
    """Return the events, compressed; `unpacked_events` reads them."""
    rows = [astuple(event) for event in events]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 1)


def unpacked_events(events: bytes) -> tuple[CommunityEvent, ...]:
    """Return what `packed_events` was given."""
    return tuple(_event(row) for row in json.loads(zlib.decompress(events)))


def _event(row: list[Any]) -> CommunityEvent:
    fields: list[Any] = [tuple(one) if isinstance(one, list) else one for one in row]
    return CommunityEvent(*fields)
