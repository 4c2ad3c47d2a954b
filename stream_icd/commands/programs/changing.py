"""Snapshots of a graph that changes, from a topic of additions and removals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Literal, Protocol

from stream_icd.commands.programs.producer import ProducerRun
from stream_icd.commands.programs.windowed import read_topic_rows
from stream_icd.core.errors import BadSettings, OffsetGone
from stream_icd.core.snapshot import EPOCH
from stream_icd.core.times import microseconds, utc_now
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import TopicPartition
from stream_icd.kafka.topics import describe_topic
from stream_icd.sources.changes import (
    MOST_STREAMS,
    Change,
    ChangeColumns,
    StandingWindows,
)
from stream_icd.sources.source import Source
from stream_icd.sources.windows import Quiet

_OPTIONAL = ("dst", "weight")


class _ChangesOptions(Protocol):
    """What is needed of the producer's options."""

    @property
    def topic(self) -> str: ...

    @property
    def graph(self) -> str: ...

    @property
    def only_changed(self) -> bool: ...

    @property
    def drop_isolated(self) -> bool: ...

    @property
    def until(self) -> Literal["forever", "end"]: ...

    @property
    def anew(self) -> bool: ...


def changing_source(
    options: _ChangesOptions,
    run: ProducerRun,
    columns: ChangeColumns,
    every_s: float,
    quiet_s: float,
) -> Source:
    """Return the snapshots of the graph, after the last one that was sent.

    Raises:
        BadSettings: the last snapshot comes from elsewhere, the topic has too many partitions, or
            its first changes are gone and no snapshot holds them.
        TopicMissing, BrokerUnavailable: the topic cannot be read.
    """
    sent_before, topic = run.sent_before, options.topic
    last = sent_before.last_of(options.graph, run.settings, run.topic)
    n_streams = describe_topic(run.settings, topic).partitions
    if n_streams > MOST_STREAMS:
        raise BadSettings(f"{topic} has {n_streams} partitions; the limit is {MOST_STREAMS}")
    windows = StandingWindows(
        last,
        graph=options.graph,
        topic=topic,
        every=timedelta(seconds=every_s),
        n_streams=n_streams,
        now=lambda: microseconds(utc_now() - EPOCH),
        only_changed=options.only_changed,
        isolated=not options.drop_isolated,
        count=run.count,
    )
    if last is None and not options.anew:
        _check_that_all_is_there(run, topic, n_streams)

    def arrivals() -> Iterator[Sequence[Change] | Quiet]:
        rows = read_topic_rows(
            run.settings,
            topic,
            columns.names,
            run.bad_rows,
            since=windows.places.copy(),
            until=options.until,
            quiet_after_s=quiet_s if options.until == "forever" else None,
            optional=_OPTIONAL,
            stop=run.stop,
        )
        for batch in rows:
            yield batch if isinstance(batch, Quiet) else columns.read(batch)

    found = windows.snapshots(arrivals(), run.stop)
    return Source(None, ((snapshot, None) for snapshot in found))


def _check_that_all_is_there(run: ProducerRun, topic: str, n_streams: int) -> None:
    """Raise `OffsetGone` if retention removed changes: the graph would lack them."""
    partitions = [TopicPartition(topic, number) for number in range(n_streams)]
    with connect(run.settings).admin() as admin:
        begins = admin.begins(partitions)
    if gone := [str(partition) for partition, at in begins.items() if at > 0]:
        raise OffsetGone(
            f"retention removed the first changes of {', '.join(gone)}, and no snapshot holds "
            "them: send all edges again, or begin with what is left (--anew)"
        )
