"""Detection on a stream: a snapshot in, its communities out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from stream_icd.detection.record import (
    TOO_LARGE,
    DetectSettings,
    RecordDetection,
    warn_of_k,
)
from stream_icd.errors import CrashedWorker
from stream_icd.execution.work import Engine, First, InProcess, started_anew
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.messages.records import Outcome, Processed, about, graph_in_key
from stream_icd.registry.model import VersionedModel
from stream_icd.workers.memories import Memories
from stream_icd.workers.runner import BatchStep

ModelHandle = Callable[[], VersionedModel]
"""Returns the model for detection. It is called at the start of each batch, so the model may
change between batches."""


class Detector(BatchStep):
    """Finds the communities of each snapshot.

    Args:
        engine: detects several snapshots in parallel, with the model that the engine was opened
            with; None: detect sequentially in this process, without resource limits.
        memories: the memory of each graph; None: detect each snapshot alone.
        room: returns the maximum size of a message of the memory topic.
        warm: returns when the engine is ready for its first snapshot.
    """

    stages = ("decode", "detect")

    def __init__(
        self,
        model: ModelHandle,
        settings: DetectSettings,
        engine: Engine[Record, Outcome] | None = None,
        memories: Memories | None = None,
        room: Callable[[], float] = lambda: math.inf,
        warm: Callable[[], object] = lambda: None,
    ) -> None:
        self._model = model
        self._engine = engine
        self._memories = memories
        self._room = room
        self._warm = warm
        self._small_graphs: set[str] = set()
        if memories is None:
            settings = replace(settings, memory="off")
        self._detection = RecordDetection(model(), settings)
        self.ahead = engine is not None

    @property
    def context(self) -> dict[str, str]:
        return {"model": self._detection.version}

    def open(self) -> None:
        self._warm()

    def assigned(self, partitions: Collection[int]) -> None:
        if self._memories is not None:
            self._memories.assigned(partitions)

    def begin(self, records: Sequence[Record]) -> None:
        """Make the memory of all graphs available, and take the current model."""
        if self._memories is not None:
            self._memories.begin(records)
        self._detection = replace(self._detection, model=self._model())

    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        engine = InProcess(self._detection) if self._engine is None else self._engine
        memories = self._memories
        first = First() if memories is None else First(memories.get, self._room())
        for record, outcome in engine(records, first):
            if isinstance(outcome, Processed) and TOO_LARGE in outcome.facts:
                with about(record):
                    warn_of_k(graph_in_key(record), outcome.facts[TOO_LARGE], self._small_graphs)
            yield record, outcome

    def last_resort(self, record: Record) -> Outcome | None:
        """Detect the record in a process without the graph's memory, which may be the cause."""
        graph, memories = self._detection.chain(record), self._memories
        if self._engine is None or memories is None or graph is None:
            return None
        if not (memory := memories.get(graph)):
            return None
        anew = started_anew(memory, self._detection.name(record), "it may end processes")
        try:
            ((_, outcome),) = self._engine([record], First(lambda _: anew, self._room()))
        except CrashedWorker:
            return None
        return outcome

    def state_headers(self, record: Record) -> Headers:
        return () if self._memories is None else self._memories.headers(graph_in_key(record))

    def remember(self, record: Record, state: OutgoingRecord) -> None:
        assert self._memories is not None, "there is no state without memory"
        self._memories.put(graph_in_key(record), record.partition, state.value or b"")
