"""Consume a topic as one of a group: poll, process, publish, commit.

The work is shared: `Membership` polls and answers rebalances, `BatchFlow` takes the records their
way, `BatchDelivery` publishes and commits. A batch of which any partition went to somebody else
meanwhile is not committed; what is still ours of it is read again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from stream_icd.kafka.attempts import Attempts
from stream_icd.kafka.batch_delivery import BatchDelivery, Learn
from stream_icd.kafka.batch_done import BatchDone
from stream_icd.kafka.batch_flow import BatchFlow, Handle
from stream_icd.kafka.clock import Clock
from stream_icd.kafka.connect import connect
from stream_icd.kafka.crashed_records import CrashedRecords, GiveUp
from stream_icd.kafka.delivery import Delivery, resolve
from stream_icd.kafka.held_offsets import HeldOffsets
from stream_icd.kafka.membership import GiveBack, Membership
from stream_icd.kafka.periodic_checks import PeriodicChecks
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.stop import Stop
from stream_icd.kafka.topics import describe_topic
from stream_icd.kafka.watcher import Watcher
from stream_icd.kafka.worker import Worker


def run_consumer(
    settings: KafkaSettings,
    topic: str,
    group: str,
    handle: Handle,
    stop: Stop,
    *,
    delivery: Delivery = Delivery.AUTO,
    max_records: int = 16,
    on_done: Callable[[BatchDone], None] = lambda _: None,
    watcher: Watcher | None = None,
    ahead: bool = False,
    give_up: GiveUp | None = None,
    learn: Learn | None = None,
    clock: Clock = Clock(),
) -> Delivery:
    """Consume `topic` in `group` until `stop`, and return the delivery that was kept.

    `handle` gets up to `max_records` records, in offset order within each partition, and gives
    what to publish. It runs in a thread of its own, one batch at a time. When it raises, nothing
    of its batch is published or committed, and the error is raised here: so it should set bad
    records aside (publish them to the dead-letter topic) rather than raise.

    A partition that the group never committed is read from its beginning. After `stop` is set the
    batch in hand is finished, or given back when it takes longer than `shutdown_timeout_s`; then
    the group is left.

    Args:
        on_done: called after each commit: what `handle` remembers counts from then on.
        watcher: told how the loop is doing; changes nothing.
        ahead: have `handle` begin the next batch while the results of one are published, for work
            that needs no memory of the batch before. What was begun after a batch that could not
            be committed, or when `stop` is set, is dropped.
        give_up: what to publish for a record that ended three workers in a row, and how it did:
            by a `kill -9` of the process, or an error out of `handle` that may be its fault. It
            is remembered across restarts in the topic `icd.workers.v1`. None: nothing is
            remembered, and such a record is tried for ever.
        learn: told of a result that its topic does not take. Nothing of its batch is committed,
            and `handle` gets the batch again; it must not give a result of that size any more.
            None: such a result ends the worker.
        clock: tells when to look, to wait and to give up.

    Raises:
        TopicMissing: there is no such topic (any more).
        OffsetGone: retention removed what the group would have read next.
        MessageTooLarge: the next record is larger than what is taken as one answer (100 MB and
            `max_message_bytes`).
        RecordTooLarge: a result is larger than its topic takes, and nobody is there to `learn`.
        OffsetHeld: the broker keeps the group's position back, longer than a transaction lasts.
        RecordUndecodable: what the topic holds next cannot be decoded; all before it is done.
        ClientStuck: the client has not returned for `max_poll_interval_s`.
        NameTaken: another worker has started under the `instance_id` of this one.
        NotAllowed: the broker refuses, because of who we are.
        NotSupported: exactly-once was asked for and this broker cannot.
        BrokerUnavailable: nobody answers at the start. Later, the broker is waited for.
        DeliveryFailed: results could not be published in 5 attempts.
    """
    describe_topic(settings, topic)
    kept = resolve(settings, delivery)
    consumer = connect(settings).member(group, max_records, stop)
    watcher = watcher or Watcher()

    def done(batch: BatchDone) -> None:
        on_done(batch)
        watcher.done(batch)

    try:
        member = Membership(settings, topic, group, consumer, stop, watcher, clock)
        attempts = Attempts(settings, topic, group, max_records * (2 if ahead else 1))
        held = HeldOffsets(settings, group, clock.now)
        checks = PeriodicChecks(settings, topic, member, held, clock)
        flow = BatchFlow(
            member,
            BatchDelivery(settings, group, kept, member, held, learn, checks.look_at_topic, clock),
            CrashedRecords(member, attempts, give_up),
            held,
            checks,
            handle,
            done,
            ahead,
            Worker(f"{group}-worker"),
            clock,
        )
        with contextlib.suppress(GiveBack):
            flow.run(stop)
    finally:
        consumer.close()
    return kept
