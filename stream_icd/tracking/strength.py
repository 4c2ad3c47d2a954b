"""The strength of events in bits, from what a detector with memory says of moved nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from stream_icd.communities import Communities
from stream_icd.events import CommunityEvent
from stream_icd.tracking.identities import Identities
from stream_icd.tracking.partition import Partition

NEW = -1
"""Stands for the id before of a community that is new."""


def with_strength(
    events: tuple[CommunityEvent, ...], found: Communities, known: Identities, partition: Partition
) -> tuple[CommunityEvent, ...]:
    """Return the events with the bits that each of them saves; unknown if the detector told none.

    The parts of an event are added up: for a merger, the bits of each community that went into
    another one. The detector's ids must be the stable ones.
    """
    if found.moved is None or found.moved_bits is None or found.community_ids is None:
        return events
    if not np.array_equal(found.community_ids[partition.names], known.ids):
        return events
    into: dict[int, dict[int, float]] = defaultdict(dict)
    out_of: dict[int, dict[int, float]] = defaultdict(dict)
    for (before, now), bits in zip(found.moved.tolist(), found.moved_bits.tolist(), strict=True):
        into[now][before] = out_of[before][now] = bits
    return tuple(replace(one, bits=_strength(one, into, out_of)) for one in events)


Bits = dict[int, dict[int, float]]


def _strength(event: CommunityEvent, into: Bits, out_of: Bits) -> float | None:
    came, left = into.get(event.community, {}), out_of.get(event.community, {})
    match event.kind:
        case "merged":
            return _total(came.get(one) for one in event.parents)
        case "split":
            return _total(left.get(one) for one in event.children)
        case "born":
            return _total(came.get(one) for one in (event.parents or (NEW,)))
        case "grown":
            return _total(bits for one, bits in came.items() if one != NEW)
        case "shrunk" | "died":
            return _total(left.values())
        case _:
            return None


def _total(parts: Iterable[float | None]) -> float | None:
    known = [one for one in parts if one is not None]
    return round(sum(known), 3) if known else None
