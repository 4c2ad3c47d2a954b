"""The common part of producer programs: send the source, show progress, print a summary."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event

import structlog

from stream_icd.errors import BadRow, ContentChanged, NoGoodRows
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings, check_that_somebody_listens
from stream_icd.kafka.topics import DEFAULT_TOPICS, LABELS, SNAPSHOTS, create_topics, describe_topic
from stream_icd.log import configure_logging
from stream_icd.messages.claims import ClaimCheck
from stream_icd.messages.publish import (
    Destination,
    Pace,
    Published,
    SentBefore,
    publish_source,
    read_sent_before,
)
from stream_icd.printable import listed
from stream_icd.programs.options import Producer
from stream_icd.programs.process import stop_on_signals
from stream_icd.programs.terminal import finish, progress_bar
from stream_icd.snapshot import Snapshot
from stream_icd.sources.source import Source, stop_at_bad_row
from stream_icd.sources.windows import LateRows, OnLate
from stream_icd.tracing import Tracing, traces_of

SHOWN = 5
"""Number of bad rows, and of changed snapshots, that are logged."""


class BadRows:
    """Counts the rows that cannot be read, and shows the first few."""

    def __init__(self, *, strict: bool) -> None:
        self.count = 0
        self.first = ""
        self._strict = strict

    def __call__(self, error: BadRow) -> None:
        """Note a bad row; if strict, raise it."""
        if self._strict:
            stop_at_bad_row(error)
        self.count += 1
        self.first = self.first or str(error)
        if self.count <= SHOWN:
            structlog.get_logger().warning("bad row", reason=str(error))


@dataclass(frozen=True)
class ProducerRun:
    """Information about the run for a producer's source.

    Attributes:
        bad_rows: called with each row that cannot be read.
        stop: set when a stop is requested.
        left_out: counts of data left out on purpose, by kind.
    """

    settings: KafkaSettings
    options: Producer
    bad_rows: BadRows
    stop: Event
    topic: str = SNAPSHOTS
    left_out: Counter[str] = field(default_factory=Counter)

    @cached_property
    def sent_before(self) -> SentBefore:
        """The snapshots already in the topic, which are not sent again; read once."""
        check_that_somebody_listens(self.settings)
        own = [] if self.topic == SNAPSHOTS else TopicSpec(self.topic).with_dead_letters()
        create_topics(self.settings, [*DEFAULT_TOPICS, *own])
        if self.options.again:
            return SentBefore()
        return read_sent_before(self.settings, self.topic, correct=self.options.correct)

    def count(self, what: str, how_many: int) -> None:
        """Count data that was left out; the summary shows it."""
        self.left_out[what] += how_many

    def on_late(self, path: Path) -> OnLate:
        """Count rows that are too late for their windows, and write them to this file."""
        return LateRows(path, self.count)


def run_producer(
    open_source: Callable[[ProducerRun], Source],
    options: Producer,
    topic: str = SNAPSHOTS,
    way_out: str = "--again sends them once more",
) -> Published:
    """Send a source's snapshots that are not in the topic, and report what was sent.

    Ctrl-C or SIGTERM ends it between two snapshots; all sent snapshots are acknowledged.

    Args:
        topic: topic of the snapshots; labels are sent only with those of the live topic.
        way_out: what to do if the topic already holds everything.

    Raises:
        ContentChanged: the topic holds some of the snapshots with other content; raised after all
            others are sent.
        NoGoodRows: all rows were bad.
        BadSettings, SourceNotFound, BadRow, BrokerError: see these classes.
    """
    configure_logging()
    stop = stop_on_signals()
    pace = Pace(options.rate, time.monotonic, stop.wait)
    settings = options.kafka(check=False)
    run = ProducerRun(settings, options, BadRows(strict=options.strict), stop, topic)
    source, limit = open_source(run), options.limit
    total = source.total if limit is None else min(limit, source.total or limit)
    sent_before, changed = run.sent_before, list[str]()
    labels = LABELS if topic == SNAPSHOTS else None
    by_graph = options.partition_by == "graph"
    spread_over = None if by_graph else describe_topic(settings, topic).partitions
    with (
        Publisher(settings) as publisher,
        progress_bar() as progress,
        traces_of("produce") as tracing,
    ):
        task = progress.add_task("sent", total=total)

        def on_already(snapshot: Snapshot) -> None:
            progress.advance(task, 1 if limit is None or total == source.total else 0)
            if sent_before.is_changed(snapshot):
                changed.append(snapshot.id)
                if len(changed) <= SHOWN:
                    structlog.get_logger().warning(
                        "not sent: the topic holds this snapshot with other content",
                        graph=snapshot.graph,
                        snapshot=snapshot.id,
                    )

        sent = publish_source(
            source,
            publisher,
            pace,
            Destination(topic, labels, spread_over, _traced(ClaimCheck(settings), tracing)),
            limit=limit,
            already=sent_before,
            stop=stop,
            on_sent=lambda _: progress.advance(task),
            on_already=on_already,
        )
    _sum_up(sent, run, way_out)
    _check(sent, run, changed)
    return sent


def _traced(
    claim_check: ClaimCheck, tracing: Tracing | None
) -> Callable[[OutgoingRecord], OutgoingRecord]:
    """The claim check of records, which have the context of a span where there are traces."""
    if tracing is None:
        return claim_check
    return lambda record: claim_check(tracing.created(record))


def _check(sent: Published, run: ProducerRun, changed: Sequence[str]) -> None:
    if run.bad_rows.count and not sent.snapshots and not sent.already_sent:
        raise NoGoodRows(
            f"no snapshot was sent: the input has {run.bad_rows.count:,} bad rows and no good "
            f"ones; the first bad row: {run.bad_rows.first}"
        )
    if changed:
        raise ContentChanged(
            f"{len(changed):,} snapshots were not sent, because {run.topic} holds them with other "
            f"content: {listed(changed)}. Send them as corrections with --correct, or send "
            "everything again with --again"
        )


def _sum_up(sent: Published, run: ProducerRun, way_out: str) -> None:
    if sent.already_sent:
        which = "some" if sent.snapshots else "nothing was sent: all"
        structlog.get_logger().log(
            logging.INFO if sent.snapshots else logging.WARNING,
            f"{which} of these snapshots are in the topic already ({way_out})",
            already_sent=sent.already_sent,
            topic=run.topic,
        )
    finish(run.stop, False, **asdict(sent), bad_rows=run.bad_rows.count, **run.left_out)
