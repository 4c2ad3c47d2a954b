"""What detection with memory finds in a stream that memory helps on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

from stream_icd.core.communities import Communities
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.records import Outcome, Processed
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.model import Method
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.detect import finding
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.execution.work import Engine, Relay
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.memories import Memories
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.states import MemoryState, decode_state
from tests.testbed.brokers import Broker
from tests.testbed.drifting import outgoing, remembering_model
from tests.testbed.streams import as_read, held, publish

Found = tuple[str, list[int], list[int], list[list[int]], str | None]
"""Snapshot id, communities, their ids, the ids replaced, and what memory contributed."""


def records(snapshots: list[Snapshot], partition: int = 0, first: int = 0) -> list[Record]:
    """Snapshots as they are read from a topic."""
    return as_read([outgoing(snapshot, "snapshots") for snapshot in snapshots], partition, first)


def uninterrupted(
    snapshots: list[Snapshot],
    model: VersionedModel,
    memory: Memory | None = None,
    method: Method = "bp",
    horizon: Horizon = "auto",
) -> tuple[list[Found], bytes]:
    """What is found in the windows of one graph, one after the other; and the memory after them."""
    found: list[Found] = []
    find = finding(method, model.model, threads=1)
    for snapshot in snapshots:
        k = snapshot.n_communities and min(snapshot.n_communities, snapshot.n_nodes)
        result = detect_remembering(snapshot, model.model, memory, k, horizon=horizon, find=find)
        use = "continued" if result.n_continued else "broken"
        use = "damaged" if result.damaged else use
        use = "first" if memory is None else "late" if result.memory is memory else use
        ids = result.community_ids.tolist(), result.replaced.tolist()
        found.append((snapshot.id, result.communities.tolist(), *ids, use))
        memory = result.memory
    assert memory is not None
    return found, encode_memory(memory)


def said(result: Communities) -> Found:
    """What a result says, to compare with `uninterrupted`."""
    ids, replaced = result.community_ids, result.replaced
    of_ids = ([] if one is None else one.tolist() for one in (ids, replaced))
    return result.snapshot_id, result.labels.tolist(), *of_ids, result.memory


def results_in(published: Iterable[Record | OutgoingRecord]) -> list[Communities]:
    return [decode_communities(one.key, one.value, one.headers) for one in published]


def detected(
    model: VersionedModel, settings: DetectSettings, snapshots: list[Snapshot]
) -> list[Communities]:
    """What a detector finds in windows of one graph, in this process and without topics."""
    work, relay, found = RecordDetection(model, settings), Relay(), list[Communities]()
    for record in records(snapshots):
        done = work(record, relay if settings.memory == "auto" else None)
        assert isinstance(done, Processed)
        found += results_in(done.outgoing)
    return found


class Worker:
    """A detector whose batches are committed, or not, as the test says.

    Args:
        engine: detects the records; None: in this process.
        claim_check: says what fits into the topics; None: everything.
        chosen: more of the settings, such as the method.
    """

    def __init__(
        self,
        broker: Broker,
        topic: str,
        group: str = "detect",
        model: VersionedModel | None = None,
        cache_bytes: int = 1 << 20,
        engine: Engine[Record, Outcome] | None = None,
        claim_check: ClaimCheck | None = None,
        results: str = COMMUNITIES,
        **chosen: Any,
    ) -> None:
        self.broker, self.model = broker, model or remembering_model()
        where = {"topic": results, "memory_topic": topic, "group": group}
        settings = DetectSettings(memory="auto", threads=1, **where, **chosen)
        kept = MemorySettings(cache_bytes=cache_bytes)
        self.memories = Memories(broker.settings(), group, topic, kept)
        room = partial(claim_check.room, topic) if claim_check is not None else lambda: math.inf
        detector = Detector(lambda: self.model, settings, engine, self.memories, room)
        self.runner = Runner(detector, DeadLetterLimit(1.0), claim_check=claim_check)
        self.topic = topic
        self.new: set[int] = {0, 1, 2}

    def handle(self, batch: list[Record]) -> list[OutgoingRecord]:
        """Process a batch as the consumer does."""
        if new := self.new & {record.partition for record in batch}:
            self.runner.assigned(new)
            self.new -= new
        return list(self.runner.handle(batch))

    def commit(self, batch: list[Record], results: list[OutgoingRecord]) -> list[Communities]:
        """Publish the states, and return the results."""
        publish(self.broker, [result for result in results if result.topic == self.topic])
        self.runner.done(BatchDone(tuple(batch), tuple(results), 0.0))
        found = [result for result in results if not result.topic.endswith((self.topic, ".dlq"))]
        return results_in(found)

    def work(self, batch: list[Record]) -> list[Communities]:
        """Process a batch and commit it."""
        return self.commit(batch, self.handle(batch))


def states(broker: Broker, topic: str) -> dict[tuple[str, str], MemoryState]:
    """The newest state of each group and graph."""
    found = (decode_state(one.key, one.value, one.headers) for one in held(broker, topic))
    return {(state.group, state.graph): state for state in found}
