"""A worker that copies a topic, and that some records end: as a process, or in a thread."""

from __future__ import annotations

import os
import signal
import sys
import threading

from stream_icd.core.errors import StoreUnreachable
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.records import Outcome, Processed
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.step import Step
from tests.testbed.handlers import WhenDone

ERRORS = {b"divide": ZeroDivisionError, b"memory": MemoryError, b"store": StoreUnreachable}


class Copy(Step):
    """Copies each record; `kill` kills the process, the names of errors raise them."""

    def __init__(self, target: str) -> None:
        self._target = target

    def process(self, record: Record) -> Outcome:
        if record.value == b"kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if record.value in ERRORS:
            raise ERRORS[record.value]("as it always does")
        return Processed("copied", {}, (OutgoingRecord(self._target, record.value, record.key),))


def copy(
    settings: KafkaSettings, source: str, last: bytes, claim_check: ClaimCheck | None = None
) -> None:
    """Copy a topic to SOURCE.found in batches of four, until a record with this value is through.

    Raises:
        What a record raises.
    """
    stop = threading.Event()

    def on_done(batch: BatchDone) -> None:
        if any(record.value == last for record in batch.records):
            stop.set()

    runner, watchers = Runner(Copy(f"{source}.found"), claim_check=claim_check), [WhenDone(on_done)]
    run_consumer(settings, source, source, runner, stop, max_records=4, watchers=watchers)


if __name__ == "__main__":
    copy(KafkaSettings(), sys.argv[1], sys.argv[2].encode())
