"""Detection on a stream: a snapshot in, its communities out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stream_icd.core.errors import CrashedWorker
from stream_icd.core.headers import Headers
from stream_icd.kafka.messages.records import Outcome, Processed, about
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.record import K_TOO_LARGE, RecordDetection, warn_of_k
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.step import BatchStep

if TYPE_CHECKING:
    from stream_icd.methods.bp.known import Known

_ModelHandle = Callable[[], VersionedModel]
"""Returns the model for detection. It is called at the start of each batch, so the model may
change between batches."""


@dataclass(eq=False)
class Detector(BatchStep):
    """Finds the communities of each snapshot.

    With an `engine`, it detects several in parallel, with the model that the engine was opened
    with; else one after the other in this process, without resource limits. Without `memories` of
    the graphs, it detects each snapshot alone.

    `known` returns the communities of some nodes, by graph. It is called at the start of each
    batch if the settings follow them.
    """

    stages = ("decode", "detect")

    model: _ModelHandle
    settings: DetectSettings
    engine: Engine[Record, Outcome] | None = None
    memories: Memories | None = None
    room: Callable[[], float] = lambda: math.inf  # the maximum size of a message with memory
    warm: Callable[[], object] = lambda: None  # returns when the engine is ready
    at_once: int | None = None  # see `BatchStep`
    known: Callable[[], Mapping[str, Known]] = dict

    def __post_init__(self) -> None:
        if self.memories is None:
            self.settings = replace(self.settings, memory="off")
        self.ahead = self.engine is not None
        self._small_graphs: set[str] = set()
        self._known: Mapping[str, Known] = {}
        self._detection = RecordDetection(self.model(), self.settings)

    @property
    def context(self) -> dict[str, str]:
        return {"model": self._detection.version}

    def open(self) -> None:
        self.warm()

    def assigned(self, partitions: Collection[int]) -> None:
        if self.memories is not None:
            self.memories.assigned(partitions)

    def begin(self, records: Sequence[Record]) -> None:
        """Make memory available; take the current model, and what is known."""
        if self.memories is not None:
            self.memories.begin(records)
        # After the memory, which may take long to read: a `ModelSwap` takes a batch that was begun
        # and is not worked on for idle, and changes the model.
        self._detection = replace(self._detection, model=self.model())
        if self.settings.follows_known:
            self._known = self.known()

    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        engine = InProcess(self._detection) if self.engine is None else self.engine
        room = math.inf if self.memories is None else self.room()

        def first(graph: str) -> Relay:
            memory = None if self.memories is None else self.memories.get(graph)
            return Relay(memory, room, self._known.get(graph))

        for record, outcome in engine(records, first):
            if isinstance(outcome, Processed) and K_TOO_LARGE in outcome.facts:
                with about(record):
                    warn_of_k(record.key_text, outcome.facts[K_TOO_LARGE], self._small_graphs)
            yield record, outcome

    def last_resort(self, record: Record) -> Outcome | None:
        """Detect the record in a process without the graph's memory, which may be the cause."""
        graph, memories = self._detection.chain(record), self.memories
        if self.engine is None or memories is None or graph is None:
            return None
        if not (memory := memories.get(graph)):
            return None
        relay = Relay(most_bytes=self.room(), known=self._known.get(graph))
        relay.start_anew(memory, self._detection.name(record), "it may end processes")
        try:
            ((_, outcome),) = self.engine([record], lambda _: relay)
        except CrashedWorker:
            return None
        return outcome

    def state_headers(self, record: Record) -> Headers:
        return () if self.memories is None else self.memories.headers(record.key_text)

    def remember(self, record: Record, state: OutgoingRecord) -> None:
        assert self.memories is not None, "there is no state without memory"
        self.memories.put(record.key_text, record.partition, state.value or b"")
