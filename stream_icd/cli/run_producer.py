"""What every producer program does with its source: send it, show progress, sum up."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from stream_icd.cli.options import kafka_settings
from stream_icd.errors import BadRow
from stream_icd.kafka.producer import Publisher
from stream_icd.kafka.topics import create_topics
from stream_icd.log import configure_logging
from stream_icd.pipeline.publish import Pace, Published, publish_source
from stream_icd.sources.source import Source, stop_at_bad_row

SHOWN_BAD_ROWS = 5


class BadRows:
    """Counts the rows that cannot be read, and shows the first few."""

    def __init__(self, *, strict: bool) -> None:
        self.count = 0
        self._strict = strict

    def __call__(self, error: BadRow) -> None:
        """Note a bad row.

        Raises:
            BadRow: when strict.
        """
        if self._strict:
            stop_at_bad_row(error)
        self.count += 1
        if self.count <= SHOWN_BAD_ROWS:
            structlog.get_logger().warning("bad row", reason=str(error))


def run_producer(
    open_source: Callable[[BadRows], Source],
    *,
    bootstrap_servers: str | None,
    rate: float | None = None,
    limit: int | None = None,
    strict: bool = False,
) -> Published:
    """Send a source's snapshots to Kafka and report what was sent.

    Raises:
        BadSettings, SourceNotFound, BadRow, BrokerError: as their texts say.
    """
    configure_logging()
    log = structlog.get_logger()
    pace = Pace(rate, time.monotonic, time.sleep)
    bad_rows = BadRows(strict=strict)
    source = open_source(bad_rows)
    settings = kafka_settings(bootstrap_servers)
    create_topics(settings)
    total = source.total if limit is None else min(limit, source.total or limit)
    with Publisher(settings) as publisher, _progress() as progress:
        task = progress.add_task("sent", total=total)
        sent = publish_source(
            source, publisher, pace, limit=limit, on_sent=lambda _: progress.advance(task)
        )
    log.info(
        "finished",
        snapshots=sent.snapshots,
        labels=sent.labels,
        nodes=sent.nodes,
        edges=sent.edges,
        bytes=sent.bytes,
        bad_rows=bad_rows.count,
    )
    return sent


def _progress() -> Progress:
    return Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not Console(stderr=True).is_terminal,
    )
