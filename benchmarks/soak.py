"""Half an hour at the highest rate that one worker sustains: is memory flat, is anything lost?

    python -m benchmarks.soak --data as733.parquet --minutes 30

Three processes on Apache Kafka: a producer that sends daily AS topologies over and over, each time
as a snapshot of its own; `stream-icd consume detect`, exactly-once; a subscriber that reads what is
committed. First the worker is kept busy with a backlog, to see how much it sustains; then 95 % of
that is sent, whatever comes out. Every second both sides' counts and the processes' memory are
sampled (--out, CSV). Writes docs/measured/soak.md and docs/measured/soak.png; the exit status is 1
when a snapshot was lost or seen twice, when memory grew, or when other programs used the machine
meanwhile: then the old page stays.

Nothing expires meanwhile: the topics need about 2 MB of disk a second, 3 GB in half an hour.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from benchmarks.shared.family import cpu_seconds, memory_mib
from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.soak_ends import (
    CATCH_UP_S,
    Offer,
    Plan,
    count,
    rows,
    run_sender,
    run_subscriber,
)
from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.kafka.topics import create_topics
from tests.testbed.brokers import apache_kafka, wait_until

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "soak.md"
PICTURE = PAGE.with_suffix(".png")
MODEL = "as"
START_S = 60.0
LINGER_S = 2.0  # after the last result: what would come twice comes now
FLAT_MIB_PER_HOUR = 16.0
DISK_BYTES_PER_S = 4e6  # twice of what is expected
SAMPLE = np.dtype(
    [
        ("time", "<f8"),
        ("sent", "<i8"),
        ("seen", "<i8"),
        ("detector_mib", "<f8"),
        ("subscriber_mib", "<f8"),
        ("detector_cpu_s", "<f8"),
    ]
)


@dataclass(frozen=True)
class Slope:
    """Of a line through the samples (Theil and Sen's: the median of all pairs'), MiB an hour."""

    per_hour: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.per_hour:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True)
class Soaked:
    """What came of it.

    Attributes:
        offer: what was sent at the rate.
        samples: `(n,)` of SAMPLE, one a second, from the beginning to the last result.
        sent, seen: `(n,)` of ROW, in the order of sending and of seeing.
        status: the detector's exit status, after SIGTERM.
        disk: bytes that Kafka held at the end; 0 where it is not ours to look.
    """

    offer: Offer
    samples: np.ndarray
    sent: np.ndarray
    seen: np.ndarray
    status: int
    disk: int = 0

    @property
    def missing(self) -> np.ndarray:
        """Numbers that were sent and not seen."""
        return np.setdiff1d(self.sent["number"], self.seen["number"])

    @property
    def doubled(self) -> np.ndarray:
        """Numbers that were seen more than once."""
        numbers, times = np.unique(self.seen["number"], return_counts=True)
        return numbers[times > 1]

    @property
    def steady(self) -> np.ndarray:
        """The samples while snapshots were sent at the rate."""
        last = self.sent["time"][-1]
        return self.samples[
            (self.samples["time"] >= self.offer.began) & (self.samples["time"] <= last)
        ]

    @property
    def warm(self) -> np.ndarray:
        """Of these, all but the first quarter."""
        return self.steady[len(self.steady) // 4 :]

    @property
    def lag(self) -> np.ndarray:
        """Snapshots sent and not yet seen, second by second, while they were sent at the rate."""
        return self.steady["sent"] - self.steady["seen"]

    @property
    def latency_s(self) -> np.ndarray:
        """From when each snapshot was due until it was first seen, of those sent at the rate."""
        numbers, first = np.unique(self.seen["number"], return_index=True)
        due = dict(zip(self.sent["number"].tolist(), self.sent["time"].tolist(), strict=True))
        late = self.seen["time"][first] - [due[number] for number in numbers.tolist()]
        return late[numbers >= self.offer.first]

    def slope(self, who: str) -> Slope:
        """How the memory of `detector` or `subscriber` grows, once warm."""
        line = theilslopes(self.warm[f"{who}_mib"], self.warm["time"] / 3600, 0.95)
        return Slope(line.slope, line.low_slope, line.high_slope)

    @property
    def complaints(self) -> list[str]:
        """What should not be; nothing, where all is well."""
        found = {
            f"{len(self.missing)} snapshots were lost, such as {self.missing[:3]}": len(
                self.missing
            ),
            f"{len(self.doubled)} were seen twice, such as {self.doubled[:3]}": len(self.doubled),
            f"the detector ended with status {self.status}": self.status,
        }
        return [complaint for complaint, holds in found.items() if holds]


def soak(plan: Plan) -> Soaked:
    """Run it on the broker that the plan names.

    Raises:
        RuntimeError: one of the processes died.
    """
    create_topics(plan.settings)
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    subscriber = spawn.Process(target=run_subscriber, args=(plan, stop), daemon=True)
    sender = spawn.Process(target=run_sender, args=(plan,), daemon=True)
    subscriber.start()
    wait_until(plan.seen.exists, START_S)
    with running_detector(plan) as detector:
        sender.start()
        samples = sampled(plan, sender, subscriber, detector)
        time.sleep(LINGER_S)
        status = stop_children([detector], 20.0)[0]
    stop.set()
    subscriber.join()
    offer = Offer.read(plan)
    assert offer is not None, "the sender has ended, so it has written its offer"
    return Soaked(offer, samples, rows(plan.sent), rows(plan.seen), status)


@contextmanager
def running_detector(plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """`stream-icd consume detect`, as an operator starts it."""
    options = ("--model", MODEL, "--graph", plan.graph, "--group", plan.graph)
    address = ("--bootstrap-servers", plan.bootstrap_servers)
    command = (
        sys.executable,
        "-m",
        "stream_icd.commands.cli",
        "consume",
        "detect",
        *options,
        *address,
    )
    detector = start_child(command, plan.folder / "detector.log")
    try:
        yield detector
    finally:
        stop_children([detector], 20.0)


def sampled(
    plan: Plan, sender: Any, subscriber: Any, detector: subprocess.Popen[bytes]
) -> np.ndarray:
    """A row each second, until all that was sent is seen, or nothing more came in its time."""
    taken, next_at, seen, heard = [], time.time(), 0, time.time()
    while True:
        ended = not sender.is_alive()  # asked before counting: then that is all it sent
        if not ended or count(plan.seen) > seen:
            seen, heard = count(plan.seen), time.time()
        if ended and (seen >= count(plan.sent) or time.time() - heard > CATCH_UP_S):
            return np.array(taken, SAMPLE)
        if detector.poll() is not None or not subscriber.is_alive() or sender.exitcode:
            raise RuntimeError(f"a process died; {tail(plan.folder / 'detector.log')}")
        counts = (count(plan.sent), count(plan.seen))
        memory = (memory_mib(detector.pid), memory_mib(subscriber.pid))
        taken.append((time.time(), *counts, *memory, cpu_seconds(detector.pid)))
        next_at += 1.0
        time.sleep(max(0.0, next_at - time.time()))


def write_samples(one: Soaked, path: Path) -> None:
    """The samples as CSV: seconds from when the rate began, negative while it was looked for."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("seconds", *SAMPLE.names[1:]))
        for at, *rest in one.samples.tolist():
            writer.writerow((round(at - one.offer.began, 2), *(round(x, 2) for x in rest)))


