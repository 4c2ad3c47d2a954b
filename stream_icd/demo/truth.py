"""Read the last snapshot and the known communities from the topics of a demonstration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.demo.run import Arrival, DemoRun
from stream_icd.errors import StreamIcdError
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import LABELS, SNAPSHOTS
from stream_icd.messages.reader import MessageReader
from stream_icd.quality.nmi import nmi
from stream_icd.snapshot import Snapshot
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.snapshots import decode_snapshot


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


def agreement_with_truth(settings: KafkaSettings, run: DemoRun) -> list[float]:
    """Return the NMI of each arrival with its known communities; empty unless all are known."""
    truth: dict[str, NDArray[np.int32]] = {}
    reader = MessageReader()
    with open_reader(settings, LABELS, start="beginning", until="end") as records:
        for record in records:
            labels = reader.decoded(record, decode_labels)
            truth[labels.snapshot_id] = labels.labels
    if not all(arrival.result["snapshot_id"] in truth for arrival in run.arrivals):
        return []
    return [_nmi(arrival, truth[arrival.result["snapshot_id"]]) for arrival in run.arrivals]


def _nmi(arrival: Arrival, truth: NDArray[np.int32]) -> float:
    return nmi(truth, np.asarray(arrival.result["communities"], np.int32))
