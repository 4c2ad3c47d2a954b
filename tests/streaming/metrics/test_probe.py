"""What the image's HEALTHCHECK says of a worker."""

from __future__ import annotations

import socket

import pytest

from stream_icd.streaming.metrics import probe
from stream_icd.streaming.metrics.metrics import Health, Metrics
from stream_icd.streaming.metrics.server import serving


def test_it_says_what_the_worker_says() -> None:
    now = 0.0
    metrics = Metrics(Health(300.0, 10.0, clock=lambda: now))
    metrics.watch("t", "g")
    with serving(metrics, port=0) as port:
        assert probe.complaint(port) is None
        now = 301.0
        assert "has not polled for 301 s" in (probe.complaint(port) or "")


def test_a_program_that_serves_no_metrics_is_not_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    assert probe.complaint(free) is None


def test_a_worker_that_listens_and_says_nothing_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "does not answer" in (probe.complaint(silent.getsockname()[1]) or "")