def draw(one: Soaked, path: Path) -> None:
    """Memory, lag and rates over time, while snapshots were sent at the rate."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    memory, lag, rates = figure.subplots(3, 1, sharex=True)
    minutes = (one.steady["time"] - one.offer.began) / 60
    for who, colour in (("detector", "#4477aa"), ("subscriber", "#228833")):
        label = f"{who}: {one.slope(who)} MiB an hour after the first quarter"
        memory.plot(minutes, one.steady[f"{who}_mib"], color=colour, label=label)
    memory.set_ylim(0, 1.1 * one.steady["detector_mib"].max())
    lag.plot(minutes, one.lag, color="#ee6677", label="snapshots sent and not yet seen")
    elapsed = np.diff(one.steady["time"])
    for what, colour in (("seen", "#228833"), ("sent", "#333333")):
        label = f"{what}, snapshots a second"
        rates.plot(
            minutes[1:], np.diff(one.steady[what]) / elapsed, color=colour, lw=0.8, label=label
        )
    rates.set_ylim(bottom=0)
    rates.set_xlabel("minutes at the rate")
    for axes, title in ((memory, "memory, MiB"), (lag, "lag"), (rates, "rates")):
        axes.set_title(title, loc="left", fontsize=10)
        where = "upper left" if axes is lag else "lower right"
        axes.legend(frameon=False, loc=where, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.margins(x=0)
    figure.savefig(path, dpi=100)


def page(one: Soaked, minutes: float, stamp: str) -> str:
    """docs/measured/soak.md."""
    n_rate = len(one.sent) - one.offer.first
    return f"""# A long run at full load

