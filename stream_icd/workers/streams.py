"""Runs one step on each of several topics until a stop is requested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import Delivery
from stream_icd.kafka.delivery.handler import Watcher
from stream_icd.kafka.group.worker_notes import keep_to_filter
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.workers.runner import Runner


@dataclass(frozen=True, slots=True)
class Stream:
    """A topic, the consumer group that reads it, and the runner that processes its records.

    Attributes:
        watchers: observe the consumer.
    """

    topic: str
    group: str
    runner: Runner
    watchers: Sequence[Watcher] = ()


def run_streams(
    settings: KafkaSettings,
    streams: Sequence[Stream],
    stop: threading.Event,
    *,
    delivery: Delivery = Delivery.AUTO,
    max_records: int = 16,
) -> None:
    """Run each stream until `stop`: a single one in this thread, several in one thread each.

    If one of several fails, all stop, and its error is raised; those of others are logged.

    Raises:
        BadSettings: a group already reads another graph.
        Errors of `run_consumer` and of the steps.
    """

    def run(stream: Stream) -> None:
        keep_to_filter(settings, stream.topic, stream.group, stream.runner.graph)
        run_consumer(
            settings,
            stream.topic,
            stream.group,
            stream.runner,
            stop,
            delivery=delivery,
            max_records=max_records,
            watchers=stream.watchers,
        )

    if len(streams) == 1:
        run(streams[0])
    else:
        _run_side_by_side(run, streams, stop)


def _run_side_by_side(
    run: Callable[[Stream], None], streams: Sequence[Stream], stop: threading.Event
) -> None:
    errors: list[BaseException] = []

    def attempt(stream: Stream) -> None:
        try:
            run(stream)
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=attempt, args=(one,), daemon=True) for one in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for further in errors[1:]:
        structlog.get_logger().error(
            "another stream failed, too", error=f"{type(further).__name__}: {further}"
        )
    if errors:
        raise errors[0]
