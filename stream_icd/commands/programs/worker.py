"""The common part of consumer programs: run the steps until a signal requests a stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from threading import Event

import structlog

from stream_icd.commands.programs.options import WorkerOptions
from stream_icd.commands.programs.process import FreezeWhatStays, share_one_heap, stop_on_signals
from stream_icd.core.errors import BrokerUnavailable
from stream_icd.core.imports import without_pandas
from stream_icd.core.log import configure_logging
from stream_icd.kafka.connect import wait_for_broker
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import Delivery
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.tracing import MOST_BYTES, Tracing, traces_of
from stream_icd.kafka.waiting import IDLE_S, Outage
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.metrics.server import serving
from stream_icd.streaming.workers.runner import Runner, run_together
from stream_icd.streaming.workers.step import BatchStep

_LIMIT_EVERY_S = 1.0
"""Interval between requests for a topic's limit, while the broker is unavailable."""


@dataclass(frozen=True)
class WorkerRun:
    """Information about the run for a worker's step.

    Attributes:
        until_the_end: closes what is entered here when the worker ends.
        stop: set by the first signal.
        claim_check: makes records fit their topics.
    """

    settings: KafkaSettings
    metrics: Metrics
    until_the_end: ExitStack
    stop: Event
    claim_check: ClaimCheck
    tracing: Tracing | None = None

    def room(self, topic: str) -> float:
        """Return the maximum size of a record for a topic, without the context of its trace."""
        for_trace = 0 if self.tracing is None else MOST_BYTES
        return self.claim_check.room(topic) - for_trace


def run_worker(
    open_steps: Callable[[WorkerRun], Mapping[str, BatchStep]],
    options: WorkerOptions,
    name: str,
    *,
    delivery: Delivery = "auto",
    batch: int = 16,
    group_by_topic: bool = False,
    **facts: object,
) -> None:
    """Run a step on each topic until SIGINT or SIGTERM.

    After the first signal, the current batch is finished; a second one ends the program.

    Args:
        open_steps: returns the step for each topic; called when metrics are already served.
        batch: records published together when many are waiting.
        group_by_topic: read each topic in a group of its own, named GROUP-TOPIC.
        facts: additional fields of the log line at the start.

    Raises:
        BadSettings, BrokerError: see these classes. Errors of the steps are raised as well.
    """
    share_one_heap()  # before any thread: those that run already keep heaps of their own
    without_pandas()  # before Arrow converts anything: it imports pandas then, and keeps it
    stop = stop_on_signals()  # before the wait for the broker, which a signal has to end
    configure_logging()
    settings = options.kafka(check=False)
    outage = Outage(options.give_up_after_s)
    # Closed in reverse: what the steps opened, then tracing, which sends its last spans, and the
    # metrics last: a worker that is ending is still seen to be alive.
    with ExitStack() as until_the_end:
        # An idle worker hears from the broker only once every two polls or so.
        silence_s = max(settings.session_timeout_s, 3 * IDLE_S)
        metrics = Metrics(settings.max_poll_interval_s, silence_s, start=outage)
        # Before the broker answers: a worker that waits for it is alive, and not ready.
        if options.metrics_port is not None:
            served = serving(metrics, options.metrics_port, options.metrics_host)
            until_the_end.enter_context(served)
        try:
            wait_for_broker(settings, outage, stop)
        except BrokerUnavailable:
            if stop.is_set():  # a signal ended the wait: nothing was begun, so nothing has failed
                return
            raise
        claim_check = ClaimCheck(settings, pause=partial(time.sleep, _LIMIT_EVERY_S))
        tracing = until_the_end.enter_context(traces_of(name))
        run = WorkerRun(settings, metrics, until_the_end, stop, claim_check, tracing)
        steps = open_steps(run)  # after the wait: steps read their memory from the broker
        group = options.group_of(name)
        groups = {topic: f"{group}-{topic}" if group_by_topic else group for topic in steps}
        loops = {
            topic: _loop(run, step, options, topic, groups[topic], delivery, batch)
            for topic, step in steps.items()
        }
        context = {key: text for step in steps.values() for key, text in step.context.items()}
        structlog.get_logger().info("started", group=", ".join(groups.values()), **context, **facts)
        run_together(loops, stop)


def _loop(
    run: WorkerRun,
    step: BatchStep,
    options: WorkerOptions,
    topic: str,
    group: str,
    delivery: Delivery,
    batch: int,
) -> Callable[[], object]:
    runner = Runner(
        step,
        DeadLetterLimit(options.max_dead_letters),
        graph=options.graph,
        claim_check=run.claim_check,
        tracing=run.tracing,
        group=group,
    )
    return partial(
        run_consumer,
        run.settings,
        topic,
        group,
        runner,
        run.stop,
        delivery=delivery,
        max_records=step.most_records or batch,
        give_up_after_s=options.give_up_after_s,
        watchers=[
            run.metrics.watch(topic, group, options.graph, step.stages),
            FreezeWhatStays(),
        ],
    )
