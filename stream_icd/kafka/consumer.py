"""Consume a topic as a group member: poll, process, publish, commit.

`Membership` polls and handles rebalances, `BatchFlow` moves batches from poll to delivery, and
`BatchDelivery` publishes and commits. If another member gets a partition of a batch in processing,
the batch is not committed, and the partitions that are still ours are read again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from stream_icd.kafka.clock import Clock, Stop
from stream_icd.kafka.connect import connect, joining_quickly
from stream_icd.kafka.delivery.attempts import Attempts
from stream_icd.kafka.delivery.batch_delivery import BatchDelivery
from stream_icd.kafka.delivery.batch_flow import BatchFlow
from stream_icd.kafka.delivery.delivery import Delivery, resolve
from stream_icd.kafka.delivery.handler import Handler, Watcher
from stream_icd.kafka.group.hanging import HeldOffsets
from stream_icd.kafka.group.membership import GiveBack, Membership
from stream_icd.kafka.group.periodic_checks import PeriodicChecks
from stream_icd.kafka.group.worker import Worker
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic


def run_consumer(
    settings: KafkaSettings,
    topic: str,
    group: str,
    handler: Handler,
    stop: Stop,
    *,
    delivery: Delivery = Delivery.AUTO,
    max_records: int = 16,
    watchers: Sequence[Watcher] = (),
    clock: Clock = Clock(),
) -> Delivery:
    """Consume `topic` in `group` until `stop`, and return the delivery guarantee that was used.

    `handler.handle` gets up to `max_records` records, in offset order within each partition. If it
    raises, the error is raised here.

    A partition without a committed offset is read from its beginning. After `stop` is set, the
    batch in hand is finished, or given back if it takes longer than `shutdown_timeout_s`; then
    the member leaves the group.

    Args:
        watchers: get the events of the loop; do not affect it.
        clock: the source of time for checks, waits and timeouts.

    Raises:
        TopicMissing: there is no such topic (any more).
        OffsetGone: retention removed what the group would have read next.
        MessageTooLarge: the next record is larger than the largest accepted fetch response (100 MB
            and `max_message_bytes`).
        RecordTooLarge: a result is larger than its topic accepts, and `handler.learn` raises it.
        OffsetHeld: the broker withholds the group's position for longer than a transaction lasts.
        RecordUndecodable: the next records cannot be decoded; all records before are done.
        ClientStuck: the client has not returned for `max_poll_interval_s`.
        NameTaken: another worker has started under the `instance_id` of this one.
        NotAllowed: the broker refuses because we lack a permission.
        NotSupported: exactly-once was requested and this broker does not support it.
        BrokerUnavailable: no broker answers at the start. Later, the worker waits for the broker.
        DeliveryFailed: results could not be published in 5 attempts.
    """
    describe_topic(settings, topic)
    kept = resolve(settings, delivery)
    settings = joining_quickly(settings)
    consumer = connect(settings).member(group, max_records, stop)
    try:
        member = Membership(settings, topic, group, consumer, stop, watchers, clock)
        in_hand = max_records * (2 if handler.ahead else 1)
        checks = PeriodicChecks(
            settings, topic, member, HeldOffsets(settings, group, clock.now), clock
        )
        flow = BatchFlow(
            member,
            BatchDelivery(settings, group, kept, member, checks, handler, clock),
            Attempts(settings, topic, group, in_hand if handler.gives_up else 0),
            checks,
            handler,
            watchers,
            Worker(f"{group}-worker"),
            clock,
        )
        with contextlib.suppress(GiveBack):
            flow.run(stop)
    finally:
        consumer.close()
    return kept
