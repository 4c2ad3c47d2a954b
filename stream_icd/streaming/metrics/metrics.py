"""Prometheus metrics and health of a worker, based on what was published and committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from stream_icd.core.communities import ENCODER_STAGES, STAGES, EvidenceStrength, MemoryUse
from stream_icd.core.errors import ModelError
from stream_icd.core.printable import shortened
from stream_icd.kafka.delivery.handler import BatchDone, Watcher
from stream_icd.kafka.messages.records import graph_name, is_of
from stream_icd.kafka.port import is_dead_letter_topic
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.waiting import Outage
from stream_icd.streaming.dead_letters.letters import possible, split_headers
from stream_icd.streaming.execution.processes import InHand

_GRACE_S = 10.0
"""A job is ended at its time limit; it exceeds the limit by this only if ending it fails."""

_MOST_GRAPHS = 100
"""Maximum number of graphs with their own time series; later graphs share `_OTHER`."""

_OTHER = "other"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_AGES = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600)

_PUBLISH = "publish"
"""The stage after processing: results are published, offsets committed."""


class _LastPoll(NamedTuple):
    """The last poll of the loop on one topic; see `Watcher.polled`."""

    at: float  # on the clock; before the first poll, when the loop started
    generation: int | None
    silence_s: float


@dataclass(slots=True)
class _Health:
    """Liveness and readiness of a worker, for Kubernetes and compose, by the polls of its loops."""

    max_poll_interval_s: float
    session_timeout_s: float
    clock: Callable[[], float]
    start: Outage
    last_polls: dict[str, _LastPoll] = field(default_factory=dict)  # by topic
    in_hand: Callable[[], Sequence[InHand]] = tuple  # returns the jobs in progress

    def polled(self, topic: str, generation: int | None = None, silence_s: float = 0.0) -> None:
        """Note a poll of the loop on this topic; the first time, before it begins."""
        self.last_polls[topic] = _LastPoll(self.clock(), generation, silence_s)

    def not_alive(self) -> list[str]:
        """Return why this process should be restarted; empty if it should not."""
        hanging = [
            f"{topic}: has not polled for {since:.0f} s, the limit is {self.max_poll_interval_s:g}"
            for topic, last in self.last_polls.items()
            if (since := self.clock() - last.at) > self.max_poll_interval_s
        ]
        return hanging + [
            str(job) for job in self.in_hand() if job.seconds > job.allowed_seconds + _GRACE_S
        ]

    def not_ready(self) -> list[str]:
        """Return why no results can be expected of it now; empty if they can."""
        if (away_s := self.start.seconds) is not None:
            return [f"starting: the broker has not answered for {away_s:.0f} s"]
        if not self.last_polls:
            return ["starting: opening the model and warming up"]
        missing = []
        for topic, last in self.last_polls.items():
            # A loop that polls no more hears nothing, either.
            silence_s = last.silence_s + self.clock() - last.at
            if silence_s > self.session_timeout_s:
                missing.append(f"{topic}: the broker has not answered for {silence_s:.0f} s")
            elif last.generation is None:
                missing.append(f"{topic}: not a settled member of its group")
        return missing

    def in_hand_lines(self) -> list[str]:
        return [str(job) for job in self.in_hand()]


class Metrics:
    """All metrics of this process, and its health; `watch` returns the watcher of a loop.

    Only committed work is counted, so repeated work is counted once. Each counter whose labels are
    known begins at 0 (`watch`): an alert sees a count that changes, not one that appears.
    """

    def __init__(
        self,
        max_poll_interval_s: float,  # without a poll for this long, a loop hangs, or was removed
        session_timeout_s: float,  # without an answer for this long, the broker is unavailable
        start: Outage | None = None,  # of the broker, while the worker starts
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        health = _Health(max_poll_interval_s, session_timeout_s, clock, start or Outage())
        self.registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.health = health
        self.now = now
        self.results = _ResultMetrics(registry)
        self._graphs: set[str] = set()
        self.snapshots = counter(
            "stream_icd_snapshots",
            "Snapshots of the topic processed: their results are published and committed.",
            ("group", "topic", "graph"),
        )
        self.dead_letters = counter(
            "stream_icd_dead_letters",
            "Dead letters of the topic, by stage and exception.",
            ("group", "topic", "stage", "exception"),
        )
        self.skipped = counter(
            "stream_icd_skipped",
            "Records of the topic skipped because they are of other graphs than --graph.",
            ("group", "topic"),
        )
        self._memory_bytes = gauge("stream_icd_memory_bytes", "Memory of graphs in RAM, encoded.")
        self._memory_restored = gauge(
            "stream_icd_memory_restored_graphs",
            "Graphs whose memory was read from the memory topic since the start.",
        )
        self.age_seconds = histogram(
            "stream_icd_age_seconds",
            "Seconds from Kafka's receipt of a record to the commit of its result.",
            ("group", "topic"),
            buckets=_AGES,
        )
        self.lag = gauge(
            "stream_icd_lag_records",
            "Records of an assigned partition that wait or are being processed.",
            ("group", "topic", "partition"),
        )
        self.rebalances = counter(
            "stream_icd_rebalances",
            "Rebalances of the group since this worker joined it.",
            ("group", "topic"),
        )
        self._processes = gauge("stream_icd_processes", "Worker processes that run.")
        self._processes_memory = gauge(
            "stream_icd_processes_resident_memory_bytes",
            "Resident memory of all worker processes, in bytes.",
        )
        self._in_hand = gauge(
            "stream_icd_in_hand_seconds",
            "Seconds since the start of the snapshot that is taking longest; 0 if there is none.",
        )
        self._model: Info | None = None
        self.swaps = counter("stream_icd_model_swaps", "Changes of the model since the start.")
        self.refused_models = counter(
            "stream_icd_models_refused",
            "Champions that could not be used, by exception; the model before stays.",
            ("exception",),
        )
        self._ready = gauge(
            "stream_icd_ready",
            "1 if results can be expected of this worker, as /readyz says; or 0.",
        )
        self._ready.set_function(lambda: not (health.not_alive() or health.not_ready()))
        ProcessCollector(registry=registry)

    def model(self, version: str, group: str) -> None:
        """Report the version of the model in use. Workers without a model have no such series."""
        if self._model is None:
            self._model = Info(
                "stream_icd_model",
                "The model version of the published results.",
                registry=self.registry,
            )
        self._model.info({"group": group, "version": version})

    def follows_champion(self, in_use: Callable[[], bool]) -> None:
        """Set the function that returns whether the registry's champion is the model in use."""
        for kind in ModelError.kinds():
            self.refused_models.labels(kind.__name__)
        gauge = Gauge(
            "stream_icd_champion_in_use",
            "1 if the registry's champion is the model in use, 0 if not (yet).",
            registry=self.registry,
        )
        gauge.set_function(lambda: float(in_use()))

    def processes(self, count: Callable[[], int], resident_bytes: Callable[[], int]) -> None:
        """Set the functions that return the number of worker processes and their memory."""
        self._processes.set_function(count)
        self._processes_memory.set_function(resident_bytes)

    def memory(self, n_bytes: Callable[[], int], n_restored: Callable[[], int]) -> None:
        """Set the functions that return the memory in RAM, and how many graphs were restored."""
        self._memory_bytes.set_function(n_bytes)
        self._memory_restored.set_function(n_restored)

    def in_hand(self, jobs: Callable[[], Sequence[InHand]]) -> None:
        """Set the function that returns the jobs being processed."""
        self.health.in_hand = jobs
        self._in_hand.set_function(lambda: max((job.seconds for job in jobs()), default=0.0))

    def graph(self, key: bytes | None) -> str:
        """The label for a graph: its name, or `other` when there are too many."""
        name = shortened(key or b"")
        if name not in self._graphs and len(self._graphs) >= _MOST_GRAPHS:
            return _OTHER
        self._graphs.add(name)
        return name

    def watch(
        self, topic: str, group: str, graph: str | None = None, stages: Sequence[str] = ("decode",)
    ) -> _Loop:
        """Return the watcher for the consumer of `topic` in `group`; begin its counters at 0.

        Args:
            graph: the only graph whose records are processed; None: all.
            stages: those in which the step of this topic refuses records.
        """
        self.health.polled(topic)
        for counter in (self.skipped, self.rebalances, self.age_seconds):
            counter.labels(group, topic)
        for stage, exception in possible(stages):
            self.dead_letters.labels(group, topic, stage, exception)
        if graph is not None:
            self.snapshots.labels(group, topic, self.graph(graph.encode()))
        return _Loop(self, topic, group, None if graph is None else graph.encode())


