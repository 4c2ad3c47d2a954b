"""Be a member of a consumer group: poll, however long the work takes, and answer rebalances.

While work is in hand its partitions are paused and the member keeps polling, so the group never
throws it out for being slow. Everything that may take long is done in the background through here.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, cast

from kafka import TopicPartition
from kafka import errors as client
from kafka.structs import MemberState

from stream_icd.errors import (
    BrokerError,
    BrokerUnavailable,
    ClientStuck,
    DeliveryFailed,
    OffsetGone,
    RecordUndecodable,
)
from stream_icd.kafka.assignments import Assignments
from stream_icd.kafka.batch import Batch
from stream_icd.kafka.clock import Clock
from stream_icd.kafka.delivery import GROUP_MOVED_ON, GroupMovedOn
from stream_icd.kafka.lag import Lag, is_read, position
from stream_icd.kafka.poll import Poller
from stream_icd.kafka.reader import what_is_left
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.stop import Stop
from stream_icd.kafka.translate import translate, translated
from stream_icd.kafka.watcher import Watcher
from stream_icd.kafka.workarounds.fetched_records import Undecodable
from stream_icd.kafka.workarounds.membership import keep_joining, last_heard
from stream_icd.kafka.worker import Worker

log = logging.getLogger(__name__)
Result = TypeVar("Result")
Polled = dict[TopicPartition, list[Any]]

POLL_MS = 200
# While work is in hand: how often to poll, and how long a poll may take from a result's latency.
BUSY_POLL_EVERY_S = 0.1
BUSY_POLL_MS = 10
COMMIT_TIMEOUT_S = 2.0
BACKOFF_S = 1.0


class GiveBack(Exception):
    """We were asked to stop, and what is in hand would take too long: somebody else does it."""


class Membership:
    """A consumer as a member of its group.

    Attributes:
        assignments: which partitions are ours now.
        in_hand: of partitions with records in hand, the offset of the first: from there on they
            count as lag.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        group: str,
        consumer: Any,
        poller: Poller,
        stop: Stop,
        watcher: Watcher,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group
        self._consumer = consumer
        self._poller = poller
        self._stop = stop
        self._watcher = watcher
        self._clock = clock
        self._errands = Worker(f"{group}-errands")
        self._lag = Lag(consumer, clock.now)
        self._stop_by = float("inf")
        self.assignments = Assignments(consumer)
        self.in_hand: Mapping[TopicPartition, int] = {}

    def join(self) -> None:
        """Begin to take part; partitions come with the polls that follow."""
        self._consumer.subscribe([self._topic], listener=self.assignments)

    def close(self) -> None:
        """Start nothing in the background any more; what was started ends by itself."""
        self._errands.close()

    @property
    def id(self) -> str:
        """What the group calls us now."""
        return str(self._consumer.group_metadata().member_id)

    def fetch(self, timeout_ms: int, max_records: int | None) -> Polled:
        """Records of our partitions that come within that time.

        Raises:
            GiveBack: the client is stuck, and we were asked to stop.
            OffsetGone, RecordUndecodable, MessageTooLarge, ClientStuck: as `run_consumer`.
        """
        polled = self._poll(timeout_ms, max_records)
        self._lag.fetched()
        return polled

    def insist(self, work: Callable[[], object]) -> None:
        """Have `work` done in the background, again and again while the broker is away."""
        while True:
            try:
                self.wait_for(work)
                return
            except (BrokerUnavailable, DeliveryFailed) as error:
                self.back_off(error)

    def back_off(self, error: Exception) -> None:
        """Wait a little for a broker that is away."""
        log.warning("waiting for the broker: %s", error)
        self.wait_for(partial(self._clock.sleep, BACKOFF_S))

    def begin(self, work: Callable[[], Result]) -> Future[Result]:
        """Have `work` done in the background after all that was begun before."""
        return self._errands.submit(work)

    def wait_for(self, work: Callable[[], Result]) -> Result:
        """Have `work` done in the background, and keep polling until it is."""
        return self.finished(self.begin(work))

    def finished(self, future: Future[Result]) -> Result:
        """What the future gives; keeps polling until it does.

        Raises:
            GiveBack: we were asked to stop, and that would take longer than
                `shutdown_timeout_s`.
        """
        while not concurrent.futures.wait([future], timeout=self._pause_s()).done:
            self._poll_while_busy()
        return future.result()

    def settled(self) -> Any:
        """The group's current generation, once we are a member of it; polls until we are.

        To be taken before looking at the assignments: a generation that ends in between is then
        refused by the broker. One without a member would not be fenced at all (KIP-447).
        """
        while True:
            membership = self._consumer.group_metadata()
            if is_settled(membership):
                return membership
            self._poll_while_busy()

    def commit(self, batch: Batch) -> bool:
        """Commit what comes after a batch; False: the broker cannot now, so try again.

        Raises:
            GroupMovedOn: the group has a new generation, or is about to have one.
        """
        try:
            self._consumer.commit(batch.next, timeout_ms=COMMIT_TIMEOUT_S * 1000)
            return True
        except GROUP_MOVED_ON as error:
            raise GroupMovedOn(str(error)) from error
        except client.RetriableError as error:
            log.warning("committing again: %s", error)
            self._poll_while_busy()
            return False
        except client.KafkaError as error:
            raise translate(error, f"commit {batch.places} of group {self._group}") from error

    def committed(self, partition: TopicPartition) -> int | None:
        """What the group has committed there, once no open transaction holds it any more.

        Raises:
            BrokerUnavailable: it cannot be had now.
        """
        with translated("look up what is committed"):
            found = self._consumer.committed(partition, timeout_ms=COMMIT_TIMEOUT_S * 1000)
        return cast(int | None, found)

    def without_position(self) -> list[TopicPartition]:
        """Those of our partitions of which it is not known yet where to read on."""
        return [p for p in self.assignments.ours() if position(self._consumer, p) is None]

    def is_read(self, partition: TopicPartition) -> bool:
        """Whether everything is read there that the last fetch told of."""
        return is_read(self._consumer, partition)

    def _poll_while_busy(self) -> None:
        """Take part in the group without taking records."""
        if self._stop.is_set():
            self._stop_by = min(
                self._stop_by, self._clock.now() + self._settings.shutdown_timeout_s
            )
        if self._clock.now() > self._stop_by:
            raise GiveBack
        self.assignments.pause()
        if self._poll(BUSY_POLL_MS if self._is_member() else POLL_MS):
            raise BrokerError("the client gave records of paused partitions")

    def _poll(self, timeout_ms: int, max_records: int | None = None) -> Polled:
        polled = self._polled(timeout_ms, max_records)
        self._watcher.polled(self._generation(), self._silence_s())
        just_now = {p: records[0].offset for p, records in polled.items()}
        lag = self._lag.look(self.assignments.ours(), {**just_now, **self.in_hand})
        if lag is not None:
            self._watcher.lagged(lag)
        return polled

    def _polled(self, timeout_ms: int, max_records: int | None) -> Polled:
        try:
            polled = self._poller.poll(timeout_ms, max_records)
            keep_joining(self._consumer)
            return polled
        except client.NoOffsetForPartitionError as error:
            for partition in error.args[0]:  # the group never committed it
                with contextlib.suppress(ValueError):  # it may have gone just now
                    self._consumer.seek_to_beginning(partition)
        except client.OffsetOutOfRangeError as error:
            raise OffsetGone(
                f"group {self._group}: {error}; {what_is_left(self._consumer)}. To go on there, "
                f"{self._skip}"
            ) from error
        except Undecodable as error:
            raise RecordUndecodable(
                f"group {self._group}: {error}. To go on after them, {self._skip} "
                f"--to {error.partition.partition}:{error.end}"
            ) from error
        except ClientStuck as error:
            if self._stop.is_set():
                raise GiveBack from error
            raise ClientStuck(f"{error}: {self._skip} --to PARTITION:OFFSET") from error
        except client.RetriableError as error:
            log.warning("polling again: %s", error)
        except client.KafkaError as error:
            with translated(f"consume {self._topic}"):
                raise error
        return {}

    @property
    def _skip(self) -> str:
        """How to pass over records, in a sentence of an error."""
        return (
            f"stop the group and run: stream-icd topics skip --group {self._group} "
            f"--topic {self._topic}"
        )

    def _generation(self) -> int | None:
        """The group's generation, where we are a settled member of it."""
        membership = self._consumer.group_metadata()
        return int(membership.generation_id) if is_settled(membership) else None

    def _silence_s(self) -> float:
        """Seconds since the broker last answered a heartbeat, or let us join."""
        return self._clock.now() - last_heard(self._consumer)

    def _is_member(self) -> bool:
        return bool(self._consumer.group_metadata().state == MemberState.STABLE)

    def _pause_s(self) -> float:
        """Between two polls; none while joining, since the client (3.0.12) joins once more where
        a join succeeds between two polls."""
        return BUSY_POLL_EVERY_S if self._is_member() else 0.0


def is_settled(membership: Any) -> bool:
    """Whether a member knows its group's generation, and nothing is about to change it."""
    return bool(membership.state == MemberState.STABLE and membership.generation_id >= 0)
