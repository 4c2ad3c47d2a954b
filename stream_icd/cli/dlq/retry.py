"""What `stream-icd dlq retry` does: say what will be sent, send it with a progress bar, sum up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import structlog
import typer

from stream_icd.cli.dlq.tables import counts_lines
from stream_icd.dead_letters.box import Choice, read_dead_letters
from stream_icd.dead_letters.retry import (
    Plan,
    Retry,
    check_targets,
    open_retry_sink,
    plan_retry,
    retry,
)
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.log import configure_logging
from stream_icd.messages.publish import Pace
from stream_icd.printable import say
from stream_icd.programs.process import stop_on_signals
from stream_icd.programs.producer import INTERRUPTED, progress_bar
from stream_icd.sources.source import Stop


def run_retry(
    settings: KafkaSettings,
    choice: Choice,
    *,
    to_topic: str | None,
    again: bool,
    rate: float | None,
    dry_run: bool,
) -> None:
    """Send the chosen dead letters again, and show it.

    Raises:
        BadSettings, BrokerError: as their texts say; what was sent is marked.
        typer.Exit: 1 where some were too large to be sent; 130 where it was stopped.
    """
    configure_logging()
    topic = choice.part.topic
    if dry_run:
        box = read_dead_letters(settings, topic)
        say(*plan_lines(plan_retry(box, choice, to=to_topic, again=again)), err=True)
        return
    pace = Pace(rate, time.monotonic, (stop := stop_on_signals()).wait)
    sink = open_retry_sink(settings, topic)
    try:
        box = read_dead_letters(settings, topic, until="settled", stop=stop)
        if stop.is_set():  # what was read by then is not all
            raise typer.Exit(INTERRUPTED)
        plan = plan_retry(box, choice, to=to_topic, again=again)
        say(*plan_lines(plan), err=True)
        check_targets(settings, plan)
        with progress_bar() as progress:
            task = progress.add_task("sent again", total=len(plan.records))
            done = retry(
                settings,
                plan,
                sink,
                pace,
                lambda: datetime.now(UTC),
                stop,
                on_sent=lambda count: progress.advance(task, count),
            )
    finally:
        sink.close()
    _sum_up(plan, done, stop)


def plan_lines(plan: Plan) -> Iterator[str]:
    """How many will be sent where, of which kinds, and what is passed over."""
    for target, count in sorted(plan.targets.items()):
        yield f"{count:,} records to {target}"
    yield from counts_lines(record.latest for record, _ in plan.records)
    if plan.already:
        yield f"{plan.already:,} were sent again before and are passed over (--again sends them)"
    if not plan.records:
        yield "nothing to send"


def _sum_up(plan: Plan, done: Retry, stop: Stop) -> None:
    log = structlog.get_logger()
    for place, reason in done.refused.items():
        log.warning("not sent", place=place, reason=reason)
    log.info(
        "stopped" if stop.is_set() else "finished",
        sent=done.sent,
        already=plan.already,
        refused=len(done.refused),
        left=len(plan.records) - done.sent - len(done.refused),
    )
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
    if done.refused:
        raise typer.Exit(1)
