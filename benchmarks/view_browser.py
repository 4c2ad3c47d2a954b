"""The live page in Chromium: how soon it shows what there is and what is new, and its memory.

    python -m benchmarks.view_browser

Publishes 700 results of 5,000 nodes whose communities drift to Apache Kafka on this machine, serves
them with `stream-icd view`, and opens the page in Chromium. Then results arrive: two a second;
twenty a second for half a minute; an hour of one a second, ten times as fast; and one after the
broker was killed and started again. The page itself notes when it drew each window. Writes a
section of docs/measured/view.md; the exit status is 1 when a bound is exceeded. Needs Debian's
package chromium, and pip install playwright.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.page import PATIENCE_S, chromium, page_of
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.streams.drifting import results
from stream_icd.core.communities import Communities
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, create_topics
from stream_icd.wire.communities import encode_communities
from tests.testbed import brokers

FIRST_S, NEW_S = 1.0, 0.5
OPENED = 9
SLOW_EVERY_S, FAST_EVERY_S = 0.5, 0.05
DOWN_S = 3.0
MEGA = 2**20
BLANK = "icon.svg"
"""What the browser needs to open any page: a small picture of the same server."""
NOTING = """
window.drawn = {};
new MutationObserver(() => {
  for (const one of document.querySelectorAll("[data-newest]")) {
    const key = `${one.tagName} ${one.dataset.newest}`;
    window.drawn[key] ??= performance.timeOrigin + performance.now();
  }
}).observe(document, { subtree: true, childList: true, attributes: true });
"""
"""Notes in the page when a picture first showed each window, milliseconds since 1970."""


@dataclass(frozen=True)
class Memory:
    """Bytes: of the server's process, of the tab's process, and of its JavaScript objects."""

    server: int
    tab: int
    objects: int


@dataclass(frozen=True)
class Figures:
    """What was measured; seconds, and bytes."""

    windows: int
    first: dict[str, tuple[list[float], list[float]]]
    new: np.ndarray
    fast: np.ndarray
    before: Memory
    after: Memory
    hour_windows: int
    hour_s: float
    server_cpu: float
    tab_cpu: float
    healed_s: float


def first_pictures(
    browser: Any, server: psutil.Process, address: str, view: str, shows: str
) -> tuple[list[float], list[float]]:
    """Open the page again and again, each time in a new browser context.

    Returns the seconds from opening it to its first picture, and the seconds of processor time
    that the browser and the server took for it: an idle machine needs no more.
    """
    seconds, used = [], []
    for _ in range(OPENED):
        context = browser.new_context()
        tab = context.new_page()
        before, began = _busy(server), time.monotonic()
        tab.goto(address + (BLANK if view == BLANK else f"?view={view}"))
        tab.wait_for_selector(shows)
        seconds.append(time.monotonic() - began)
        used.append(_busy(server) - before)
        context.close()
    return seconds, used


def _busy(server: psutil.Process) -> float:
    """Processor time of the server and of all processes of the browser so far."""
    total = _cpu(server)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "chrom" in child.name():
                total += _cpu(child)
    return total


def publish(
    publisher: Publisher, fresh: Iterator[Communities], n: int, every_s: float
) -> list[float]:
    """Publish n results, one every so often; when the broker had each, seconds since 1970."""
    acknowledged = []
    due = time.monotonic()
    for _ in range(n):
        publisher.send(outgoing(COMMUNITIES, encode_communities(next(fresh))))
        publisher.flush()
        acknowledged.append(time.time())
        due += every_s
        time.sleep(max(0.0, due - time.monotonic()))
    return acknowledged


def delays(tab: Any, first: int, acknowledged: list[float]) -> np.ndarray:
    """Seconds from the broker's acknowledgement of each window until it, or a later one, is drawn.

    When windows come faster than pictures, a picture shows several new ones.
    """
    last = first + len(acknowledged) - 1
    tab.wait_for_selector(f"svg.flow[data-newest='{last}']")
    drawn = {int(key.split()[1]): ms / 1000 for key, ms in tab.evaluate("window.drawn").items()}
    at = [
        min(ms for number, ms in drawn.items() if number >= first + i)
        for i in range(last - first + 1)
    ]
    return np.array(at) - np.array(acknowledged)


def memory(tab: Any, server: psutil.Process, renderer: psutil.Process) -> Memory:
    """Bytes now, after a collection of garbage in the tab."""
    session = tab.context.new_cdp_session(tab)
    session.send("HeapProfiler.collectGarbage")
    objects = tab.evaluate("performance.memory.usedJSHeapSize")
    session.detach()
    return Memory(server.memory_info().rss, renderer.memory_info().rss, objects)


def renderer_of(before: set[int]) -> psutil.Process:
    """The process of the tab that was opened since: the largest renderer that is new."""
    new = [renderer for renderer in _renderers() if renderer.pid not in before]
    return max(new, key=lambda one: one.memory_info().rss)


def _renderers() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # those of closed tabs end meanwhile
            if "--type=renderer" in " ".join(child.cmdline()):
                found.append(child)
    return found


def measure(broker: brokers.Broker, folder: Path, n: int, minutes: float) -> Figures:
    """Fill the topic, serve it, open the page, and measure."""
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    create_topics(settings)
    rate = 10
    n_hour = round(minutes * 60 * rate)
    fresh = results(n + 60 + 600 + n_hour + 1)
    with Publisher(settings) as publisher:
        for _ in range(n):
            publisher.send(outgoing(COMMUNITIES, encode_communities(next(fresh))))
    with page_of(settings, folder) as (address, server), chromium() as browser:
        tab = browser.new_page()
        tab.goto(address)
        tab.wait_for_selector(f"svg.flow[data-newest='{n - 1}']", timeout=PATIENCE_S * 1000)
        tab.close()
        first = {
            view: first_pictures(browser, server, address, view, shows)
            for view, shows in (
                (BLANK, "svg"),
                ("flow", f"svg.flow[data-newest='{n - 1}']"),
                ("life", f"#life .plot[data-windows='{n}'] canvas"),
            )
        }
        known = {one.pid for one in _renderers()}
        context = browser.new_context()
        context.add_init_script(NOTING)
        tab = context.new_page()
        tab.goto(address)
        tab.wait_for_selector(f"svg.flow[data-newest='{n - 1}']")
        renderer = renderer_of(known)
        with Publisher(settings) as publisher:
            new = delays(tab, n, publish(publisher, fresh, 60, SLOW_EVERY_S))
            fast = delays(tab, n + 60, publish(publisher, fresh, 600, FAST_EVERY_S))
            before = memory(tab, server, renderer)
            used = _cpu(server), _cpu(renderer)
            began = time.monotonic()
            publish(publisher, fresh, n_hour, 1 / rate)
            hour_s = time.monotonic() - began
            cpu = [(_cpu(server) - used[0]) / hour_s, (_cpu(renderer) - used[1]) / hour_s]
        tab.wait_for_selector(f"svg.flow[data-newest='{n + 660 + n_hour - 1}']")
        after = memory(tab, server, renderer)
        healed = _heal(broker, settings, tab, next(fresh), n + 660 + n_hour)
    return Figures(n, first, new, fast, before, after, n_hour, hour_s, cpu[0], cpu[1], healed)


def _heal(
    broker: brokers.Broker, settings: KafkaSettings, tab: Any, communities: Communities, number: int
) -> float:
    """Kill the broker, start it again, publish; seconds until the page shows the result."""
    assert broker.node is not None
    broker.node.kill()
    time.sleep(DOWN_S)
    broker.node.start()
    with Publisher(settings) as publisher:
        (acknowledged,) = publish(publisher, iter([communities]), 1, 0)
    return float(delays(tab, number, [acknowledged])[0])


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def section(figures: Figures, stamp: str) -> str:
    """The section of the page."""
    rows = [
        ("an icon from the same server, for comparison", *_spread(figures.first[BLANK][0])),
        (
            f"first picture of {figures.windows} windows: the flow",
            *_spread(figures.first["flow"][0]),
        ),
        ("the life, with its library of charts", *_spread(figures.first["life"][0])),
        (f"new window, a result every {SLOW_EVERY_S} s", *_spread(figures.new)),
        (f"new window, a result every {FAST_EVERY_S} s", *_spread(figures.fast)),
    ]
    busy = {view: np.median(used) for view, (_, used) in figures.first.items()}
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    before, after, minutes = figures.before, figures.after, figures.hour_s / 60
    server, tab = (round(100 * one) for one in (figures.server_cpu, figures.tab_cpu))
    return f"""
