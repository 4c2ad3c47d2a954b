"""Prometheus metrics and health of a worker, and of a program that works in rounds.

A worker's are based on what was published and committed.
"""

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

MOST_GRAPHS = 100
"""Maximum number of graphs with their own time series; later graphs share `_OTHER`."""

_OTHER = "other"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_AGES = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600)

_PUBLISH = "publish"
"""The stage after processing: results are published, offsets committed."""


class _LastPoll(NamedTuple):
    """The last poll of the loop on one topic, and what `Watcher.polled` was told then."""

    at: float  # on the clock; before the first poll, when the loop started
    generation: int | None
    silence_s: float


@dataclass(slots=True)
class Health:
    """Liveness and readiness of a worker, for Kubernetes and compose, by the polls of its loops."""

    max_poll_interval_s: float  # without a poll for this long, a loop hangs, or was removed
    session_timeout_s: float  # without an answer for this long, the broker is unavailable
    clock: Callable[[], float] = time.monotonic
    last_polls: dict[str, _LastPoll] = field(default_factory=dict)  # by topic
    in_hand: Callable[[], Sequence[InHand]] = tuple  # returns the jobs in progress
    start: Outage = field(default_factory=Outage)  # of the broker, while the worker starts

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
            silence_s = last.silence_s + self.clock() - last.at
            if silence_s > self.session_timeout_s:
                missing.append(f"{topic}: the broker has not answered for {silence_s:.0f} s")
            elif last.generation is None:
                missing.append(f"{topic}: not a settled member of its group")
        return missing

    def in_hand_lines(self) -> list[str]:
        return [str(job) for job in self.in_hand()]


class Metrics:
    """All metrics of this process; `watch` returns the watcher of a consumer's loop.

    Only committed work is counted, so repeated work is counted once. Each counter whose labels are
    known begins at 0 (`watch`): an alert sees a count that changes, not one that appears.
    """

    def __init__(self, health: Health, now: Callable[[], float] = time.time) -> None:
        self.registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.health = health
        self.now = now
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
        self.evidence = counter(
            "stream_icd_evidence",
            "Results published, by how sure it is that the snapshot has communities.",
            ("evidence",),
        )
        self.memory_use = counter(
            "stream_icd_memory",
            "Results published, by what memory of earlier windows contributed.",
            ("memory",),
        )
        self.horizon = gauge(
            "stream_icd_horizon_windows",
            "How many windows the memory of the graph's last result is worth.",
            ("graph",),
        )
        self.predicted_bits = gauge(
            "stream_icd_predicted_bits",
            "Bits per edge that the communities known before saved on the last new edges.",
            ("graph",),
        )
        self._memory_bytes = gauge("stream_icd_memory_bytes", "Memory of graphs in RAM, encoded.")
        self._memory_restored = gauge(
            "stream_icd_memory_restored_graphs",
            "Graphs whose memory was read from the memory topic since the start.",
        )
        self.stage_seconds = histogram(
            "stream_icd_stage_seconds",
            "Seconds in each stage of a snapshot; publish: of a batch, with its commit.",
            ("stage",),
            buckets=_SECONDS,
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
        for strength in get_args(EvidenceStrength):
            self.evidence.labels(strength)
        for use in get_args(MemoryUse):
            self.memory_use.labels(use)
        self.stage_seconds.labels(_PUBLISH)

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
        if name not in self._graphs and len(self._graphs) >= MOST_GRAPHS:
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
            # How far back graphs look: others may report it from now on.
            self.metrics.horizon.clear()
            self.metrics.predicted_bits.clear()

    def lagged(self, lag: Mapping[int, int]) -> None:
        for partition in self._partitions - lag.keys():
            self.metrics.lag.remove(self.group, self.topic, str(partition))
        self._partitions = set(lag)
        for partition, records in lag.items():
            self.metrics.lag.labels(self.group, self.topic, str(partition)).set(records)

    def done(self, batch: BatchDone) -> None:
        letters, results = [], []
        for outgoing in batch.outgoing:
            if is_dead_letter_topic(outgoing.topic):
                letters.append(split_headers(outgoing.headers)[1])
            else:
                results.append(outgoing)
        failed = {(said["icd_dlq_partition"], said["icd_dlq_offset"]) for said in letters}
        ours = [record for record in batch.records if is_of(record, self.key)]
        for record in ours:
            if (str(record.partition), str(record.offset)) not in failed:
                self._snapshot(record)
        self.metrics.skipped.labels(self.group, self.topic).inc(len(batch.records) - len(ours))
        for said in letters:
            stage, exception = said["icd_dlq_stage"], said["icd_dlq_exception"]
            self.metrics.dead_letters.labels(self.group, self.topic, stage, exception).inc()
        for result in results:
            self._result(result)
        self.metrics.stage_seconds.labels(_PUBLISH).observe(batch.publish_seconds)

    def _snapshot(self, record: Record) -> None:
        self.metrics.snapshots.labels(
            self.group, self.topic, self.metrics.graph(graph_name(record))
        ).inc()
        if record.timestamp_ms >= 0:
            age = self.metrics.now() - record.timestamp_ms / 1000
            self.metrics.age_seconds.labels(self.group, self.topic).observe(max(0.0, age))

    def _result(self, result: OutgoingRecord) -> None:
        """Count a result, by its headers; how far back it looks only by graphs of their own."""
        metrics, said = self.metrics, dict(result.headers)
        if evidence := said.get("icd_evidence"):
            metrics.evidence.labels(evidence.decode()).inc()
        if memory := said.get("icd_memory"):
            metrics.memory_use.labels(memory.decode()).inc()
        for gauge, header in (
            (metrics.horizon, "icd_horizon"),
            (metrics.predicted_bits, "icd_predicted_bits"),
        ):
            if header in said and (graph := metrics.graph(result.key)) != _OTHER:
                gauge.labels(graph).set(float(said[header]))
        for stage in STAGES:
            if (milliseconds := said.get(f"icd_ms_{stage}")) is not None:
                seconds = float(milliseconds) / 1000
                if seconds > 0 or stage not in ENCODER_STAGES:
                    metrics.stage_seconds.labels(stage).observe(seconds)


_ROUND_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 4 * 3600)

