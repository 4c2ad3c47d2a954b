"""An archive keeps states that detectors wrote, and no state that anybody else wrote stops it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.errors import BadMemory, LimitExceeded
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive
from stream_icd.history.archiver import Archiver
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import Outcome, Processed, Refused
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import MEMORY
from stream_icd.methods.memory.encoding import FORMAT, METADATA, enclosed
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.arrow_stream import write_table
from tests.streaming.workers.remembered import records
from tests.testbed.drifting import remembering_model, stream


def state(value: bytes | None = None, key: bytes | None = None, offset: int = 0) -> Record:
    """The state after a window, as it is in the memory topic, or with another value or key."""
    work = RecordDetection(remembering_model(), DetectSettings(memory="auto", threads=1))
    outcome = work(records(stream("g", 1))[0], Relay())
    assert isinstance(outcome, Processed)
    assert outcome.state is not None
    sent = outcome.state
    return Record(MEMORY, 0, offset, 1000, key or sent.key, value or sent.value, sent.headers)


def archived(store: Store, record: Record) -> Outcome:
    return Archiver(Archive(store), "memory").process(record)


def as_state(table: pa.Table, format_: int = FORMAT) -> bytes:
    metadata = {METADATA: json.dumps({"format": format_})}
    return write_table(table.replace_schema_metadata(metadata))


def test_states_are_archived_of_one_graph_if_it_is_given(disk: Store) -> None:
    assert archived(disk, state()) == Processed("archived", {"kind": "memory"})
    keys = b'["detectors", "other"]', b'["detectors", "g"]', b"no key"
    sent = [state(key=key, offset=at) for at, key in enumerate(keys)]
    runner = Runner(Archiver(Archive(disk), "memory"), graph="g")
    assert list(runner.handle(sent)) == []
    assert disk.folders("memory") == ["graph=g"]
    metrics = Metrics(300, 10)
    metrics.watch(MEMORY, "archive", "g").done(BatchDone(tuple(sent), (), 0.0))
    of_group = {"group": "archive", "topic": MEMORY}
    value_of = metrics.registry.get_sample_value
    assert value_of("stream_icd_snapshots_total", of_group | {"graph": "g"}) == 1
    assert value_of("stream_icd_skipped_total", of_group) == 2


def union() -> pa.Table:
    kinds, places = pa.array([0], pa.int8()), pa.array([0], pa.int32())
    return pa.table({"node": pa.UnionArray.from_dense(kinds, places, [pa.array([1])])})


TWICE = pa.table([pa.array([1]), pa.array([2])], names=["node", "node"])


@pytest.mark.parametrize(
    "value",
    [b"no Arrow", write_table(union()), as_state(union()), write_table(TWICE), as_state(TWICE),
     as_state(pa.table({"node": [1], "snapshot_id": ["g/0"]}))],
    ids=["no table", "a union", "a union that says it is one", "a column twice",
         "a column twice that says it is one", "a column of the archive"],
)  # fmt: skip
def test_what_no_detector_wrote_is_a_dead_letter(disk: Store, value: bytes) -> None:
    outcome = archived(disk, state(value))
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, BadMemory)
    assert not disk.folders("memory")


def test_a_state_that_is_a_large_table_is_never_decompressed(disk: Store) -> None:
    zeros = pa.array(np.zeros(4_000_000, np.int64))
    bomb = state(enclosed(pa.table({"node": zeros}), {"format": FORMAT}))
    allocated = pa.total_allocated_bytes()
    outcome = archived(disk, bomb)
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, LimitExceeded)
    assert pa.total_allocated_bytes() <= allocated + 1_000_000


def test_a_state_of_another_version_is_left_out(disk: Store) -> None:
    for format_ in (FORMAT - 1, FORMAT + 1):
        outcome = archived(disk, state(as_state(pa.table({"node": [1]}), format_)))
        assert outcome == Processed("not archived: of another version", {"kind": "memory"})
