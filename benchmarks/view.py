"""What the live page costs: memory, the way of a result to 50 tabs, and the bytes of the page.

    python -m benchmarks.view

Fills a topic of Apache Kafka, on this machine, with 6000 results of 5000 nodes whose communities
drift, and serves them with `stream-icd view` in a process of its own. Then 50 tabs connect and a
result is published every 0.25 s. The time of a result runs from the broker's acknowledgement until
a tab has read its event. Writes a section of docs/measured/view.md; the exit status is 1 when a
tab missed a result.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.page import PATIENCE_S, get, page_of
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.streams.drifting import MOVED, NODES, K, results
from stream_icd.core.communities import Communities
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, create_topics
from stream_icd.wire.communities import encode_communities
from tests.testbed import brokers

TABS = 50
EVERY_S = 0.25


@dataclass(frozen=True)
class Figures:
    """What was measured; seconds, and bytes."""

    windows: int
    read_cpu_s: float
    resident: int
    resident_empty: int
    held: int
    first_load: dict[str, int]
    answers: dict[str, tuple[float, float, int]]
    delays: np.ndarray
    live_cpu: float
    resident_after: int
    missed: int


def ask(port: int, question: str) -> dict[str, object]:
    """An answer to a question."""
    return dict(json.loads(gzip.decompress(get(port, f"/api/{question}"))))


async def tab(port: int, arrived: list[dict[int, float]], ready: asyncio.Event) -> None:
    """Note when each window's event has been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    mine: dict[int, float] = {}
    arrived.append(mine)
    while line := await reader.readline():
        if line.startswith(b'data: {"number":'):
            mine[int(line.split(b":", 3)[2].split(b",")[0])] = time.monotonic()
        elif line.startswith(b"event: hello"):
            ready.set()


async def live(
    port: int, settings: KafkaSettings, fresh: list[Communities]
) -> tuple[list[dict[int, float]], list[float]]:
    """Publish one result after the other; when each tab got it, and when the broker had it."""
    arrived: list[dict[int, float]] = []
    tabs, acknowledged = [], []
    for _ in range(TABS):
        ready = asyncio.Event()
        tabs.append(asyncio.create_task(tab(port, arrived, ready)))
        await ready.wait()
    with Publisher(settings) as publisher:
        for communities in fresh:
            publisher.send(outgoing(COMMUNITIES, encode_communities(communities)))
            await asyncio.to_thread(publisher.flush)
            acknowledged.append(time.monotonic())
            await asyncio.sleep(EVERY_S)
    await asyncio.sleep(2)
    for task in tabs:
        task.cancel()
    return arrived, acknowledged


def measure(settings: KafkaSettings, folder: Path, n: int, n_live: int) -> Figures:
    """Fill the topic, serve it, and measure."""
    create_topics(settings)
    everything = list(results(n + n_live))
    with page_of(settings, folder) as (address, process):
        port = int(address.rsplit(":", 1)[1].rstrip("/"))
        empty, before = process.memory_info().rss, _cpu(process)
        with Publisher(settings) as publisher:
            for communities in everything[:n]:
                publisher.send(outgoing(COMMUNITIES, encode_communities(communities)))
        brokers.wait_until(lambda: _windows(port) >= n, PATIENCE_S)
        read, resident = _cpu(process) - before, process.memory_info().rss
        load = {
            name: sum(len(get(port, f"/{path}")) for path in paths)
            for name, paths in _first_load(port).items()
        }
        answers = {question: _timed(port, question) for question in QUESTIONS}
        before, began = _cpu(process), time.monotonic()
        arrived, acknowledged = asyncio.run(live(port, settings, everything[n:]))
        used = (_cpu(process) - before) / (time.monotonic() - began)
        missed = sum(n + at not in mine for mine in arrived for at in range(n_live))
        delays = [
            mine[n + at] - since
            for mine in arrived
            for at, since in enumerate(acknowledged)
            if n + at in mine
        ]
        held = int(str(ask(port, "overview")["bytes_held"]))
        after = process.memory_info().rss
        return Figures(
            n, read, resident, empty, held, load, answers, np.array(delays), used, after, missed
        )


QUESTIONS = ("flow?last=60", "flow?last=6000&columns=120", "life?last=700", "life?last=6000",
             "events", "node?node=7")  # fmt: skip


def _first_load(port: int) -> dict[str, list[str]]:
    names = [
        path.name
        for path in (Path(__file__).parents[1] / "stream_icd/interfaces/view/page").iterdir()
    ]
    modules = [name for name in names if name.endswith((".js", ".css", ".html", ".svg"))]
    assert get(port, "/index.html")
    return {"page": modules, "charts": ["vendor/echarts-6.1.0.min.js"]}


def _timed(port: int, question: str) -> tuple[float, float, int]:
    """Seconds of the first answer, of the same again, and its bytes as sent."""
    times = []
    for _ in range(2):
        began = time.monotonic()
        body = get(port, f"/api/{question}")
        times.append(time.monotonic() - began)
    return times[0], times[1], len(body)


def _windows(port: int) -> int:
    series = ask(port, "overview")["series"]
    assert isinstance(series, list)
    return int(series[0]["number"]) + 1 if series else 0


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def section(figures: Figures, stamp: str) -> str:
    """The section of the page."""
    middle, late, last = np.percentile(figures.delays, [50, 99, 100]) * 1000
    rows = "\n".join(
        f"| `{question}` | {first * 1000:.0f} | {again * 1000:.1f} | {size / 1000:.1f} |"
        for question, (first, again, size) in figures.answers.items()
    )
    mega = 2**20
    page, charts = figures.first_load["page"] / 1000, figures.first_load["charts"] / 1000
    events = len(figures.delays) + figures.missed
    return f"""
`python -m benchmarks.view`, with Apache Kafka on the same machine. One graph of {NODES:,} nodes in
{K} communities, of which up to {MOVED} nodes move in each window. {stamp}

- **Memory.** The process needs {figures.resident_empty / mega:.0f} MiB without results and
  {figures.resident / mega:.0f} MiB with {figures.windows:,} windows, of which it counts
  {figures.held / mega:.0f} MiB for the windows.
- **Reading** takes {1000 * figures.read_cpu_s / figures.windows:.1f} ms of processor time per
  result, tracking included.
- **From the broker to {TABS} tabs**, with a result every {EVERY_S} s: {middle:.0f} ms (median),
  {late:.0f} ms (99th percentile) and {last:.0f} ms (longest) from the broker's acknowledgement of a
  result until a tab has read its event. {figures.missed} of {events:,} events were missed. The
  process used {100 * figures.live_cpu:.0f} % of a core, and {figures.resident_after / mega:.0f} MiB
  afterwards.
- **Bytes of a first visit**, compressed: {page:.0f} kB for the page; {charts:.0f} kB for the
  library of charts, which loads after the first picture and stays in the browser's cache.

| question | first answer, ms | the same again, ms | size, kB |
|---|---|---|---|
{rows}

"""


def main() -> int:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=6000)
    parser.add_argument("--live", type=int, default=120, help="results published while tabs watch")
    options, machine = parser.parse_args(), Machine(BY_CLOCK)
    with brokers.OPENERS["kafka"]() as broker, tempfile.TemporaryDirectory() as folder:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        found = measure(settings, Path(folder), options.windows, options.live)
    print(section(found, ""), flush=True)
    write_section("measured/view.md", "view", section(found, machine.stamp()))
    return int(found.missed > 0)


if __name__ == "__main__":
    sys.exit(main())
