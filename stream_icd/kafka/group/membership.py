"""Be a group member: poll, handle rebalances, and keep polling during long batches.

During work on a batch, all partitions are paused and the member keeps polling, so long batches
never trigger a rebalance. Slow operations run in a background thread through this module.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from stream_icd.core.errors import (
    BrokerError,
    BrokerUnavailable,
    ClientStuck,
    DeliveryFailed,
    NameTaken,
    OffsetGone,
    RecordUndecodable,
    StreamIcdError,
)
from stream_icd.kafka.delivery.handler import Watcher
from stream_icd.kafka.group.held import HeldOffsets, HeldRecords
from stream_icd.kafka.port import (
    GroupMetadata,
    GroupMovedOn,
    Leaderless,
    Member,
    Offsets,
    Partitions,
    Polled,
    Reader,
    TopicPartition,
    Undecodable,
)
from stream_icd.kafka.reader import what_is_left
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic
from stream_icd.kafka.waiting import (
    ASK_TIMEOUT_S,
    BUSY_S,
    IDLE_S,
    Clock,
    Outage,
    Pace,
    Stop,
    TaskThread,
)

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

# During work: the interval between polls, and how long a poll may delay a finished result.
_BUSY_POLL_EVERY_S = 0.1
BUSY_POLL_S = 0.01
_COMMIT_TIMEOUT_S = 2.0
_CHECK_EVERY_S = 30.0
# How often lag is counted, and after how long without a fetch the broker is asked for the ends.
_COUNT_EVERY_S = 1.0
_ASK_AFTER_S = 5.0


Assignment = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are processed, published and committed together."""

    records: tuple[Record, ...]
    assignment: Assignment
    first: Offsets  # the offset of the first record of each partition
    # The offset after the last record of each partition; committed when the batch is done.
    next: Offsets

    @staticmethod
    def of(polled: Polled, assignment: Assignment) -> Batch:
        return Batch(
            records=tuple(record for records in polled.values() for record in records),
            assignment={p: assignment[p] for p in polled},
            first={p: records[0].offset for p, records in polled.items()},
            next={p: records[-1].offset + 1 for p, records in polled.items()},
        )

    @property
    def places(self) -> str:
        """The first and last offsets: `topic[partition]@first..last` for each partition."""
        return ", ".join(f"{p}@{first}..{self.next[p] - 1}" for p, first in self.first.items())


class GiveBack(Exception):
    """A stop was requested, and the batch in hand takes too long: another member will redo it."""


