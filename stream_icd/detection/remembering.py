"""Detection of one snapshot of a stream with the memory of the graph's last window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog
from scipy.sparse import csr_array

from stream_icd.communities import Communities, MemoryUse
from stream_icd.detection.recent import RecentMemories
from stream_icd.errors import BadMemory, LimitExceeded
from stream_icd.execution.relay import Relay
from stream_icd.kafka.publisher import size_as_sent
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.memory.bounds import cut
from stream_icd.memory.by_method import Find
from stream_icd.memory.detect import Remembered, detect_remembering
from stream_icd.memory.encoding import decode_memory, encode_memory
from stream_icd.memory.horizon import Horizon
from stream_icd.memory.memory import Memory, is_forgotten
from stream_icd.messages.records import outgoing
from stream_icd.model import Model
from stream_icd.snapshot import Snapshot
from stream_icd.tracking.settings import too_far_ahead
from stream_icd.wire.limits import Limits
from stream_icd.wire.states import State, encode_state

CAUTION = 0.9
"""How much of its share a memory that is too large keeps: its bytes follow its nodes roughly."""


@dataclass(slots=True)
class Remembering:
    """The memory for one snapshot: before it, and after it.

    Attributes:
        relay: gives the memory before the snapshot, and gets the memory after it.
        clock: a window too far ahead of it is not remembered.
        limits: for reading the memory.
        recent: memories that need not be decoded.
        before: what is remembered of earlier windows.
        after: the memory after the snapshot; None if it changes nothing.
    """

    relay: Relay
    clock: Callable[[], datetime]
    limits: Limits
    recent: RecentMemories
    before: Memory | None = None
    after: Memory | None = None

    @property
    def is_used(self) -> bool:
        """Whether a failure may be due to what is remembered."""
        return self.before is not None and not is_forgotten(self.before)

    def detect(
        self,
        snapshot: Snapshot,
        adjacency: csr_array,
        model: Model,
        n_communities: int | None,
        horizon: Horizon,
        find: Find | None,
        seed: int,
        threads: int,
    ) -> tuple[Remembered, MemoryUse]:
        """Return the communities, and what memory contributed.

        Raises:
            BadMemory: what is remembered cannot be read.
        """
        encoded = self.relay.take()
        if encoded is not None:
            self.before = self._read(snapshot.graph, encoded)
        found = detect_remembering(
            snapshot,
            model,
            self.before,
            n_communities,
            horizon=horizon,
            find=find,
            seed=seed,
            threads=threads,
            adjacency=adjacency,
        )
        if found.memory is self.before or too_far_ahead(snapshot.window, self.clock()):
            return found, "late"
        self.after = found.memory
        if self.before is None:
            return found, "first"
        if is_forgotten(self.before):
            return found, "anew"
        if found.damaged:
            return found, "damaged"
        return found, "continued" if found.n_continued else "broken"

    def hand_on(self, topic: str, group: str, found: Communities) -> OutgoingRecord | None:
        """Hand on the memory after the snapshot; return its message, None if it changes nothing.

        It is cut until it fits into its topic. What is handed on is what is published, so that
        results do not depend on when a detector starts again.
        """
        if self.after is None:
            return None
        record = _message(topic, group, found, self.after)
        while (size := size_as_sent(record)) > self.relay.most_bytes and self.after.n_nodes:
            some = int(CAUTION * self.after.n_nodes * self.relay.most_bytes / size)
            structlog.get_logger().warning(
                "memory is too large for its topic, and is cut",
                graph=found.graph,
                bytes=size,
                most=self.relay.most_bytes,
                nodes=self.after.n_nodes,
                kept=some,
            )
            self.after = cut(self.after, some)
            record = _message(topic, group, found, self.after)
        if size > self.relay.most_bytes:
            return None
        encoded = record.value or b""
        self.recent.put(found.graph, encoded, self.after)
        self.relay.pass_on(encoded)
        return record

    def _read(self, graph: str, encoded: bytes) -> Memory:
        memory = self.recent.get(graph, encoded)
        if memory is None:
            memory = self._decoded(encoded)
        if too_far_ahead(memory.window, self.clock()):
            raise BadMemory(
                f"the last window ends at {memory.window.end}, too far in the future: all windows "
                "would be late"
            )
        return memory

    def _decoded(self, encoded: bytes) -> Memory:
        try:
            return decode_memory(encoded, self.limits)
        except LimitExceeded as error:  # which says nothing of the snapshot
            raise BadMemory(str(error)) from error


def _message(topic: str, group: str, found: Communities, memory: Memory) -> OutgoingRecord:
    state = State(
        group=group,
        graph=found.graph,
        snapshot_id=found.snapshot_id,
        window=found.window,
        model=found.model,
        revision=found.revision,
        snapshot_place=found.snapshot_place,
        value=encode_memory(memory),
        next_id=memory.next_id,
    )
    return outgoing(topic, encode_state(state))
