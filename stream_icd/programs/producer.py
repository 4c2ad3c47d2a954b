"""The common part of producer programs: send the source, show progress, print a summary."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event

import structlog
import typer
from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from stream_icd.errors import BadRow, ContentChanged, NoGoodRows
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.somebody import check_that_somebody_listens
from stream_icd.kafka.topics import DEFAULT_TOPICS, LABELS, SNAPSHOTS, create_topics
from stream_icd.log import configure_logging
from stream_icd.messages.claims import ClaimCheck
from stream_icd.messages.publish import (
    Destination,
    Pace,
    Published,
    SentBefore,
    partitioning,
    publish_source,
    read_sent_before,
)
from stream_icd.printable import listed
from stream_icd.programs.options import Sending, chosen_settings
from stream_icd.programs.process import stop_on_signals
from stream_icd.snapshot import Snapshot
from stream_icd.sources.source import Source, stop_at_bad_row
from stream_icd.sources.windows import LateRows, OnLate
from stream_icd.tracing import Tracing, traces_of

SHOWN_BAD_ROWS = 5
INTERRUPTED = 130
"""Exit status after a requested stop, as shells use for Ctrl-C."""


class BadRows:
    """Counts the rows that cannot be read, and shows the first few."""

    def __init__(self, *, strict: bool) -> None:
        self.count = 0
        self.first = ""
        self._strict = strict

    def __call__(self, error: BadRow) -> None:
        """Note a bad row.

        Raises:
            BadRow: when strict.
        """
        if self._strict:
            stop_at_bad_row(error)
        self.count += 1
        self.first = self.first or str(error)
        if self.count <= SHOWN_BAD_ROWS:
            structlog.get_logger().warning("bad row", reason=str(error))


@dataclass(frozen=True)
class ProducerRun:
    """Information about the run for a producer's source.

    Attributes:
        settings: connection to Kafka.
        options: what to send, and how.
        topic: where snapshots go.
        bad_rows: called with each row that cannot be read.
        stop: set when a stop is requested.
        left_out: counts of data left out on purpose, by kind.
    """

    settings: KafkaSettings
    options: Sending
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
    options: Sending,
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
    settings = chosen_settings(options.bootstrap_servers)
    run = ProducerRun(settings, options, BadRows(strict=options.strict), stop, topic)
    source, limit = open_source(run), options.limit
    total = source.total if limit is None else min(limit, source.total or limit)
    sent_before, changed = run.sent_before, Changed(run.sent_before)
    labels = LABELS if topic == SNAPSHOTS else None
    partition_of = partitioning(settings, options.partition_by, topic)
    with (
        Publisher(settings) as publisher,
        progress_bar() as progress,
        traces_of("produce") as tracing,
    ):
        task = progress.add_task("sent", total=total)

        def on_already(snapshot: Snapshot) -> None:
            changed.look_at(snapshot)
            progress.advance(task, 1 if limit is None or total == source.total else 0)

        sent = publish_source(
            source,
            publisher,
            pace,
            Destination(topic, labels, partition_of, _traced(ClaimCheck(settings), tracing)),
            limit=limit,
            already=sent_before,
            stop=stop,
            on_sent=lambda _: progress.advance(task),
            on_already=on_already,
        )
    _sum_up(sent, run, way_out)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
    _refuse_nothing_but_bad_rows(sent, run)
    changed.refuse(topic)
    return sent


def _traced(
    claim_check: ClaimCheck, tracing: Tracing | None
) -> Callable[[OutgoingRecord], OutgoingRecord]:
    """The claim check of records, which have the context of a span where there are traces."""
    if tracing is None:
        return claim_check
    return lambda record: claim_check(tracing.created(record))


class Changed:
    """Collects the snapshots that the topic holds with other content, and that were not sent."""

    def __init__(self, sent_before: SentBefore) -> None:
        self._sent_before = sent_before
        self._ids: list[str] = []

    def look_at(self, snapshot: Snapshot) -> None:
        """Check a snapshot that was not sent; the first changed ones are logged."""
        if self._sent_before.is_changed(snapshot):
            self._ids.append(snapshot.id)
            if len(self._ids) <= SHOWN_BAD_ROWS:
                structlog.get_logger().warning(
                    "not sent: the topic holds this snapshot with other content",
                    graph=snapshot.graph,
                    snapshot=snapshot.id,
                )

    def refuse(self, topic: str) -> None:
        """Check that no snapshots have changed.

        Raises:
            ContentChanged: some have.
        """
        if self._ids:
            raise ContentChanged(
                f"{len(self._ids):,} snapshots were not sent, because {topic} holds them with "
                f"other content: {listed(self._ids)}. Send them as corrections with --correct, "
                "or send everything again with --again"
            )


def _refuse_nothing_but_bad_rows(sent: Published, run: ProducerRun) -> None:
    if run.bad_rows.count and not sent.snapshots and not sent.already_sent:
        raise NoGoodRows(
            f"no snapshot was sent: the input has {run.bad_rows.count:,} bad rows and no good "
            f"ones; the first bad row: {run.bad_rows.first}"
        )


def _sum_up(sent: Published, run: ProducerRun, way_out: str) -> None:
    structlog.get_logger().info(
        "stopped" if run.stop.is_set() else "finished",
        snapshots=sent.snapshots,
        already_sent=sent.already_sent,
        labels=sent.labels,
        nodes=sent.nodes,
        edges=sent.edges,
        bytes=sent.bytes,
        bad_rows=run.bad_rows.count,
        **run.left_out,
    )
    if sent.already_sent:
        which = "some" if sent.snapshots else "nothing was sent: all"
        structlog.get_logger().log(
            logging.INFO if sent.snapshots else logging.WARNING,
            f"{which} of these snapshots are in the topic already ({way_out})",
            already_sent=sent.already_sent,
            topic=run.topic,
        )


class _Rate(TextColumn):
    """Snapshots per second."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="progress.data.speed")


def progress_bar() -> Progress:
    """Show count, rate and times on standard error; nothing if it is not a terminal."""
    return Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not Console(stderr=True).is_terminal,
    )
