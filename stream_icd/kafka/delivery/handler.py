"""What a consumer does with its records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from stream_icd.errors import RecordTooLarge
from stream_icd.kafka.record import OutgoingRecord, Record


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch whose results were published and whose offsets were committed."""

    records: tuple[Record, ...]
    outgoing: tuple[OutgoingRecord, ...]
    handle_seconds: float
    publish_seconds: float


GIVEN_UP_AFTER = 3
"""A record that ended this many workers in a row is given up."""

DIED = "the process died"
"""How a worker ended, or a process of it, if nothing more is known."""

Handle = Callable[[Sequence[Record]], Iterable[OutgoingRecord]]
GiveUp = Callable[[Record, int, str], Iterable[OutgoingRecord]]
Learn = Callable[[RecordTooLarge], object]


@dataclass(frozen=True, slots=True)
class Handler:
    """What is called with the records of a consumer, in a thread of its own, one batch at a time.

    Attributes:
        handle: gets the records of a batch, and returns the records to publish. If it raises,
            nothing of its batch is published or committed, and the consumer ends with the error. So
            it should dead-letter bad records (publish them to the dead-letter topic) rather than
            raise. `CrashedWorker`, which says how a process of the worker ended, does not end the
            consumer if there is `give_up`: the records come again, one by one.
        assigned: called before the first records that come after partitions were assigned to us, or
            after a batch could not be committed: what `handle` knows of these partitions may be
            wrong. They are all that we have now, whether there are records of them or not.
        done: called after each commit; from then on, the state that `handle` keeps is valid.
        give_up: gets a record that ended three workers or more in a row, how many, and how the last
            one ended; returns what to publish for it. A worker ends by `kill -9`, or by an error
            from `handle` that the record may have caused. This is remembered across restarts in
            the topic `icd.workers.v1`. None: nothing is, and such a record is retried forever.
        learn: called with a result that its topic does not accept. Nothing of its batch is
            committed, and `handle` gets the batch again; it must not return a result of that size
            again. None: such a result stops the worker.
        ahead: `handle` may begin the next batch while the results of one are published, since its
            work does not depend on the batch before. The next batch is dropped if the one before
            cannot be committed, or if the consumer is to stop.
    """

    handle: Handle
    assigned: Callable[[Collection[int]], None] = lambda _: None
    done: Callable[[BatchDone], None] = lambda _: None
    give_up: GiveUp | None = None
    learn: Learn | None = None
    ahead: bool = False
