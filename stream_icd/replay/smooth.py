"""Detects the past with the windows before and after each one: smoothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from stream_icd.detection.detect import stage_ms
from stream_icd.detection.record import DetectSettings, warm_up
from stream_icd.detection.snapshot import communities_with
from stream_icd.errors import BadInput
from stream_icd.execution.budget import Allowance
from stream_icd.execution.work import Engine, First, Relay
from stream_icd.memory.encoding import decode_memory
from stream_icd.memory.memory import Memory
from stream_icd.memory.smoothing import detect_smoothed
from stream_icd.messages.records import Refused
from stream_icd.printable import printable
from stream_icd.registry.model import VersionedModel
from stream_icd.replay.redetect import Job, Outcome, chain_name
from stream_icd.snapshot import Snapshot
from stream_icd.wire.communities import encode_communities

PASSES = 2
"""Each window is detected twice: forward in time, and backward."""


Graph = tuple[Job, ...]
"""All windows of an era of a graph, in order."""


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The work on a graph: it returns the outcome of each window."""

    model: VersionedModel
    settings: DetectSettings

    def __call__(self, graph: Graph, relay: Relay | None = None) -> tuple[Outcome, ...]:
        baton = None if relay is None else relay.take()
        memory = None if baton is None else decode_memory(baton)
        snapshots: dict[int, Snapshot] = {}
        outcomes: dict[int, Outcome] = {}
        for at, job in enumerate(graph):
            try:
                snapshots[at] = _after(job.snapshot(), snapshots)
            except BadInput as error:
                outcomes[at] = Refused("decode", error)
        try:
            smoothed = self._smoothed(list(snapshots.values()), memory)
            outcomes |= dict(zip(snapshots, smoothed, strict=True))
        except BadInput as error:
            outcomes |= dict.fromkeys(snapshots, Refused("detect", error))
        return tuple(outcome for _, outcome in sorted(outcomes.items()))

    def _smoothed(self, windows: Sequence[Snapshot], memory: Memory | None) -> Iterator[Outcome]:
        settings = self.settings
        given = [window.n_communities or settings.n_communities for window in windows]
        found = detect_smoothed(
            windows,
            self.model.model,
            memory,
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
            decode_ms = 1000 * (perf_counter() - started)
            communities = communities_with(
                one.communities,
                {**stage_ms(one.milliseconds), "decode": decode_ms},
                snapshot,
                adjacency,
                self.model,
                settings,
                remembered=(one, "smoothed"),
            )
            yield encode_communities(communities)

    def chain(self, graph: Graph) -> str:
        """Return the era, whose first window needs the memory before it."""
        return chain_name(graph[0].graph, graph[0].era)

    def name(self, graph: Graph) -> str:
        return printable(f"graph {graph[0].graph}, {len(graph)} windows")

    def allowance(self, graph: Graph) -> Allowance:
        """Return the resource limits for the graph: those of its windows together."""
        budget, sent = self.settings.budget, [job.sent_bytes for job in graph]
        seconds = PASSES * sum(budget.allowance(of_job).seconds for of_job in sent)
        return replace(budget.allowance(sum(sent)), seconds=seconds)

    def warm_up(self) -> None:
        warm_up(self.model, self.settings)


@dataclass(frozen=True, slots=True)
class SmoothedGraphs:
    """An engine that detects all windows of a graph together, and yields graph by graph.

    Attributes:
        engine: runs graphs, one after the other or several at a time.
    """

    engine: Engine[Graph, tuple[Outcome, ...] | Refused]

    def __call__(
        self, jobs: Iterable[Job], first: First = First(), /
    ) -> Iterator[tuple[Job, Outcome]]:
        chains: dict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            chains[chain_name(job.graph, job.era)].append(job)
        for graph, outcomes in self.engine(map(tuple, chains.values()), first):
            if isinstance(outcomes, Refused):
                yield from ((job, outcomes) for job in graph)
            else:
                yield from zip(graph, outcomes, strict=True)


def _after(snapshot: Snapshot, before: dict[int, Snapshot]) -> Snapshot:
    """Return a window if it is after those before it; else raise `BadInput`."""
    last = next(reversed(before.values()), None)
    if last is not None and snapshot.window.end <= last.window.end:
        raise BadInput(
            f"its window does not end after that of {last.id}: with --smooth, windows of a graph "
            "follow each other. Replay it without --smooth"
        )
    return snapshot
