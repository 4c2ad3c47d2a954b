"""What traces cost a worker: switched off, and on.

    python -m benchmarks.tracing

Writes a table of docs/measured/running.md. The same records go through a runner without the code of
traces, one with traces off and one with traces on (spans are made and dropped), in turn and many
times. Times are processor times of this process; the figures are medians.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from statistics import median, quantiles
from time import process_time

import numpy as np
import structlog
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.shared.pages.sections import write_section
from stream_icd.kafka.messages.records import Outcome, Processed
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.tracing import Tracing
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.registry.find import open_model
from stream_icd.sources.generated import independent_lfr
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.snapshots import encode_snapshot


class PassOn(Step):
    """The cheapest step: publishes the record as it is."""

    def process(self, record: Record) -> Outcome:
        """Return the record."""
        same = OutgoingRecord("out", record.value, record.key, record.headers)
        return Processed("passed on", outgoing=(same,))


class WithoutTraces(Runner):
    """The runner without a line about traces."""

    def handle(self, records: Sequence[Record]) -> Iterator[OutgoingRecord]:
        """As `Runner.handle`."""
        self.step.begin(records)
        for record, outcome in self.step.work(self._ours(records)):
            yield from self._published(record, outcome)


def snapshots(count: int, n_nodes: int) -> list[Record]:
    """Records of simulated snapshots."""
    source = independent_lfr(0, count, LfrSettings(n_nodes))
    sent = [encode_snapshot(snapshot) for snapshot, _ in source.snapshots]
    return [
        Record("t", 0, i, 0, message.key, message.value, message.headers)
        for i, message in enumerate(sent)
    ]


def seconds(runner: Runner, records: Sequence[Record], times: int) -> float:
    """Processor time of the records, so many times."""
    started = process_time()
    for _ in range(times):
        for _ in runner.handle(records):
            pass
    return process_time() - started


def row(what: str, step: Callable[[], Step], records: list[Record], times: int, rounds: int) -> str:
    """Compare the three runners on a step."""
    tracing = Tracing(TracerProvider())
    limit = DeadLetterLimit()
    runners = [
        WithoutTraces(step(), limit),
        Runner(step(), limit),
        Runner(step(), limit, tracing=tracing),
    ]
    for runner in runners:
        seconds(runner, records, 1)
    found = np.array(
        [[seconds(runner, records, times) for runner in runners] for _ in range(rounds)]
    )
    without = found[:, 0]
    off, on = (100 * (found[:, i] / without - 1) for i in (1, 2))
    again = [100 * (b / a - 1) for a, b in pairwise(without)]
    low, _, high = quantiles(again, n=4)
    per_record = 1e6 * median(without) / times / len(records)
    return (
        f"{what} | {per_record:,.0f} | {median(off):+.1f} % | {low:+.1f} to {high:+.1f} % | "
        f"{median(on):+.1f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    model = open_model("default")
    rows = [
        row("a step that does nothing", PassOn, snapshots(50, 200), 40, options.rounds),
        row(
            "detection, 1,000 nodes",
            lambda: Detector(lambda: model, DetectSettings()),
            snapshots(10, 1000),
            1,
            options.rounds,
        ),
    ]
    heading = "work | µs a record | traces off | two equal runs | traces on"
    table = "\n".join([heading, "--- | --- | --- | --- | ---", *rows, ""])
    print(table)
    write_section("measured/running.md", "tracing.py", table)


if __name__ == "__main__":
    main()
