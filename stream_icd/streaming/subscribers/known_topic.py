"""Reads the topic of known nodes: the newest community of each, for as long as a detector runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from stream_icd.core.errors import BadInput, BrokerError
from stream_icd.kafka.reader import Following, open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import KNOWN, describe_topic
from stream_icd.kafka.waiting import in_background
from stream_icd.methods.bp.known import Known
from stream_icd.streaming.subscribers.subscription import log_bad
from stream_icd.wire.limits import Limits
from stream_icd.wire.nodes import decode_known

_LOG = logging.getLogger(__name__)

_MOST_BYTES = 256 << 20
"""Of all known nodes together; those of more nodes are ignored."""

_A_NODE = 300
"""Bytes of a node and its label in memory, besides their texts."""

_END_S = 3.0
"""Time that the end waits for the thread: longer than a poll where nothing comes."""


class _LiveKnown:
    """The newest communities of known nodes, within a budget of memory; thread-safe.

    graph: whose nodes are kept; None: those of all graphs.
    fixed: as of `Known`.
    """

    def __init__(self, graph: str | None = None, *, fixed: bool = False) -> None:
        self._graph, self._fixed = graph, fixed
        self._limits, self._lock = Limits(), threading.Lock()
        self._labels: dict[str, dict[str, str]] = {}
        self._bytes, self._is_full = 0, False
        self._changed: set[str] = set()
        self._known: dict[str, Known] = {}

    def take(self, record: Record) -> None:
        """Take a record; one that breaks the contract is logged, and changes nothing."""
        try:
            node = decode_known(record.key, record.value, record.headers, self._limits)
        except BadInput as error:
            log_bad(record, error)
            return
        if self._graph in (None, node.graph):
            with self._lock:  # the detector reads in another thread
                self._changed.add(node.graph)
                self._put(node.graph, node.node, node.community)

    def _put(self, graph: str, node: str, label: str | None) -> None:
        labels = self._labels.setdefault(graph, {})
        # Its old label first: a correction fits where a further node does not.
        if (before := labels.pop(node, None)) is not None:
            self._bytes -= _size(node, before)
        if label is not None and self._bytes + _size(node, label) <= _MOST_BYTES:
            self._bytes += _size(node, label)
            labels[node] = label
        elif label is not None and not self._is_full:
            self._is_full = True
            most = _MOST_BYTES >> 20
            _LOG.warning("known nodes take more than %d MiB; other nodes are ignored", most)
        if not labels:
            del self._labels[graph]

    def labels(self, graph: str) -> dict[str, str]:
        """Return the label of each known node of a graph."""
        with self._lock:
            return dict(self._labels.get(graph, {}))

    def now(self) -> Mapping[str, Known]:
        """Return what is known now, by graph; log each graph of which something else is known."""
        with self._lock:
            changed, self._changed = self._changed, set()
        # Without the lock: making `Known` of a large graph must not stop the reading.
        for graph in sorted(changed):
            labels = self.labels(graph)
            of_graph = Known.from_labels(labels, fixed=self._fixed)
            before = self._known.pop(graph, None)
            if labels:
                self._known[graph] = of_graph
            if bool(labels) if before is None else before.digest != of_graph.digest:
                log = structlog.get_logger()
                log.info("communities are known", graph=graph, nodes=len(labels))
        return dict(self._known)


def known_in_topic(settings: KafkaSettings) -> _LiveKnown:
    """Return what the topic holds now, of all graphs."""
    live = _LiveKnown()
    with open_reader(settings, KNOWN, until="end") as records:
        for record in records:
            live.take(record)
    return live


@contextmanager
def following_known(
    settings: KafkaSettings, graph: str | None = None, *, fixed: bool = False
) -> Iterator[_LiveKnown]:
    """Give what the topic holds now, and keep it up to date during the block.

    If the topic cannot be read later, what is known stays as it is, and the reason is logged.

    Raises:
        TopicMissing: there is no such topic.
        BrokerError: what it holds now cannot be read.
    """
    describe_topic(settings, KNOWN)
    live, stop = _LiveKnown(graph, fixed=fixed), threading.Event()
    followed = Following(settings, KNOWN, live.take, stop)
    with in_background(followed.run, f"follow {KNOWN}", stop, _END_S):
        # Else the first snapshots would be detected with a part of what is known.
        followed.caught_up.wait()
        if followed.trouble:
            raise BrokerError(f"{KNOWN} cannot be read: {followed.trouble}; start again later")
        yield live


def _size(node: str, label: str) -> int:
    return _A_NODE + len(node) + len(label)