_UNAVAILABLE = "unavailable"
"""Outcome of a round without a decision: registry or archive did not answer."""


@dataclass(slots=True)
class RoundsHealth:
    """Is the program alive, and do its rounds end?"""

    limit_s: float  # no step takes longer, nor the wait between two rounds
    clock: Callable[[], float] = time.monotonic
    step: str = ""  # what it does since `since`; empty between two rounds
    since: float = field(init=False)
    trouble: str | None = None  # why the last round decided nothing; None before the first one

    def __post_init__(self) -> None:
        self.since = self.clock()

    def begin(self, step: str) -> None:
        """Note the step that begins; an empty name is the wait between rounds."""
        self.step, self.since = step, self.clock()

    def not_alive(self) -> list[str]:
        """Return why this process should be restarted; empty if it should not."""
        seconds = self.clock() - self.since
        if seconds <= self.limit_s:
            return []
        step = self.step or "the wait for the next round"
        return [f"{step} has taken {seconds:.0f} s, the limit is {self.limit_s:g}"]

    def not_ready(self) -> list[str]:
        """Return why its rounds decide nothing now; empty if they do."""
        if self.trouble is None:
            return ["starting: the first round has not ended"]
        return [self.trouble] if self.trouble else []

    def in_hand_lines(self) -> list[str]:
        return [f"{self.step}: {self.clock() - self.since:.0f} s"] if self.step else []


class RoundsMetrics:
    """Numbers of all rounds; the counters of the outcomes that they may have begin at 0."""

    def __init__(
        self, health: RoundsHealth, outcomes: Sequence[str], now: Callable[[], float] = time.time
    ) -> None:
        self.registry = registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.health = health
        self._now = now
        self._rounds = counter(
            "stream_icd_retrain_rounds",
            "Rounds of retraining that have ended, by what they decided.",
            ("outcome",),
        )
        self._step_seconds = histogram(
            "stream_icd_retrain_step_seconds",
            "Seconds in each step of a round.",
            ("step",),
            buckets=_ROUND_SECONDS,
        )
        self._decided_at = gauge(
            "stream_icd_retrain_decided_timestamp_seconds",
            "When the last round ended with a decision, in seconds since 1970.",
        )
        self._windows = gauge(
            "stream_icd_retrain_windows", "Archived windows that the last round looked at."
        )
        self._in_hand = gauge(
            "stream_icd_retrain_in_hand_seconds",
            "Seconds since the present step of a round began; 0 between rounds.",
        )
        self._in_hand.set_function(lambda: health.clock() - health.since if health.step else 0.0)
        self._champion = Info(
            "stream_icd_retrain_champion", "The champion after the last round.", registry=registry
        )
        ProcessCollector(registry=registry)
        for outcome in (*outcomes, _UNAVAILABLE):
            self._rounds.labels(outcome)

    def took(self, step: str, seconds: float) -> None:
        self._step_seconds.labels(step).observe(seconds)

    def decided(self, outcome: str, windows: int, champion: str) -> None:
        """Count a round that ended with a decision."""
        self._rounds.labels(outcome).inc()
        self._decided_at.set(self._now())
        self._windows.set(windows)
        self._champion.info({"version": champion})
        self.health.trouble = ""

    def unavailable(self, why: str) -> None:
        """Count a round that ended without one."""
        self._rounds.labels(_UNAVAILABLE).inc()
        self.health.trouble = why
