"""How many snapshots wait for their results: the end of their topic, less what was detected."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_icd.errors import StreamIcdError
from stream_icd.kafka.connect import connect, recognise
from stream_icd.kafka.port import Reader, TopicPartition
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic

LOOK_EVERY_S = 5.0
LOOKS = 60
"""Looks with one connection; a new one sees partitions that were added."""


@dataclass(slots=True)
class Lag:
    """The lag of all detectors together; None until it is known.

    Attributes:
        waiting: records of the snapshots topic after the last detected one, in all partitions. A
            partition without any result counts from its beginning.
    """

    waiting: int | None = None
    _next: dict[int, int] = field(default_factory=dict)

    def detected(self, snapshot_place: str) -> None:
        """Note the place, `PARTITION@OFFSET`, of a snapshot that has a result."""
        partition, _, offset = snapshot_place.partition("@")
        digits = (partition + offset).isascii() and partition.isdigit() and offset.isdigit()
        if digits and len(partition) < 5 and len(offset) < 19:
            at = int(partition)
            self._next[at] = max(self._next.get(at, 0), int(offset) + 1)

    def watch(self, settings: KafkaSettings, topic: str, stop: threading.Event) -> None:
        """Look every few seconds, until stopped; connect anew once in a while, or after a fault."""
        while not stop.is_set():
            try:
                self._look_often(settings, topic, stop)
            except StreamIcdError:
                self.waiting = None
                stop.wait(LOOK_EVERY_S)

    def _look_often(self, settings: KafkaSettings, topic: str, stop: threading.Event) -> None:
        """Note the lag; None if the broker does not tell where its partitions end."""
        exact = recognise(settings).exact_end_offsets
        n = describe_topic(settings, topic).partitions
        partitions = [TopicPartition(topic, partition) for partition in range(n)]
        reader = connect(settings).reader(stop)
        try:
            for _ in range(LOOKS):
                self.waiting = self._look(reader, partitions) if exact else None
                if stop.wait(LOOK_EVERY_S):
                    return
        finally:
            reader.close()

    def _look(self, reader: Reader, partitions: Sequence[TopicPartition]) -> int:
        begins, ends = reader.begins(partitions), reader.ends(partitions)
        return sum(
            max(0, ends[one] - max(begins[one], self._next.get(one.partition, 0)))
            for one in partitions
        )
