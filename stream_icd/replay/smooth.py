"""Detects the past with the windows before and after each one: smoothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import structlog

from stream_icd.detection.record import warm_up
from stream_icd.detection.settings import DetectSettings, result_version
from stream_icd.detection.snapshot import communities_with, remembered_labels
from stream_icd.errors import BadInput, BadMemory
from stream_icd.execution.budget import MessageAllowance
from stream_icd.execution.engines import Engine
from stream_icd.execution.relay import First, Relay, nothing
from stream_icd.memory.encoding import anew, decode_memory
from stream_icd.memory.memory import Memory
from stream_icd.memory.smoothing import detect_smoothed
from stream_icd.messages.outcome import Refused
from stream_icd.printable import printable
from stream_icd.registry.shipped import VersionedModel
from stream_icd.replay.redetect import Job, Outcome, chain_name
from stream_icd.snapshot import Snapshot
from stream_icd.wire.communities import encode_communities

PASSES = 2
"""Each window is detected twice: forward in time, and backward."""


@dataclass(frozen=True, slots=True)
class GraphJob:
    """All windows of an era of a graph, and the encoded memory before the first one."""

    jobs: tuple[Job, ...]
    memory: bytes | None

    @property
    def sent_bytes(self) -> int:
        """Size of all snapshots together, and of the memory."""
        return sum(job.sent_bytes for job in self.jobs) + len(self.memory or b"")


@dataclass(frozen=True, slots=True)
class Smoothing:
    """A model and its settings. Called with a graph, it returns the outcome of each window."""

    model: VersionedModel
    settings: DetectSettings

    @property
    def version(self) -> str:
        """The model version that results are published under."""
        return result_version(self.model, self.settings)

    def __call__(self, graph: GraphJob, _relay: Relay | None = None) -> tuple[Outcome, ...]:
        """Return the communities of each window, or why there are none."""
        snapshots: dict[int, Snapshot] = {}
        outcomes: dict[int, Outcome] = {}
        for at, job in enumerate(graph.jobs):
            try:
                snapshots[at] = _after(job.snapshot(), snapshots)
            except BadInput as error:
                outcomes[at] = Refused("decode", error)
        try:
            outcomes |= dict(zip(snapshots, self._smoothed(graph, snapshots), strict=True))
        except BadInput as error:
            outcomes |= dict.fromkeys(snapshots, Refused("detect", error))
        return tuple(outcome for _, outcome in sorted(outcomes.items()))

    def _smoothed(self, graph: GraphJob, snapshots: dict[int, Snapshot]) -> Iterator[Outcome]:
        settings, windows = self.settings, list(snapshots.values())
        given = [one.n_communities or settings.n_communities for one in windows]
        found = detect_smoothed(
            windows,
            self.model.model,
            _before(graph),
            [
                None if k is None else min(k, one.n_nodes)
                for k, one in zip(given, windows, strict=True)
            ],
            horizon=settings.horizon,
            seed=settings.seed,
        )
        for snapshot, one in zip(windows, found, strict=True):
            started = perf_counter()
            adjacency = snapshot.adjacency()
            labels = remembered_labels(one, "smoothed")
            labels.milliseconds["decode"] = 1000 * (perf_counter() - started)
            yield encode_communities(
                communities_with(labels, snapshot, adjacency, self.model, settings)
            )

    def chain(self, _graph: GraphJob) -> None:
        """Return None: graphs do not depend on each other."""

    def name(self, graph: GraphJob) -> str:
        """Return the graph's name for error messages."""
        return printable(f"graph {graph.jobs[0].graph}, {len(graph.jobs)} windows")

    def allowance(self, graph: GraphJob) -> MessageAllowance:
        """Return the resource limits for the graph: those of its windows together."""
        budget, sent = self.settings.budget, graph.sent_bytes
        seconds = sum(budget.allowance(job.sent_bytes).seconds for job in graph.jobs)
        return replace(budget.allowance(sent), seconds=PASSES * seconds)

    def instead(self, baton: bytes) -> bytes:
        """Return the baton: graphs do not depend on each other."""
        return baton

    def warm_up(self) -> None:
        """See `warm_up`."""
        warm_up(self.model, self.settings)


def _before(graph: GraphJob) -> Memory | None:
    """Return the memory before the first window; if it cannot be read, the graph starts anew."""
    if graph.memory is None:
        return None
    try:
        return decode_memory(graph.memory)
    except BadMemory as error:
        name = graph.jobs[0].graph
        structlog.get_logger().warning("memory cannot be used", job=name, reason=str(error))
        return decode_memory(anew(graph.memory))


@dataclass(frozen=True, slots=True)
class SmoothedGraphs:
    """An engine that detects all windows of a graph together.

    It yields the outcomes graph by graph.

    Attributes:
        engine: runs graphs, one after the other or several at a time.
    """

    engine: Engine[GraphJob, tuple[Outcome, ...] | Refused]

    def __call__(
        self, jobs: Iterable[Job], first: First = nothing, /
    ) -> Iterator[tuple[Job, Outcome]]:
        chains: dict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            chains[chain_name(job.graph, job.era)].append(job)
        graphs = (GraphJob(tuple(windows), first(chain)) for chain, windows in chains.items())
        for graph, outcomes in self.engine(graphs):
            if isinstance(outcomes, Refused):
                yield from ((job, outcomes) for job in graph.jobs)
            else:
                yield from zip(graph.jobs, outcomes, strict=True)


def _after(snapshot: Snapshot, before: dict[int, Snapshot]) -> Snapshot:
    """Check that a window is after those before it.

    Raises:
        BadInput: it is not.
    """
    last = next(reversed(before.values()), None)
    if last is not None and snapshot.window.end <= last.window.end:
        raise BadInput(
            f"its window does not end after that of {last.id}: with --smooth, windows of a graph "
            "follow each other. Replay it without --smooth"
        )
    return snapshot