@dataclass(eq=False)
class Membership:
    """A consumer as a member of its group."""

    settings: KafkaSettings
    topic: str
    group: str
    member: Member
    stop: Stop
    watchers: Sequence[Watcher]
    clock: Clock
    # Says if a transaction holds records back; None: the broker cannot tell.
    held_records: HeldRecords | None = None
    give_up_after_s: float | None = None  # of a broker that is away; None: never

    def __post_init__(self) -> None:
        self.assignments = _Assignments(self.member)
        # The offset of the first record in hand, by partition; lag is counted from there.
        self.in_hand: Mapping[TopicPartition, int] = {}
        self.held = HeldOffsets(self.settings, self.group, self.clock.now)
        self._errands = TaskThread(f"{self.group}-errands")
        # An idle worker hears from the broker only once every two polls or so.
        self._silence_s = max(self.settings.session_timeout_s, 3 * IDLE_S)
        self._outage = self.outage()
        self._lag = _Lag(self.member, self.clock.now)
        self._pace = Pace(self.clock.now)
        self._passed: Offsets = {}  # positions that were committed without records
        self._leaderless = ""  # what was said of a partition without a leader, while it has none
        self._stop_by = float("inf")
        self._checked = self.clock.now()

    def join(self) -> None:
        self.member.subscribe(self.topic, self.assignments)

    def close(self) -> None:
        """Start no more background work; work that already began ends by itself."""
        self._errands.close()

    @property
    def id(self) -> str:
        return self.member.group().member_id

    def fetch(self, max_records: int | None, timeout_s: float | None = None) -> Polled:
        """Poll records of our partitions for up to `timeout_s`; None: longer if none came lately.

        `run_consumer` says what is raised; `GiveBack` if the client is stuck and is to stop.
        """
        if not self.member.group().is_settled:
            self._pace.saw_work()
        polled = self._poll(self._pace.wait_s if timeout_s is None else timeout_s, max_records)
        if polled:
            self._pace.saw_work()
        self._lag.fetched()
        return polled

    def insist(self, work: Callable[[], object]) -> None:
        """Run `work` in the background, and again while the broker is unavailable."""
        outage = self.outage()
        while True:
            try:
                self.wait_for(work)
            except NameTaken:
                raise
            except (BrokerUnavailable, DeliveryFailed) as error:
                self.back_off(error, outage)
            else:
                outage.answered()
                return

    def outage(self) -> Outage:
        return Outage(self.give_up_after_s, self.clock)

    def back_off(self, error: Exception, outage: Outage) -> None:
        """Pause, and keep polling meanwhile; raise the error if it has lasted too long."""
        self.wait_for(partial(self.clock.sleep, outage.failed(error)))

    def begin(self, work: Callable[[], _Result]) -> Future[_Result]:
        """Run `work` in the background, after all earlier work."""
        return self._errands.submit(work)

    def wait_for(self, work: Callable[[], _Result]) -> _Result:
        """Run `work` in the background, and keep polling until it is done."""
        return self.finished(self.begin(work))

    def finished(self, future: Future[_Result]) -> _Result:
        """The result of the future; keeps polling until it is done. Raises `GiveBack`."""
        while True:
            # No pause while joining: the client (3.0.12) joins again if a join succeeds in one.
            pause_s = _BUSY_POLL_EVERY_S if self.member.group().stable else 0.0
            if concurrent.futures.wait([future], pause_s).done:
                return future.result()
            self._poll_while_busy()

    def settled(self) -> GroupMetadata:
        """The group's current generation; polls until we are a member of it."""
        # Without a member id, the broker would not fence at all (KIP-447).
        while not (group := self.member.group()).is_settled:
            self._poll_while_busy()
        return group

    def commit(self, batch: Batch) -> bool:
        """Commit the offsets after a batch; False if a part of it went to another member."""
        outage = self.outage()
        while True:
            try:
                self.member.commit(batch.next, _COMMIT_TIMEOUT_S)
            except GroupMovedOn:
                self.settled()  # only then do the assignments below tell what is still ours
            except BrokerUnavailable as error:
                outage.failed(error)
                self._poll_while_busy()
            else:
                outage.answered()
                return True
            if not self.assignments.holds(batch.assignment):
                return False

    def committed(self, partition: TopicPartition) -> int | None:
        """The group's committed offset; BrokerUnavailable while a transaction holds it, OffsetHeld
        if it does so for longer than transactions last."""
        try:
            offset = self.member.committed(partition, _COMMIT_TIMEOUT_S)
        except BrokerUnavailable:
            self.wait_for(partial(self.held.unknown, [partition]))
            raise
        self.held.known([partition])
        return offset

    def is_read(self, partition: TopicPartition) -> bool:
        """Whether everything up to the end seen by the last fetch is read; False before any."""
        end, at = self.member.fetched_end(partition), self.member.position(partition)
        return end is not None and at is not None and at >= end

    def check(self) -> None:
        """Check the topic and our positions, if the last time was half a minute ago."""
        if self.held_records is not None:
            self.held_records.look(self.member)
        if self.clock.now() - self._checked > _CHECK_EVERY_S:
            self.check_topic()
            ours = self.assignments.ours()
            self._look_for_leaders(ours)
            positions = {p: self.member.position(p) for p in ours}
            offsets = {p: offset for p, offset in positions.items() if offset is not None}
            if len(offsets) == len(ours):
                self.held.known(ours)
                self._commit_what_is_passed(offsets)
            elif not self._leaderless:  # a position that no broker can tell is not held back
                self.wait_for(partial(self.held.unknown, [p for p in ours if p not in offsets]))

    def _look_for_leaders(self, ours: Partitions) -> None:
        """Say once if nothing can be read of one of our partitions, since no broker leads it."""
        before, self._leaderless = self._leaderless, ""
        try:
            self.member.ends(ours, _COMMIT_TIMEOUT_S)
        except Leaderless as error:
            self._leaderless = str(error)
            if self._leaderless != before:
                _log.warning("waiting for a leader: %s", error)
        except StreamIcdError:  # code that waits for the broker logs it
            self._leaderless = before

    def _commit_what_is_passed(self, positions: Offsets) -> None:
        """Commit our positions also where no record came.

        Do not poll between the look at the positions and this: others may own a partition then.
        """
        # The mark of a transaction lies between the last record and the position. If retention
        # removes it, too, the group would stop at an offset that is gone, though nothing was lost.
        passed = {p: offset for p, offset in positions.items() if p not in self.in_hand}
        if passed != self._passed:
            with contextlib.suppress(BrokerUnavailable, GroupMovedOn):  # the next check tries again
                self.member.commit(passed, _COMMIT_TIMEOUT_S)
                self._passed = passed

    def check_topic(self) -> None:
        """Raise TopicMissing if the broker answers and the topic does not exist."""
        with contextlib.suppress(BrokerUnavailable):
            self.wait_for(partial(describe_topic, self.settings, self.topic))
        self._checked = self.clock.now()

    def _poll_while_busy(self) -> None:
        """Poll to stay in the group, without taking records."""
        now = self.clock.now()
        if self.stop.is_set():
            self._stop_by = min(self._stop_by, now + self.settings.shutdown_timeout_s)
        if now > self._stop_by:
            raise GiveBack
        self.assignments.pause()  # the last fetch resumed them
        if self._poll(BUSY_POLL_S if self.member.group().stable else BUSY_S):
            raise BrokerError("the client gave records of paused partitions")

    def _poll(self, timeout_s: float, max_records: int | None = None) -> Polled:
        polled = self._polled(timeout_s, max_records)
        group = self.member.group()
        settled = group.generation if group.is_settled else None
        silence_s = self.member.silence_s()
        self._outage.answered(silence_s)
        if silence_s > self._silence_s:
            servers = self.settings.bootstrap_servers
            why = f"{servers} has not answered for {silence_s:.0f} s"
            self._outage.failed(BrokerUnavailable(why))
        for watcher in self.watchers:
            watcher.polled(settled, silence_s)
        just_now = {p: records[0].offset for p, records in polled.items()}
        lag = self._lag.look(self.assignments.ours(), {**just_now, **self.in_hand})
        if lag is not None:
            for watcher in self.watchers:
                watcher.lagged(lag)
        return polled

    def _polled(self, timeout_s: float, max_records: int | None) -> Polled:
        try:
            return self.member.poll(timeout_s, max_records)
        except OffsetGone as error:
            raise OffsetGone(
                f"group {self.group}: {error}; {what_is_left(self.member)}. To continue there, "
                f"{self._skip}"
            ) from error
        except Undecodable as error:
            raise RecordUndecodable(
                f"group {self.group}: {error}. To continue after them, {self._skip} --to "
                f"{error.partition.partition}:{error.end}"
            ) from error
        except ClientStuck as error:
            if self.stop.is_set():
                raise GiveBack from error
            raise ClientStuck(f"{error}: {self._skip} --to PARTITION:OFFSET") from error
        except BrokerUnavailable as error:
            self._outage.failed(error)
            return {}

    @property
    def _skip(self) -> str:
        return (
            f"stop the group and run: stream-icd topics skip --group {self.group} "
            f"--topic {self.topic}"
        )


