"""The live page and a browser for benchmarks, on streams that the commands made."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from tests.testbed.brokers import wait_until

PATIENCE_S = 900.0
STOP_S = 20
COMMAND = (sys.executable, "-P", "-m", "stream_icd.commands.cli")


def produced(
    settings: KafkaSettings,
    folder: Path,
    producers: Sequence[Sequence[str]],
    model: str = "default",
) -> int:
    """Run each `stream-icd produce` to its end, and a detector until all results are there.

    Returns the number of results.
    """
    create_topics(settings)
    for at, arguments in enumerate(producers):
        log = folder / f"produce{at}.log"
        if _started(settings, log, "produce", *arguments).wait(PATIENCE_S):
            raise RuntimeError(tail(log))
    sent = count(settings, SNAPSHOTS)
    log = folder / "detect.log"
    detector = _started(settings, log, "consume", "detect", "--model", model)
    try:
        wait_until(lambda: count(settings, COMMUNITIES) >= sent, PATIENCE_S)
    finally:
        stop_children([detector], STOP_S)
    return sent


def count(settings: KafkaSettings, topic: str) -> int:
    """The number of records that a topic holds."""
    with open_reader(settings, topic, "beginning", "end") as records:
        return sum(1 for _ in records)


@contextlib.contextmanager
def page_of(
    settings: KafkaSettings, folder: Path, *arguments: str
) -> Iterator[tuple[str, psutil.Process]]:
    """Serve the page with `stream-icd view`; give its address and its process."""
    port = free_port()
    log = folder / "view.log"
    child = _started(settings, log, "view", "--port", str(port), *arguments)
    try:
        wait_until(lambda: answers(port), PATIENCE_S)
        yield f"http://127.0.0.1:{port}/", psutil.Process(child.pid)
    finally:
        stop_children([child], STOP_S)
        if child.returncode:
            print(tail(log), file=sys.stderr)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Open Chromium: that of `STREAM_ICD_TEST_CHROMIUM`, or the one on the PATH."""
    from playwright.sync_api import sync_playwright  # only these benchmarks need it

    path = os.environ.get("STREAM_ICD_TEST_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def get(port: int, path: str) -> bytes:
    """The body of an answer, as it is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    body = connection.getresponse().read()
    connection.close()
    return body


def answers(port: int) -> bool:
    """Whether the page is served there."""
    try:
        return bool(get(port, "/api/overview"))
    except OSError:
        return False


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _started(settings: KafkaSettings, log: Path, *arguments: str) -> Any:
    environment = {**os.environ, "STREAM_ICD_BOOTSTRAP_SERVERS": settings.bootstrap_servers}
    return start_child((*COMMAND, *arguments), log, env=environment)
