"""A detector that says when it did what: the program that `benchmarks.pipeline` starts.

It is what `stream-icd consume detect` runs, with a line of JSON on its standard output for each
batch: times are seconds since the epoch, so that another process can compare them with its own.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import psutil

from stream_icd.commands.programs.process import FreezeWhatStays, share_one_heap
from stream_icd.core.log import configure_logging
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, MEMORY, SNAPSHOTS
from stream_icd.registry.find import open_model
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import IN_HAND
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner


@dataclass(frozen=True)
class Timed:
    """A batch: when it was handed over, when its results were there, when it was committed.

    Attributes:
        outcomes: when the result of each record was there.
        cpu_main, cpu_workers: processor time since the processes started.
    """

    begun: float
    outcomes: list[float]
    done: float
    cpu_main: float
    cpu_workers: float


class TimedRunner(Runner):
    """Prints the times of each batch."""

    def handle(self, records: Sequence[Record]) -> Iterator[OutgoingRecord]:
        begun, outcomes = time.time(), list[float]()
        for record in super().handle(records):
            if record.topic == COMMUNITIES:
                outcomes.append(time.time())
            yield record
        self._waiting.append((begun, outcomes))

    def done(self, batch: BatchDone) -> None:
        super().done(batch)
        cpu = sum(sum(worker.cpu_times()[:2]) for worker in self._workers)
        timed = Timed(*self._waiting.pop(0), time.time(), time.process_time(), cpu)
        print(json.dumps(asdict(timed)), flush=True)

    @cached_property
    def _workers(self) -> list[psutil.Process]:
        return psutil.Process().children(recursive=True)  # 2 ms, in which all others wait

    @cached_property
    def _waiting(self) -> list[tuple[float, list[float]]]:
        return []


def main() -> None:
    servers, group, model_name, memory, processes = sys.argv[1:6]
    share_one_heap()
    configure_logging()
    kafka, model = KafkaSettings(bootstrap_servers=servers), open_model(model_name)
    settings = DetectSettings(
        topic=COMMUNITIES, memory=memory, memory_topic=MEMORY, group=group, threads=1
    )
    memories = Memories.open(kafka, group) if memory == "auto" else None
    with Processes(RecordDetection(model, settings), model_name, int(processes)) as pool:
        detector = Detector(lambda: model, settings, pool, memories)
        runner = TimedRunner(detector, DeadLetterLimit(), claim_check=ClaimCheck(kafka))
        pool.wait_until_warm(threading.Event())
        batch = IN_HAND * int(processes)
        run_consumer(
            kafka,
            SNAPSHOTS,
            group,
            runner,
            threading.Event(),
            max_records=batch,
            watchers=[FreezeWhatStays()],
        )


if __name__ == "__main__":
    main()