For operators: whether a detector keeps up, and whether its memory grows, near its highest rate.

Made by `python -m benchmarks.soak --data as733.parquet --minutes {minutes:g}`: Apache Kafka, a
producer, one `stream-icd consume detect` (model `{MODEL}`, exactly-once, one thread) and a
subscriber on one machine. {stamp}
The daily AS topologies are sent again and again in random order, each time as a new snapshot:
neighbouring windows are months apart, which is the most work for a detector with memory
([pipeline.md](pipeline.md) has them in their order). With a backlog, the detector processed
{one.offer.sustained:.1f} snapshots per second. Then {n_rate:,} were sent
at a constant rate of {one.offer.rate:.1f} per second.

| measured | value |
|---|---|
{table(one)}

Everything is sampled once per second. The first quarter does not count for memory. Growth is the
median of the slopes between all pairs of samples (Theil and Sen).
[operating.md](../operating.md#memory) says how much memory a backlog takes.

![Memory, lag and rates over time](soak.png)
"""


def table(one: Soaked) -> str:
    memory, steady, milliseconds = one.warm["detector_mib"], one.steady, 1000 * one.latency_s
    shares, cores = (50, 95, 99, 100), np.ptp(steady["detector_cpu_s"]) / np.ptp(steady["time"])
    spread = "median, 95 %, 99 %, maximum"
    cells = {
        "snapshots sent": f"{len(one.sent):,}",
        "results seen by a reader of committed records": f"{len(np.unique(one.seen['number'])):,}",
        "results lost; seen twice": f"{len(one.missing)}; {len(one.doubled)}",
        f"snapshots sent and not yet seen: {spread}": percentiles(one.lag, shares),
        f"milliseconds from scheduled sending to result: {spread}": percentiles(
            milliseconds, shares
        ),
        "memory of the detector, MiB: median, maximum": percentiles(memory, (50, 100)),
        "growth of this memory, MiB per hour (95 % interval)": str(one.slope("detector")),
        "growth of the subscriber's memory, MiB per hour (95 % interval)": str(
            one.slope("subscriber")
        ),
        "CPU cores that the detector used": f"{cores:.2f}",
        "disk space of Kafka at the end (nothing expired), GB": f"{one.disk / 1e9:.1f}",
    }
    return "\n".join(f"| {what} | {value} |" for what, value in cells.items())


def percentiles(values: np.ndarray, shares: tuple[int, ...]) -> str:
    return ", ".join(f"{value:.0f}" for value in np.percentile(values, shares))


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="AS-733, as produce as reads it")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--calibrate", type=float, default=20.0, help="seconds with a backlog")
    parser.add_argument("--share", type=float, default=0.95, help="of what is sustained")
    parser.add_argument("--out", type=Path, default=Path("soak.csv"))
    options, machine = parser.parse_args(), Machine(BY_CLOCK)
    needed = DISK_BYTES_PER_S * 60 * options.minutes
    if shutil.disk_usage(tempfile.gettempdir()).free < needed:
        raise SystemExit(f"{tempfile.gettempdir()} needs {needed / 1e9:.0f} GB free; set TMPDIR")
    with apache_kafka() as kafka, tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            options.data,
            Path(folder),
            kafka.bootstrap_servers,
            seconds=60 * options.minutes,
            calibrate_s=options.calibrate,
            share=options.share,
        )
        found = soak(plan)
        if kafka.node is not None:
            held = kafka.node.folder.rglob("*.log")
            found = replace(found, disk=sum(file.stat().st_size for file in held))
    write_samples(found, options.out)
    grew = found.slope("detector").low > FLAT_MIB_PER_HOUR
    complaints = [*found.complaints, *(["the detector's memory grew"] if grew else [])]
    print(table(found), *complaints, sep="\n", flush=True)
    text = page(found, options.minutes, machine.stamp())
    draw(found, PICTURE)
    PAGE.write_text(text, encoding="utf-8")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
