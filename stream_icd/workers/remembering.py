"""Detection of one snapshot of a stream with the memory of the graph's last window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog
from scipy.sparse import csr_array

from stream_icd.communities import Communities, MemoryUse
from stream_icd.errors import BadInput
from stream_icd.execution.relay import Relay
from stream_icd.memory.detect import Remembered, detect_remembering
from stream_icd.memory.encoding import decode_memory, encode_memory
from stream_icd.memory.memory import Memory
from stream_icd.registry.model import Model
from stream_icd.snapshot import Snapshot
from stream_icd.tracking.ahead import too_far_ahead
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Message
from stream_icd.wire.states import State, encode_state


@dataclass(slots=True)
class Remembering:
    """The memory for one snapshot: before it, and after it.

    Attributes:
        relay: gives the memory before the snapshot, and gets the memory after it.
        clock: a window too far ahead of it is not remembered.
        limits: for reading the memory.
        after: the encoded memory after the snapshot; None if it changes nothing.
    """

    relay: Relay
    clock: Callable[[], datetime]
    limits: Limits
    after: bytes | None = None

    def detect(
        self,
        snapshot: Snapshot,
        adjacency: csr_array,
        model: Model,
        n_communities: int | None,
        seed: int,
    ) -> tuple[Remembered, MemoryUse]:
        """Return the communities, and what memory contributed; hand the memory on."""
        before = self._before(snapshot)
        found = detect_remembering(
            snapshot, model, before, n_communities, seed=seed, adjacency=adjacency
        )
        if found.memory is before or too_far_ahead(snapshot.window, self.clock()):
            return found, "late"
        self.after = encode_memory(found.memory)
        self.relay.pass_on(self.after)
        if before is None:
            return found, "first"
        return found, "continued" if found.n_continued else "broken"

    def state(self, group: str, found: Communities) -> Message | None:
        """Return the memory after the snapshot as a message; None if it changes nothing."""
        if self.after is None:
            return None
        return encode_state(
            State(
                group=group,
                graph=found.graph,
                snapshot_id=found.snapshot_id,
                window=found.window,
                model=found.model,
                revision=found.revision,
                snapshot_place=found.snapshot_place,
                value=self.after,
            )
        )

    def _before(self, snapshot: Snapshot) -> Memory | None:
        """Return the memory before the snapshot; None, and a warning, if it cannot be read."""
        encoded = self.relay.take()
        if encoded is None:
            return None
        try:
            return decode_memory(encoded, self.limits)
        except BadInput as error:
            structlog.get_logger().warning(
                "memory cannot be read", graph=snapshot.graph, reason=str(error)
            )
            return None