In Chromium, on the same machine and stream: `python -m benchmarks.view_browser`. The first pictures
are of {OPENED} new browser contexts, from opening the page. A new window is drawn when a picture
shows it or a later one; the time runs from the broker's acknowledgement of its result. {stamp}

| seconds until the page shows | median | 95th percentile | longest |
|---|---|---|---|
{table}

- **Processor time** of browser and server together until the first picture: {busy["flow"]:.2f} s
  for the flow, {busy["life"]:.2f} s for the life, {busy[BLANK]:.2f} s for the icon (medians).
- **Memory.** {figures.hour_windows:,} further results were sent in {minutes:.1f} minutes (an hour
  of one a second has 3,600). The process of the server had {_mega(before.server)} before and
  {_mega(after.server)} after them, that of the tab {_mega(before.tab)} and {_mega(after.tab)}; the
  objects of the page {_mega(before.objects)} and {_mega(after.objects)}. The server used
  {server} % of a core, the tab {tab} %.
- **Restart of the broker.** It was killed, and started again {DOWN_S:.0f} s later. Nobody touched
  the page; it drew a result {figures.healed_s:.1f} s after the new broker acknowledged it.

"""


def _spread(seconds: Sequence[float] | np.ndarray) -> list[str]:
    return [f"{one:.2f}" for one in np.percentile(seconds, [50, 95, 100])]


def _mega(size: int) -> str:
    return f"{size / MEGA:.0f} MiB"


def main() -> int:
    """Measure, and write the section."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=700)
    parser.add_argument("--minutes", type=float, default=6.0, help="length of the hour")
    parser.add_argument("--dry-run", action="store_true", help="print the section only")
    options, machine = parser.parse_args(), Machine(BY_CLOCK)
    with brokers.OPENERS["kafka"]() as broker, tempfile.TemporaryDirectory() as folder:
        found = measure(broker, Path(folder), options.windows, options.minutes)
    print(section(found, ""), flush=True)
    if not options.dry_run:
        write_section("measured/view.md", "view_browser", section(found, machine.stamp()))
    own = np.median(found.first["flow"][1]) - np.median(found.first[BLANK][1])
    late = own > FIRST_S or np.median(found.new) > NEW_S
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main())
