"""Be a group member: keep polling during long batches, and handle rebalances.

During work on a batch, its partitions are paused and the member keeps polling, so long batches
never trigger a rebalance. Slow operations run in a background thread through this module.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from stream_icd.errors import (
    BrokerError,
    BrokerUnavailable,
    ClientStuck,
    DeliveryFailed,
    OffsetGone,
    RecordUndecodable,
)
from stream_icd.kafka.clock import BUSY_S, Clock, Pace, Stop
from stream_icd.kafka.delivery.handler import Watcher
from stream_icd.kafka.group.assignments import Assignments, Batch
from stream_icd.kafka.group.hanging import HeldOffsets
from stream_icd.kafka.group.lag import Lag
from stream_icd.kafka.group.worker import Worker
from stream_icd.kafka.port import GroupMetadata, Member, Polled, TopicPartition, Undecodable
from stream_icd.kafka.reader import what_is_left
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic

log = logging.getLogger(__name__)
Result = TypeVar("Result")

# During work: the interval between polls, and how long a poll may delay a finished result.
BUSY_POLL_EVERY_S = 0.1
BUSY_POLL_S = 0.01
COMMIT_TIMEOUT_S = 2.0
BACKOFF_S = 1.0
CHECK_EVERY_S = 30.0


class GiveBack(Exception):
    """A stop was requested, and the batch in hand takes too long: another member will redo it."""


class Membership:
    """A consumer as a member of its group.

    Attributes:
        assignments: the partitions that are assigned to us now.
        in_hand: the offset of the first record in hand, by partition; lag is counted from there.
        held: notes which positions are known.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        group: str,
        member: Member,
        stop: Stop,
        watchers: Sequence[Watcher],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group
        self._member = member
        self._stop = stop
        self._watchers = watchers
        self._clock = clock
        self._errands = Worker(f"{group}-errands")
        self._lag = Lag(member, clock.now)
        self._pace = Pace(clock.now)
        self._stop_by = float("inf")
        self.assignments = Assignments(member)
        self.in_hand: Mapping[TopicPartition, int] = {}
        self.held = HeldOffsets(settings, group, clock.now)
        self._checked = clock.now()

    def join(self) -> None:
        """Join the group; later polls bring the assigned partitions."""
        self._member.subscribe(self._topic, self.assignments)

    def close(self) -> None:
        """Start no more background work; work that already began ends by itself."""
        self._errands.close()

    @property
    def id(self) -> str:
        """Our current member id in the group."""
        return self._member.group().member_id

    def fetch(self, max_records: int | None, timeout_s: float | None = None) -> Polled:
        """Poll records of our partitions for up to `timeout_s`.

        Args:
            timeout_s: None: longer when no records came for a while.

        Raises:
            GiveBack: the client is stuck, and a stop was requested.
            OffsetGone, RecordUndecodable, MessageTooLarge, ClientStuck: as `run_consumer`.
        """
        if not self._member.group().is_settled:
            self._pace.saw_work()
        polled = self._poll(self._pace.wait_s if timeout_s is None else timeout_s, max_records)
        if polled:
            self._pace.saw_work()
        self._lag.fetched()
        return polled

    def insist(self, work: Callable[[], object]) -> None:
        """Run `work` in the background, and retry while the broker is unavailable."""
        while True:
            try:
                self.wait_for(work)
                return
            except (BrokerUnavailable, DeliveryFailed) as error:
                self.back_off(error)

    def back_off(self, error: Exception) -> None:
        log.warning("waiting for the broker: %s", error)
        self.wait_for(partial(self._clock.sleep, BACKOFF_S))

    def begin(self, work: Callable[[], Result]) -> Future[Result]:
        """Run `work` in the background, after all earlier work."""
        return self._errands.submit(work)

    def wait_for(self, work: Callable[[], Result]) -> Result:
        """Run `work` in the background, and keep polling until it is done."""
        return self.finished(self.begin(work))

    def finished(self, future: Future[Result]) -> Result:
        """The result of the future; keeps polling until it is done. Raises `GiveBack`."""
        while not concurrent.futures.wait([future], timeout=self._pause_s()).done:
            self._poll_while_busy()
        return future.result()

    def settled(self) -> GroupMetadata:
        """The group's current generation; polls until we are a member of it.

        Call this before you read the assignments: if the generation ends in between, the broker
        refuses it. Without a member id, the broker would not fence at all (KIP-447).
        """
        while True:
            known = self._member.group()
            if known.is_settled:
                return known
            self._poll_while_busy()

    def commit(self, batch: Batch) -> bool:
        """Commit the offsets after a batch; False if the broker is unavailable: try again."""
        try:
            self._member.commit(batch.next, COMMIT_TIMEOUT_S)
            return True
        except BrokerUnavailable as error:
            log.warning("committing again: %s", error)
            self._poll_while_busy()
            return False

    def committed(self, partition: TopicPartition) -> int | None:
        """The group's committed offset, once no open transaction holds it.

        Raises:
            BrokerUnavailable: the offset is not available now.
            OffsetHeld: a transaction holds it for longer than transactions last.
        """
        try:
            found = self._member.committed(partition, COMMIT_TIMEOUT_S)
        except BrokerUnavailable:
            self.wait_for(partial(self.held.unknown, [partition]))
            raise
        self.held.known([partition])
        return found

    def is_read(self, partition: TopicPartition) -> bool:
        """Whether everything up to the end seen by the last fetch is read; False before any."""
        end, at = self._member.fetched_end(partition), self._member.position(partition)
        return end is not None and at is not None and at >= end

    def check(self) -> None:
        """Check the topic and our positions, if the last time was half a minute ago."""
        if self._clock.now() - self._checked > CHECK_EVERY_S:
            self.check_topic()
            ours = self.assignments.ours()
            without_position = [p for p in ours if self._member.position(p) is None]
            if without_position:
                self.wait_for(partial(self.held.unknown, without_position))
            else:
                self.held.known(ours)

    def check_topic(self) -> None:
        """Raise TopicMissing if the broker answers and the topic does not exist."""
        with contextlib.suppress(BrokerUnavailable):
            self.wait_for(partial(describe_topic, self._settings, self._topic))
        self._checked = self._clock.now()

    def _poll_while_busy(self) -> None:
        """Poll to stay in the group, without taking records."""
        if self._stop.is_set():
            self._stop_by = min(
                self._stop_by, self._clock.now() + self._settings.shutdown_timeout_s
            )
        if self._clock.now() > self._stop_by:
            raise GiveBack
        self.assignments.pause()
        if self._poll(BUSY_POLL_S if self._member.group().stable else BUSY_S):
            raise BrokerError("the client gave records of paused partitions")

    def _poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        polled = self._polled(timeout_s, max_records)
        group = self._member.group()
        settled = group.generation if group.is_settled else None
        for watcher in self._watchers:
            watcher.polled(settled, self._member.silence_s())
        just_now = {p: records[0].offset for p, records in polled.items()}
        lag = self._lag.look(self.assignments.ours(), {**just_now, **self.in_hand})
        if lag is not None:
            for watcher in self._watchers:
                watcher.lagged(lag)
        return polled

    def _polled(self, timeout_s: float, max_records: int | None) -> Polled:
        try:
            return self._member.poll(timeout_s, max_records)
        except OffsetGone as error:
            raise OffsetGone(
                f"group {self._group}: {error}; {what_is_left(self._member)}. To continue there, "
                f"{self._skip}"
            ) from error
        except Undecodable as error:
            raise RecordUndecodable(
                f"group {self._group}: {error}. To continue after them, {self._skip} --to "
                f"{error.partition.partition}:{error.end}"
            ) from error
        except ClientStuck as error:
            if self._stop.is_set():
                raise GiveBack from error
            raise ClientStuck(f"{error}: {self._skip} --to PARTITION:OFFSET") from error
        except BrokerUnavailable as error:
            log.warning("polling again: %s", error)
            return {}

    @property
    def _skip(self) -> str:
        """How to skip records, as part of an error message."""
        return (
            f"stop the group and run: stream-icd topics skip --group {self._group} "
            f"--topic {self._topic}"
        )

    def _pause_s(self) -> float:
        """The pause between two polls. None while joining: the client (3.0.12) joins again if a
        join succeeds between two polls."""
        return BUSY_POLL_EVERY_S if self._member.group().stable else 0.0
