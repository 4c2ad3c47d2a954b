"""What a message can make a detector allocate is what its operator allows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.port import dead_letter_topic
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import SNAPSHOTS, create_topics
from stream_icd.streaming.subscribers.subscribe import subscribe
from tests.testbed.brokers import Broker
from tests.testbed.starting import consuming

LIMIT = 10**6
ROWS, BATCHES = 10**6, 40  # 640 MB, and less than a megabyte on the wire


def bomb() -> bytes:
    """A table that is small as long as nobody decompresses it."""
    zeros = pa.array(np.zeros(ROWS, np.int64))
    batch = pa.record_batch({"src": zeros, "dst": zeros})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(BATCHES):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def peak_bytes(pid: int) -> int:
    """The most memory that a process ever had."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(kilobytes) * 1024


def test_a_snapshot_above_the_limit_is_dead_lettered_and_never_unpacked(
    embedded: Broker,
    topic_name: str,
    tmp_path: Path,
    snapshot: Callable[..., Snapshot],
    outgoing: Callable[[Snapshot, str], OutgoingRecord],
) -> None:
    settings, graph = embedded.settings(), topic_name
    create_topics(settings)
    first, last = (outgoing(snapshot(i, graph), SNAPSHOTS) for i in (0, 1))
    too_large = OutgoingRecord(SNAPSHOTS, bomb(), first.key, first.headers)
    results = subscribe(graph, start="beginning", limit=2, settings=settings)
    limit, log = {"STREAM_ICD_LIMITS_DECODED_BYTES": str(LIMIT)}, tmp_path / "detector.log"
    with consuming(embedded, graph, log, "detect", "--model", "lfr", **limit) as detector:
        with Publisher(settings) as publisher:
            publisher.send(first)
            publisher.flush()
            found = [next(results).snapshot_id]
            before = peak_bytes(detector.pid)
            publisher.send(too_large)
            publisher.send(last)
        found += [result.snapshot_id for result in results]
        grown = peak_bytes(detector.pid) - before
    assert found == [f"{graph}/0", f"{graph}/1"], log.read_text()
    assert grown < 150e6
    with open_reader(settings, dead_letter_topic(SNAPSHOTS), until="end") as records:
        (dead,) = [dict(record.headers) for record in records if record.key == first.key]
    assert dead["icd_dlq_exception"] == b"LimitExceeded"
    assert f"the limit is {LIMIT}".encode() in dead["icd_dlq_message"]
