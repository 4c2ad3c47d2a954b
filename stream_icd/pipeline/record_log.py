"""What every line of the log says about the record that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from stream_icd.kafka.record import Record


def described(record: Record) -> dict[str, str | int]:
    """Topic, partition and offset; graph and snapshot, as far as the record says them."""
    fields: dict[str, str | int] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
    }
    for name, said in (("graph", record.key), ("snapshot", dict(record.headers).get("ce_id"))):
        if said:
            fields[name] = said.decode(errors="replace")
    return fields


@contextmanager
def about(record: Record, **more: str) -> Iterator[None]:
    """All that is logged in the block, by libraries too, says which record it is about."""
    with structlog.contextvars.bound_contextvars(**described(record), **more):
        yield
