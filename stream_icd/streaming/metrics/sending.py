"""Prometheus metrics and health of a producer: whether it waits for its broker."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

from stream_icd.kafka.waiting import Outage


@dataclass(frozen=True, slots=True)
class _SendingHealth:
    """Readiness of a producer: it is ready while the broker takes what it sends."""

    outage: Outage

    def not_alive(self) -> list[str]:
        """Return why this process should be restarted: never, since it waits."""
        return []

    def not_ready(self) -> list[str]:
        """Return why it sends nothing now; empty if it does."""
        if (away_s := self.outage.seconds) is None:
            return []
        return [f"the broker has not answered for {away_s:.0f} s"]

    def in_hand_lines(self) -> list[str]:
        return []


class SendingMetrics:
    """The numbers of a producer that waits for its broker in this outage."""

    def __init__(self, outage: Outage) -> None:
        self.registry = registry = CollectorRegistry()
        self.health = health = _SendingHealth(outage)
        ready = Gauge(
            "stream_icd_ready", "1 if the broker takes what is sent; or 0.", registry=registry
        )
        ready.set_function(lambda: not health.not_ready())
        seconds = Gauge(
            "stream_icd_outage_seconds",
            "How long the broker has not answered; 0 if it answers.",
            registry=registry,
        )
        seconds.set_function(lambda: outage.seconds or 0.0)
        ProcessCollector(registry=registry)
