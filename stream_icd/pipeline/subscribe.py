"""Following the communities topic."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Literal

from stream_icd.communities import Communities
from stream_icd.errors import BadInput
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits

REMEMBERED = 100_000
"""How many results back a repetition is recognised."""


def subscribe(
    graph: str | None = None,
    *,
    start: Literal["beginning", "latest"] | datetime = "latest",
    until: Literal["forever", "end"] = "forever",
    limit: int | None = None,
    settings: KafkaSettings | None = None,
    topic: str = COMMUNITIES,
    limits: Limits = DEFAULT_LIMITS,
    on_bad: Callable[[Record, BadInput], None] | None = None,
) -> Iterator[Communities]:
    """Communities as detectors publish them, each result once.

    A result that was published twice (same graph, snapshot and model: a detector restarted) is
    yielded once.

    Args:
        graph: only this graph's; None for all.
        start: `beginning`, `latest` (what comes from now on), or a time with its zone.
        until: `forever`, or `end` for what is there now.
        limit: stop after so many.
        settings: how to reach Kafka; by default from the environment (`STREAM_ICD_…`).
        on_bad: called with a message that is no communities message; by default it is logged.

    Raises:
        BrokerUnavailable: nobody answers; try again.
        TopicMissing, OffsetGone: as their texts say.

    Example:
        ```python
        from stream_icd import subscribe

        for communities in subscribe("as733", start="beginning"):
            print(communities.snapshot_id, communities.n_communities, communities.modularity)
        ```
    """
    seen: OrderedDict[tuple[str, str, str], None] = OrderedDict()
    yielded = 0
    complain = on_bad or _log_bad
    with open_reader(settings or KafkaSettings(), topic, start=start, until=until) as records:
        for record in records:
            if graph is not None and record.key != graph.encode():
                continue
            try:
                found = decode_communities(record.key, record.value, record.headers, limits)
            except BadInput as error:
                complain(record, error)
                continue
            if _already(seen, found.identity()):
                continue
            yield found
            yielded += 1
            if yielded == limit:
                return


def _already(seen: OrderedDict[tuple[str, str, str], None], identity: tuple[str, str, str]) -> bool:
    if identity in seen:
        return True
    seen[identity] = None
    if len(seen) > REMEMBERED:
        seen.popitem(last=False)
    return False


def _log_bad(record: Record, error: BadInput) -> None:
    import structlog  # a tenth of the start, for what hardly ever happens

    structlog.get_logger().warning(
        "not a communities message",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=str(error),
    )
