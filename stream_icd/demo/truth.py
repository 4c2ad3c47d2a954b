"""Read the snapshots and the known communities from the topics of a demonstration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_icd.communities import Communities
from stream_icd.errors import StreamIcdError
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import LABELS, SNAPSHOTS
from stream_icd.messages.reader import MessageReader
from stream_icd.quality.agreement import nmi
from stream_icd.snapshot import Snapshot
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.snapshots import decode_snapshot

Known = Mapping[str, NDArray[np.int32]]
"""The known communities of each snapshot, by its id."""


def snapshots(settings: KafkaSettings) -> Iterator[Snapshot]:
    """Yield the snapshots of the snapshots topic."""
    reader = MessageReader()
    with open_reader(settings, SNAPSHOTS, start="beginning", until="end") as records:
        for record in records:
            yield reader.decoded(record, decode_snapshot)


def read_snapshot(settings: KafkaSettings, snapshot_id: str) -> Snapshot:
    """Return the snapshot with that id from the snapshots topic.

    Raises:
        StreamIcdError: the topic does not hold it.
    """
    wanted = ("ce_id", snapshot_id.encode())
    with open_reader(settings, SNAPSHOTS, start="beginning", until="end") as records:
        for record in records:
            if wanted in record.headers:
                return MessageReader().decoded(record, decode_snapshot)
    raise StreamIcdError(f"the topic {SNAPSHOTS} does not hold {snapshot_id}")


def known_communities(settings: KafkaSettings) -> Known:
    """Return the known communities of all snapshots that have some."""
    reader = MessageReader()
    with open_reader(settings, LABELS, start="beginning", until="end") as records:
        found = [reader.decoded(record, decode_labels) for record in records]
    return {one.snapshot_id: one.labels for one in found}


def agreement(known: Known, results: Sequence[Communities]) -> list[float]:
    """Return the NMI of each result with the known communities; empty unless all are known."""
    if not all(one.snapshot_id in known for one in results):
        return []
    return [nmi(known[one.snapshot_id], one.labels) for one in results]
