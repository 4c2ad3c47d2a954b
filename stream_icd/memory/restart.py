"""The memory of a graph that starts anew: it holds only which community ids are used up.

An operator asks for it (`topics detect-anew`), or what was remembered cannot be used. No id may
serve two communities, so the next id must be known even if the rest is lost: the message of a
state says it beside its value, and the value says it before its table. If neither can be read,
ids go on far above those that streams reach.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from stream_icd.memory.encoding import encode_memory, next_id_of
from stream_icd.memory.horizon import first_decay
from stream_icd.memory.memory import MOST_IDS, MOST_READ_IDS, Memory, empty_memory
from stream_icd.snapshot import Window

BEFORE_ALL = Window(datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))

FAR_IDS = MOST_IDS // 2 + 1
"""The first id of a graph of which it is not known which ids are used up."""

FAR_IDS_A_MESSAGE = 1 << 14
"""How far these ids rise with each message before: more new communities than messages have, on
average. So they are not used again if that happens to a graph twice."""


def forgotten(next_id: int) -> Memory:
    """Return a memory of no nodes and no windows, which holds only the ids that are used up."""
    return empty_memory(BEFORE_ALL, pa.array([], pa.int64()), first_decay("auto"), next_id)


def is_forgotten(memory: Memory) -> bool:
    """Whether the graph starts anew."""
    return memory.window == BEFORE_ALL


def far_id(n_messages: int) -> int:
    """Return an id far above those of streams, after so many messages."""
    return min(FAR_IDS + FAR_IDS_A_MESSAGE * n_messages, MOST_READ_IDS)


def anew(encoded: bytes) -> bytes:
    """Return an encoded memory that holds only which ids are used up in another one.

    The other one may be damaged.
    """
    next_id = next_id_of(encoded)
    return encode_memory(forgotten(far_id(0) if next_id is None else next_id))
