"""Reads the attributes topic: the newest attributes of each node, now or for as long as it runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from stream_icd.core.errors import BadInput
from stream_icd.kafka.reader import Following, open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import ATTRIBUTES, describe_topic
from stream_icd.kafka.waiting import in_background
from stream_icd.methods.names.attributes import LiveAttributes
from stream_icd.streaming.subscribers.subscription import log_bad
from stream_icd.wire.attributes import decode_attributes
from stream_icd.wire.limits import Limits

LOG = logging.getLogger(__name__)

END_S = 3.0
"""Time that the end waits for the thread: longer than a poll where nothing comes."""


def attributes_in_topic(
    settings: KafkaSettings, graph: str | None = None, topic: str = ATTRIBUTES
) -> LiveAttributes:
    """Return the attributes that a topic of them holds now, of one graph or of all."""
    known, limits = LiveAttributes(), Limits()
    with open_reader(settings, topic, until="end") as records:
        for record in records:
            _take(known, graph, limits, record)
    return known


@contextmanager
def following_attributes(
    settings: KafkaSettings, graph: str | None = None
) -> Iterator[LiveAttributes]:
    """Give the attributes of one graph or of all, and keep them up to date during the block.

    Raises as `attributes_in_topic`; if the topic cannot be read later, they stay as they are.
    """
    describe_topic(settings, ATTRIBUTES)
    known, stop = LiveAttributes(), threading.Event()
    followed = Following(settings, ATTRIBUTES, partial(_take, known, graph, Limits()), stop)
    with in_background(followed.run, f"follow {ATTRIBUTES}", stop, END_S):
        followed.caught_up.wait()
        yield known


def _take(known: LiveAttributes, graph: str | None, limits: Limits, record: Record) -> None:
    """Take a record; one that breaks the contract is logged, and changes nothing."""
    try:
        attributes = decode_attributes(record.key, record.value, record.headers, limits)
    except BadInput as error:
        log_bad(record, error)
        return
    if graph in (None, attributes.graph):
        before = known.trouble
        known.take(attributes.graph, attributes.node, attributes.values)
        if known.trouble != before:
            LOG.warning(known.trouble)
