"""Poll a consumer, and detect why it never returns records."""

from __future__ import annotations

import concurrent.futures
import logging
from concurrent.futures import Future
from functools import partial
from typing import Any

from kafka import TopicPartition
from kafka import errors as client

from stream_icd.errors import ClientStuck, MessageTooLarge
from stream_icd.kafka.client.workarounds.fetched_records import reads_next
from stream_icd.kafka.client.workarounds.network import last_failure
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.group.worker import Worker
from stream_icd.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
CLOSE_TIMEOUT_S = 2.0


class Poller:
    """Polls and closes a consumer; neither blocks forever if the client never returns.

    The client runs in its own thread, which dies with the process if the client is stuck.

    A poll normally returns within a fraction of a second. The client (3.0.12) also resolves broker
    names in it, which may take minutes if no name server answers. A poll that takes longer than
    `max_poll_interval_s`, when the group removes the member, is taken as never returning.

    Args:
        stop: once it is set, wait at most `shutdown_timeout_s` for a client that does not return.
    """

    def __init__(self, consumer: Any, stop: Stop | None, settings: KafkaSettings) -> None:
        self._consumer = consumer
        self._stop = stop
        self._stuck_after_s = settings.max_poll_interval_s
        self._shutdown_s = settings.shutdown_timeout_s
        self._worker = Worker("poll")
        self._is_stuck = False
        self._is_closed = False

    def poll(
        self, timeout_ms: int, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        """Return the available records by partition; if none, wait up to `timeout_ms` for some.

        Args:
            max_records: the maximum number of records; None: as the consumer is configured.

        Raises:
            MessageTooLarge: the next record is larger than any response that the client accepts.
            ClientStuck: the client does not return.
            KafkaError: any error of the client, unchanged.
        """
        polling = self._worker.submit(
            partial(self._consumer.poll, timeout_ms=timeout_ms, max_records=max_records)
        )
        waited_s = 0.0  # counted, not measured, so that a suspended machine does not count
        while not concurrent.futures.wait([polling], LOOK_EVERY_S).done:
            waited_s += LOOK_EVERY_S
            if waited_s >= self._patience_s():
                self._is_stuck = True
                raise self._stuck(waited_s)
        polled = dict(polling.result())
        if not polled:
            _check_room(self._consumer)
        return polled

    def close(self) -> None:
        """Close the consumer after its current poll; abandon it if it does not return.

        Later calls do nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        closing = self._worker.submit(
            partial(self._consumer.close, timeout_ms=CLOSE_TIMEOUT_S * 1000)
        )
        self._worker.close()
        patience_s = 0.0 if self._is_stuck else self._shutdown_s
        if concurrent.futures.wait([closing], patience_s).done:
            _log_failure(closing)
        else:
            log.warning("the Kafka client does not close; ending without closing it")

    def _patience_s(self) -> float:
        asked_to_stop = self._stop is not None and self._stop.is_set()
        return min(self._shutdown_s, self._stuck_after_s) if asked_to_stop else self._stuck_after_s

    def _stuck(self, waited_s: float) -> ClientStuck:
        places = ", ".join(
            f"{p.topic}[{p.partition}] at offset {offset}"
            for p, offset in reads_next(self._consumer).items()
        )
        return ClientStuck(
            f"the Kafka client has not returned for {waited_s:.0f} s while reading {places}. "
            "Start again. If it stops at the same offset again, skip that record"
        )


def _log_failure(closing: Future[None]) -> None:
    try:
        closing.result()
    except client.KafkaError as error:  # it is closed, and earlier work is valid
        log.warning("closing the Kafka client: %s", error)


def _check_room(consumer: Any) -> None:
    """Raise an error if a poll was empty because the next record is too large.

    The client (3.0.12) only logs this, and requests the record again forever.
    """
    failure = last_failure(consumer)
    if isinstance(failure, client.InvalidReceiveError) and not consumer.paused():
        ours = ", ".join(f"{p.topic}[{p.partition}]" for p in sorted(consumer.assignment()))
        raise MessageTooLarge(
            f"the next record of {ours} is too large: a response may have at most "
            f"{consumer.config['receive_message_max_bytes']} bytes ({failure.args[0]}). Set "
            "STREAM_ICD_MAX_MESSAGE_BYTES to that length here, and a claim store where large "
            "snapshots are sent (docs/big_snapshots.md)"
        )
