"""What every line of the log says about the record that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from stream_icd.kafka.record import Record
from stream_icd.printable import shortened


def described(record: Record) -> dict[str, str | int]:
    """Topic, partition and offset; graph, snapshot and model, as far as the record says them.

    Names are shortened: this is called before anything has looked at how long they are.
    """
    headers = dict(record.headers)
    said = {
        "graph": record.key,
        "snapshot": headers.get("icd_snapshot_id") or headers.get("ce_id"),
        "model": headers.get("icd_model"),
    }
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        **{name: shortened(value) for name, value in said.items() if value},
    }


@contextmanager
def about(record: Record, **more: str) -> Iterator[None]:
    """All that is logged in the block, by libraries too, says which record it is about."""
    with structlog.contextvars.bound_contextvars(**described(record), **more):
        yield
