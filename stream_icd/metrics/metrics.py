"""Prometheus metrics of a worker, based on what was published and committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

from stream_icd.communities import ENCODER_STAGES, STAGES, EvidenceStrength, MemoryUse
from stream_icd.dead_letters.letters import possible, split_headers
from stream_icd.errors import ModelError, kinds_of
from stream_icd.execution.processes import InHand
from stream_icd.kafka.delivery.handler import BatchDone, Watcher
from stream_icd.kafka.port import is_dead_letter_topic
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.metrics.health import Health
from stream_icd.printable import shortened

MOST_GRAPHS = 100
"""Maximum number of graphs with their own time series; later graphs share `OTHER`."""

OTHER = "other"

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
AGES = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600)

PUBLISH = "publish"
"""The stage after processing: results are published, offsets committed."""


class Metrics:
    """All metrics of this process; `watch` returns the watcher of a consumer's loop.

    Only committed work is counted, so repeated work is counted once. Each counter whose labels are
    known begins at 0 (`watch`): an alert sees a count that changes, not one that appears.

    Args:
        now: seconds since 1970, for the age of results.
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
            ("topic", "graph"),
        )
        self.dead_letters = counter(
            "stream_icd_dead_letters",
            "Dead letters of the topic, by stage and exception.",
            ("topic", "stage", "exception"),
        )
        self.skipped = counter(
            "stream_icd_skipped",
            "Records of the topic skipped because they are of other graphs than --graph.",
            ("topic",),
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
            buckets=SECONDS,
        )
        self.age_seconds = histogram(
            "stream_icd_age_seconds",
            "Seconds from Kafka's receipt of a record to the commit of its result.",
            ("topic",),
            buckets=AGES,
        )
        self.lag = gauge(
            "stream_icd_lag_records",
            "Records of an assigned partition that wait or are being processed.",
            ("topic", "partition"),
        )
        self.rebalances = counter(
            "stream_icd_rebalances",
            "Rebalances of the group since this worker joined it.",
            ("topic",),
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
        ProcessCollector(registry=registry)
        for strength in get_args(EvidenceStrength):
            self.evidence.labels(strength)
        for use in get_args(MemoryUse):
            self.memory_use.labels(use)
        self.stage_seconds.labels(PUBLISH)

    def model(self, version: str) -> None:
        """Report the version of the model in use. Workers without a model have no such series."""
        if self._model is None:
            self._model = Info(
                "stream_icd_model",
                "The model version of the published results.",
                registry=self.registry,
            )
        self._model.info({"version": version})

    def follows_champion(self, in_use: Callable[[], bool]) -> None:
        """Set the function that returns whether the registry's champion is the model in use."""
        for kind in kinds_of(ModelError):
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
            return OTHER
        self._graphs.add(name)
        return name

    def look_back(self, result: OutgoingRecord) -> None:
        """Report how far back a result looks; not of graphs that are counted as `other`."""
        for gauge, header in (
            (self.horizon, "icd_horizon"),
            (self.predicted_bits, "icd_predicted_bits"),
        ):
            number = _said(result, header)
            if number is not None and (graph := self.graph(result.key)) != OTHER:
                gauge.labels(graph).set(float(number))

    def forget_graphs(self) -> None:
        """Stop reporting how far back graphs look: after a rebalance, others may report them."""
        self.horizon.clear()
        self.predicted_bits.clear()

    def watch(
        self, topic: str, graph: str | None = None, stages: Sequence[str] = ("decode",)
    ) -> Loop:
        """Return the watcher for the consumer of `topic`; begin its counters at 0.

        Args:
            graph: the only graph whose records are processed; None: all.
            stages: those in which the step of this topic refuses records.
        """
        self.health.expect(topic)
        for counter in (self.skipped, self.rebalances, self.age_seconds):
            counter.labels(topic)
        for stage, exception in possible(stages):
            self.dead_letters.labels(topic, stage, exception)
        if graph is not None:
            self.snapshots.labels(topic, self.graph(graph.encode()))
        return Loop(self, topic, None if graph is None else graph.encode())


class Loop(Watcher):
    """The watcher of one topic's consumer."""

    def __init__(self, metrics: Metrics, topic: str, key: bytes | None) -> None:
        self._metrics = metrics
        self._topic = topic
        self._key = key
        self._generation: int | None = None
        self._partitions: set[int] = set()

    def polled(self, generation: int | None, silence_s: float) -> None:
        """Note a poll of the loop."""
        self._metrics.health.polled(self._topic, generation, silence_s)
        if generation not in (None, self._generation):
            self._generation = generation
            self._metrics.rebalances.labels(self._topic).inc()
            self._metrics.forget_graphs()

    def lagged(self, lag: Mapping[int, int]) -> None:
        """Set the number of waiting records."""
        for partition in self._partitions - lag.keys():
            self._metrics.lag.remove(self._topic, str(partition))
        self._partitions = set(lag)
        for partition, records in lag.items():
            self._metrics.lag.labels(self._topic, str(partition)).set(records)

    def done(self, batch: BatchDone) -> None:
        """Count a published and committed batch."""
        dead = [letter for one in batch.outgoing if (letter := _dead_letter(one))]
        dead_lettered = {letter.place for letter in dead}
        ours = [one for one in batch.records if self._key is None or one.key == self._key]
        for record in ours:
            if _place(record) not in dead_lettered:
                self._snapshot(record)
        self._metrics.skipped.labels(self._topic).inc(len(batch.records) - len(ours))
        for letter in dead:
            self._metrics.dead_letters.labels(self._topic, letter.stage, letter.exception).inc()
        for one in batch.outgoing:
            if evidence := _said(one, "icd_evidence"):
                self._metrics.evidence.labels(evidence).inc()
            if memory := _said(one, "icd_memory"):
                self._metrics.memory_use.labels(memory).inc()
            self._metrics.look_back(one)
            for stage, seconds in _stage_seconds(one).items():
                self._metrics.stage_seconds.labels(stage).observe(seconds)
        self._metrics.stage_seconds.labels(PUBLISH).observe(batch.publish_seconds)

    def _snapshot(self, record: Record) -> None:
        self._metrics.snapshots.labels(self._topic, self._metrics.graph(record.key)).inc()
        if record.timestamp_ms >= 0:
            age = self._metrics.now() - record.timestamp_ms / 1000
            self._metrics.age_seconds.labels(self._topic).observe(max(0.0, age))


@dataclass(frozen=True, slots=True)
class _DeadLetter:
    place: tuple[str, str]
    stage: str
    exception: str


def _place(record: Record) -> tuple[str, str]:
    return str(record.partition), str(record.offset)


def _dead_letter(one: OutgoingRecord) -> _DeadLetter | None:
    if not is_dead_letter_topic(one.topic):
        return None
    said = split_headers(one.headers)[1]
    return _DeadLetter(
        (said["icd_dlq_partition"], said["icd_dlq_offset"]),
        said["icd_dlq_stage"],
        said["icd_dlq_exception"],
    )


def _said(one: OutgoingRecord, header: str) -> str | None:
    """Return a header of a result; those of a dead letter are not trusted."""
    if is_dead_letter_topic(one.topic):
        return None
    said = dict(one.headers).get(header)
    return None if said is None else said.decode()


def _stage_seconds(one: OutgoingRecord) -> dict[str, float]:
    """Return the times of the stages that a result went through.

    Those of a dead letter are not trusted.
    """
    said = {} if is_dead_letter_topic(one.topic) else dict(one.headers)
    named = {stage: said.get(f"icd_ms_{stage}") for stage in STAGES}
    seconds = {stage: float(value) / 1000 for stage, value in named.items() if value is not None}
    return {stage: s for stage, s in seconds.items() if s > 0 or stage not in ENCODER_STAGES}
