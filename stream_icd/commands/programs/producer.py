"""The common part of producer programs: send the source, show progress, print a summary."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import structlog

from stream_icd.commands.programs.process import finish, progress_bar, stop_on_signals
from stream_icd.core.errors import BadInput, BadRow, ContentChanged, NoGoodRows, OffsetGone
from stream_icd.core.log import configure_logging
from stream_icd.core.printable import listed
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.connect import wait_for_broker
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.pacing import Tempo, paced
from stream_icd.kafka.messages.publish import Published, SentBefore, publish_source
from stream_icd.kafka.publisher import WaitingPublisher
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import (
    DEFAULT_TOPICS,
    LABELS,
    SNAPSHOTS,
    check_topic_for,
    create_topics,
    describe_topic,
    messages_topic,
)
from stream_icd.kafka.tracing import traces_of
from stream_icd.kafka.waiting import Outage, insist
from stream_icd.sources.source import Source
from stream_icd.sources.values import IdKind
from stream_icd.sources.windows import LateRows, OnLate, OnOpen

if TYPE_CHECKING:
    from stream_icd.commands.programs.options import Producer

_SHOWN = 5
"""Number of bad rows, and of changed snapshots, that are logged."""


@dataclass
class ProducerRun:
    """Information about the run for a producer's source.

    Attributes:
        stop: set when a stop is requested.
        left_out: counts of data left out on purpose, by kind.
    """

    settings: KafkaSettings
    options: Producer
    stop: Event
    topic: str = SNAPSHOTS
    left_out: Counter[str] = field(default_factory=Counter)
    n_bad_rows: int = 0
    first_bad_row: str = ""

    @cached_property
    def sent_before(self) -> SentBefore:
        """The snapshots already in the topic, which are not sent again; read once."""
        wait_for_broker(self.settings, self.outage, self.stop)
        return insist(self._read_sent_before, self.outage, self.stop)

    @cached_property
    def outage(self) -> Outage:
        return Outage(self.options.give_up_after_s)

    def _read_sent_before(self) -> SentBefore:
        own = [] if self.topic == SNAPSHOTS else messages_topic(self.topic).with_dead_letters()
        # Before reading, which refuses a topic that is not there.
        create_topics(self.settings, [*DEFAULT_TOPICS, *own])
        if self.options.again:
            return SentBefore()
        correct = self.options.correct
        return SentBefore.read(self.settings, self.topic, correct=correct, stop=self.stop)

    def kind_before(self, graph: str) -> IdKind:
        """Return the kind of ids of the graph's last snapshot in the topic; `auto` if it has none.

        `auto`, too, and logged, if that snapshot cannot be read.
        """
        try:
            last = self.sent_before.last_of(graph, self.settings, self.topic)
        except (BadInput, OffsetGone) as error:
            structlog.get_logger().warning(
                "the graph's last snapshot cannot be read, so ids may have another type than there "
                "(--ids sets it)",
                graph=graph,
                reason=str(error),
            )
            return "auto"
        return "auto" if last is None else last.kind_of_ids

    def bad_rows(self, error: BadRow) -> None:
        """Count a row that cannot be read, and log the first few; with `--strict`, raise it."""
        if self.options.strict:
            raise error
        self.n_bad_rows += 1
        self.first_bad_row = self.first_bad_row or str(error)
        if self.n_bad_rows <= _SHOWN:
            structlog.get_logger().warning("bad row", reason=str(error))

    def count(self, kind: str, how_many: int) -> None:
        self.left_out[kind] += how_many

    def on_late(self, path: Path) -> OnLate:
        """Count rows that are too late for their windows, and write them to this file."""
        return LateRows(path, self.count)

    def on_open(self) -> OnOpen | None:
        """Count and log the rows of open windows; None: these windows are closed at the end."""

        def leave(n_rows: int, missing: Sequence[int]) -> None:
            self.count("open_rows", n_rows)
            log = structlog.get_logger()
            log.info(
                "rows of open windows are not sent: the next run reads them again (--flush sends "
                "them, if the topic has ended)",
                rows=n_rows,
            )
            if missing:
                log.warning(
                    "windows wait for partitions without a row (--quiet-after stops waiting)",
                    partitions=listed([str(partition) for partition in missing]),
                )

        return leave


def run_producer(
    open_source: Callable[[ProducerRun], Source],
    options: Producer,
    topic: str = SNAPSHOTS,
    way_out: str = "--again sends them once more",
) -> None:
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
    check_topic_for(topic, SNAPSHOTS)
    stop = stop_on_signals()
    tempo = options.tempo()  # a wrong one is refused before the source or the broker is asked
    run = ProducerRun(options.kafka(check=False), options, stop, topic)
    with _served(run):  # before the source opens: it may wait for the broker, alive and not ready
        sent, changed = _send(open_source(run), run, tempo)
    _report(sent, changed, run, way_out)


def _served(run: ProducerRun) -> AbstractContextManager[object]:
    port = run.options.metrics_port
    if port is None:
        return nullcontext()
    from stream_icd.streaming.metrics.programs import SendingMetrics
    from stream_icd.streaming.metrics.server import serving

    return serving(SendingMetrics(run.outage), port, run.options.metrics_host)


def _send(source: Source, run: ProducerRun, tempo: Tempo) -> tuple[Published, list[str]]:
    """Send what the topic lacks; return the counts, and what the topic has with other content."""
    options, limit, sent_before = run.options, run.options.limit, run.sent_before
    total = source.total if limit is None else min(limit, source.total or limit)
    changed, behind = list[str](), list[str]()
    labels = LABELS if run.topic == SNAPSHOTS else None
    by_graph = options.partition_by == "graph"
    spread_over = None if by_graph else describe_topic(run.settings, run.topic).partitions
    with (
        WaitingPublisher(run.settings, run.outage, run.stop) as publisher,
        progress_bar() as progress,
        traces_of("produce") as tracing,
    ):
        task = progress.add_task("sent", total=total)
        check = ClaimCheck(run.settings)
        fit = check if tracing is None else lambda record: check(tracing.created(record))

        def on_already(snapshot: Snapshot) -> None:
            # A limit counts what is sent, so what is passed over brings its end no nearer.
            progress.advance(task, 1 if limit is None or total == source.total else 0)
            if sent_before.is_changed(snapshot):
                changed.append(snapshot.id)
                if len(changed) <= _SHOWN:
                    structlog.get_logger().warning(
                        "not sent: the topic holds this snapshot with other content",
                        graph=snapshot.graph,
                        snapshot=snapshot.id,
                    )

        def on_sent(snapshot: Snapshot) -> None:
            progress.advance(task)
            if by_graph and sent_before.is_behind(snapshot) and not behind:
                behind.append(snapshot.id)
                structlog.get_logger().warning(
                    "the topic holds a later window of this graph: detectors and trackers take "
                    "windows before it for late; give what is another graph another --graph",
                    graph=snapshot.graph,
                    snapshot=snapshot.id,
                )

        def due(item: tuple[Snapshot, object]) -> datetime | None:
            snapshot, _labels = item
            return None if snapshot in sent_before else snapshot.window.end

        snapshots = paced(source.snapshots, due, tempo, time.monotonic, run.stop.wait)
        sent = publish_source(
            Source(total, snapshots),
            publisher,
            topic=run.topic,
            labels_topic=labels,
            spread_over=spread_over,
            sent_before=sent_before,
            claim_check=fit,
            limit=limit,
            stop=run.stop,
            on_sent=on_sent,
            on_already=on_already,
        )
    return sent, changed


def _report(sent: Published, changed: Sequence[str], run: ProducerRun, way_out: str) -> None:
    if sent.already_sent > len(changed):
        which = "some" if sent.snapshots or changed else "nothing was sent: all"
        structlog.get_logger().log(
            logging.INFO if sent.snapshots else logging.WARNING,
            f"{which} of these snapshots are in the topic already ({way_out})",
            already_sent=sent.already_sent - len(changed),
            topic=run.topic,
        )
    # Before the errors: the counts say what was sent in spite of them. A stopped run exits here.
    finish(run.stop, False, **asdict(sent), bad_rows=run.n_bad_rows, **run.left_out)
    n_windows = run.left_out["small_windows"] + run.left_out["earlier_windows"]
    if run.n_bad_rows and not (sent.snapshots or sent.already_sent or n_windows):
        raise NoGoodRows(
            f"no snapshot was sent: the input has {run.n_bad_rows:,} bad rows and no good "
            f"ones; the first bad row: {run.first_bad_row}"
        )
    if changed:
        raise ContentChanged(
            f"{len(changed):,} snapshots were not sent, because {run.topic} holds them with other "
            f"content: {listed(changed)}. Send them as corrections with --correct, or send "
            "everything again with --again"
        )
