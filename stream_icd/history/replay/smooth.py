"""Smooths the past: all windows of a graph are detected together, forward in time and backward."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from stream_icd.core.errors import BadInput
from stream_icd.core.printable import printable
from stream_icd.core.snapshot import Snapshot
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.kafka.messages.records import Refused
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.streaming.detection.detect import stage_ms
from stream_icd.streaming.detection.record import Detection, warn_of_k
from stream_icd.streaming.detection.snapshot import communities_with
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import Engine, First, Relay
from stream_icd.wire.communities import encode_communities

_GraphJobs = tuple[ReplayJob, ...]
"""All windows of an era of a graph, in order."""

_OfGraphs = Engine[_GraphJobs, tuple[ReplayOutcome, ...] | Refused]

_PASSES = 2  # over the windows of a graph: forward in time, and backward


def smoothing_engine(
    redetection: Redetection, run: Callable[[_Smoothing], _OfGraphs]
) -> Engine[ReplayJob, ReplayOutcome]:
    """Return an engine that detects all windows of a graph together, and yields graph by graph.

    `run` makes the engine that works on a graph at a time.
    """
    of_graphs = run(_Smoothing(redetection.model, redetection.settings))

    def smoothed(
        jobs: Iterable[ReplayJob], first: First = Relay.empty, /
    ) -> Iterator[tuple[ReplayJob, ReplayOutcome]]:
        chains: dict[str, list[ReplayJob]] = defaultdict(list)
        for job in jobs:
            chains[job.chain].append(job)
        for graph, outcomes in of_graphs(map(tuple, chains.values()), first):
            if isinstance(outcomes, Refused):
                outcomes = (outcomes,) * len(graph)
            yield from zip(graph, outcomes, strict=True)

    return smoothed


@dataclass(frozen=True, slots=True)
class _Smoothing(Detection):
    """The work on a graph: it returns the outcome of each window."""

    def __call__(self, graph: _GraphJobs, relay: Relay | None = None) -> tuple[ReplayOutcome, ...]:
        encoded = None if relay is None else relay.memory
        memory = None if encoded is None else decode_memory(encoded)
        snapshots: dict[int, Snapshot] = {}
        outcomes: dict[int, ReplayOutcome] = {}
        for at, job in enumerate(graph):
            try:
                snapshots[at] = _after(job.snapshot(), snapshots)
            except BadInput as error:
                outcomes[at] = Refused("decode", error)
        try:
            smoothed = self._smoothed(list(snapshots.values()), memory)
            outcomes |= dict(zip(snapshots, smoothed, strict=True))
        except BadInput as error:
            # All of them: each was to be found with the others.
            outcomes |= dict.fromkeys(snapshots, Refused("detect", error))
        return tuple(outcome for _, outcome in sorted(outcomes.items()))

    def _smoothed(
        self, windows: Sequence[Snapshot], memory: Memory | None
    ) -> Iterator[ReplayOutcome]:
        settings = self.settings
        ks = (window.n_communities or settings.n_communities for window in windows)
        most = (window.n_nodes for window in windows)
        smoothed = detect_smoothed(
            windows,
            self.model.model,
            memory,
            [None if k is None else min(k, n) for k, n in zip(ks, most, strict=True)],
            horizon=settings.horizon,
            seed=settings.seed,
        )
        small_graphs: set[str] = set()
        for snapshot, result in zip(windows, smoothed, strict=True):
            started = perf_counter()
            adjacency = snapshot.adjacency()
            decode_ms = 1000 * (perf_counter() - started)
            communities = communities_with(
                result.communities,
                {**stage_ms(result.milliseconds), "decode": decode_ms},
                snapshot,
                adjacency,
                self.model,
                settings,
                remembered=(result, "smoothed"),
            )
            warn_of_k(communities.graph, communities.k_above_nodes, small_graphs)
            yield encode_communities(communities)

    def chain(self, graph: _GraphJobs) -> str:
        """Return the era, whose first window needs the memory before it."""
        return graph[0].chain

    def name(self, graph: _GraphJobs) -> str:
        return printable(f"graph {graph[0].graph}, {len(graph)} windows")

    def allowance(self, graph: _GraphJobs) -> Allowance:
        budget, sent = self.settings.budget, [job.sent_bytes for job in graph]
        seconds = _PASSES * sum(budget.allowance(of_job).seconds for of_job in sent)
        return replace(budget.allowance(sum(sent)), seconds=seconds)


def _after(snapshot: Snapshot, before: dict[int, Snapshot]) -> Snapshot:
    """Return a window if it is after those before it; else raise `BadInput`."""
    last = next(reversed(before.values()), None)
    if last is not None and snapshot.window.end <= last.window.end:
        raise BadInput(
            f"its window does not end after that of {last.id}: with --smooth, windows of a graph "
            "follow each other. Replay it without --smooth"
        )
    return snapshot