class _Assignments:
    """The partitions of this member; each assignment of a partition has its own number.

    A partition that went to another worker and came back has a new number, so records read from
    it before are no longer valid. The client's I/O thread may report changes at any time.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._ours: Assignment = {}

    def assigned(self, partitions: Partitions) -> None:
        with self._lock:
            for partition in partitions:
                self._ours[partition] = next(self._numbers)
                # Until `begin`: no fetch gives records of an assignment that its caller lacks.
                self._member.pause(partition)
        _log.info("assigned: %s", ", ".join(map(str, sorted(partitions))))

    def revoked(self, partitions: Partitions) -> None:
        with self._lock:
            for partition in partitions:
                self._ours.pop(partition, None)

    def begin(self) -> Assignment:
        """Resume all our partitions, and return the current assignment."""
        with self._lock:
            for partition in self._ours:
                self._member.resume(partition)
            return dict(self._ours)

    def ours(self) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(self._ours)

    def pause(self) -> None:
        with self._lock:
            for partition in self._ours:
                self._member.pause(partition)

    def kept(self, assignment: Assignment) -> frozenset[TopicPartition]:
        """The partitions of `assignment` that we have held without a break since then."""
        with self._lock:
            return frozenset(partition for partition, _ in assignment.items() & self._ours.items())

    def holds(self, assignment: Assignment) -> bool:
        """Whether we have held all partitions of `assignment` without a break since then."""
        return self.kept(assignment) == assignment.keys()

    def rewind(self, assignment: Assignment, offsets: dict[TopicPartition, int]) -> None:
        """Seek to `offsets` in the partitions of `assignment` that we still hold. The others
        belong to another member, or came back and are read from their committed offset."""
        for partition in self.kept(assignment):
            self._member.seek(partition, offsets[partition])


class _Lag:
    """The number of records from the first uncommitted one to the end: waiting or in hand.

    Each fetch from a partition reports the partition's end. Nothing is fetched while work is in
    hand, and Kafka does not report again on an empty partition that was revoked and reassigned
    (KIP-227). So the broker is also asked periodically; the embedded one may report too low an end.
    """

    def __init__(self, reader: Reader, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._clock = clock
        self._looked = self._fetched = self._asked = clock()
        self._ends: dict[TopicPartition, int] = {}

    def fetched(self) -> None:
        self._fetched = self._clock()

    def look(
        self, ours: Partitions, in_hand: Mapping[TopicPartition, int]
    ) -> dict[int, int] | None:
        """The lag of each of our partitions, if known; None: too early to check again.

        `in_hand` is the offset of the first record in hand, by partition.
        """
        now = self._clock()
        if now - self._looked < _COUNT_EVERY_S:
            return None
        self._looked = now
        is_known = all(self._reader.fetched_end(p) is not None for p in ours)
        known_at = max(self._fetched, self._asked) if is_known else self._asked
        if ours and now - known_at > _ASK_AFTER_S:
            self._asked = now
            with contextlib.suppress(StreamIcdError):  # code that waits for the broker logs it
                self._ends = self._reader.ends(ours, ASK_TIMEOUT_S)
        lags = {p.partition: self._of(p, in_hand.get(p)) for p in ours}
        return {partition: lag for partition, lag in lags.items() if lag is not None}

    def _of(self, partition: TopicPartition, first: int | None) -> int | None:
        ends = (self._reader.fetched_end(partition), self._ends.get(partition))
        end = max((end for end in ends if end is not None), default=None)
        done = self._reader.position(partition) if first is None else first
        return None if end is None or done is None else max(0, end - done)