class _ResultMetrics:
    """What published results say of themselves, in their headers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        self._evidence = counter(
            "stream_icd_evidence",
            "Results published, by how sure it is that the snapshot has communities.",
            ("evidence",),
        )
        self._memory_use = counter(
            "stream_icd_memory",
            "Results published, by what memory of earlier windows contributed.",
            ("memory",),
        )
        self._horizon = gauge(
            "stream_icd_horizon_windows",
            "How many windows the memory of the graph's last result is worth.",
            ("graph",),
        )
        self._predicted_bits = gauge(
            "stream_icd_predicted_bits",
            "Bits per edge that the communities known before saved on the last new edges.",
            ("graph",),
        )
        self._stage_seconds = Histogram(
            "stream_icd_stage_seconds",
            "Seconds in each stage of a snapshot; publish: of a batch, with its commit.",
            ("stage",),
            buckets=_SECONDS,
            registry=registry,
        )
        for strength in get_args(EvidenceStrength):
            self._evidence.labels(strength)
        for use in get_args(MemoryUse):
            self._memory_use.labels(use)
        self._stage_seconds.labels(_PUBLISH)

    def count(self, result: OutgoingRecord, label: Callable[[bytes | None], str]) -> None:
        """Count a result; how far back it looks only if its graph has series of its own."""
        headers = dict(result.headers)
        if evidence := headers.get("icd_evidence"):
            self._evidence.labels(evidence.decode()).inc()
        if memory := headers.get("icd_memory"):
            self._memory_use.labels(memory.decode()).inc()
        for gauge, header in (
            (self._horizon, "icd_horizon"),
            (self._predicted_bits, "icd_predicted_bits"),
        ):
            # A gauge of several graphs would jump from one to the other.
            if header in headers and (graph := label(result.key)) != _OTHER:
                gauge.labels(graph).set(float(headers[header]))
        for stage in STAGES:
            if (milliseconds := headers.get(f"icd_ms_{stage}")) is not None:
                seconds = float(milliseconds) / 1000
                # Without an encoder its stages take exactly 0: that is no measurement.
                if seconds > 0 or stage not in ENCODER_STAGES:
                    self._stage_seconds.labels(stage).observe(seconds)

    def published(self, seconds: float) -> None:
        """Note how long it took to publish and commit a batch."""
        self._stage_seconds.labels(_PUBLISH).observe(seconds)

    def leave(self) -> None:
        """Forget how far back graphs look: other workers may report it from now on."""
        self._horizon.clear()
        self._predicted_bits.clear()


@dataclass(slots=True, eq=False)
class _Loop(Watcher):
    """The watcher of one topic's consumer, which processes the graph with this key, or all."""

    metrics: Metrics
    topic: str
    group: str
    key: bytes | None
    _generation: int | None = None
    _partitions: set[int] = field(default_factory=set)

    def polled(self, generation: int | None, silence_s: float) -> None:
        self.metrics.health.polled(self.topic, generation, silence_s)
        if generation not in (None, self._generation):
            self._generation = generation
            self.metrics.rebalances.labels(self.group, self.topic).inc()
            self.metrics.results.leave()

    def lagged(self, lag: Mapping[int, int]) -> None:
        # Else a partition that another worker has now would wait here for ever.
        for partition in self._partitions - lag.keys():
            self.metrics.lag.remove(self.group, self.topic, str(partition))
        self._partitions = set(lag)
        for partition, records in lag.items():
            self.metrics.lag.labels(self.group, self.topic, str(partition)).set(records)

    def done(self, batch: BatchDone) -> None:
        letters, results = [], []
        for outgoing in batch.outgoing:
            # A dead letter has the headers of its record, which may be those of a result.
            if is_dead_letter_topic(outgoing.topic):
                letters.append(split_headers(outgoing.headers)[1])
            else:
                results.append(outgoing)
        failed = {(letter["icd_dlq_partition"], letter["icd_dlq_offset"]) for letter in letters}
        of_graph = [record for record in batch.records if is_of(record, self.key)]
        for record in of_graph:
            if (str(record.partition), str(record.offset)) not in failed:
                self._snapshot(record)
        self.metrics.skipped.labels(self.group, self.topic).inc(len(batch.records) - len(of_graph))
        for letter in letters:
            stage, exception = letter["icd_dlq_stage"], letter["icd_dlq_exception"]
            self.metrics.dead_letters.labels(self.group, self.topic, stage, exception).inc()
        for result in results:
            self.metrics.results.count(result, self.metrics.graph)
        self.metrics.results.published(batch.publish_seconds)

    def _snapshot(self, record: Record) -> None:
        self.metrics.snapshots.labels(
            self.group, self.topic, self.metrics.graph(graph_name(record))
        ).inc()
        if record.timestamp_ms >= 0:  # Kafka's -1: it has no timestamp
            age = self.metrics.now() - record.timestamp_ms / 1000
            self.metrics.age_seconds.labels(self.group, self.topic).observe(max(0.0, age))
