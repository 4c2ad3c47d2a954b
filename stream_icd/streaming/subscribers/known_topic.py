"""Reads the topic of known nodes: the newest community of each, for as long as a detector runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import structlog

from stream_icd.core.errors import BadAttributes, BadInput
from stream_icd.kafka.reader import Following, TopicReader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import KNOWN
from stream_icd.kafka.waiting import in_background
from stream_icd.methods.bp.known import Known, known_of
from stream_icd.methods.names.attributes import LiveAttributes
from stream_icd.streaming.subscribers.attributes import END_S
from stream_icd.streaming.subscribers.subscription import log_bad
from stream_icd.wire.attributes import COMMUNITY, decode_attributes
from stream_icd.wire.limits import Limits

LOG = logging.getLogger(__name__)


class LiveKnown:
    """The newest communities of known nodes, within a budget of memory; thread-safe.

    graph: whose nodes are kept; None: those of all graphs.
    fixed: as of `Known`.
    """

    def __init__(self, graph: str | None = None, *, fixed: bool = False) -> None:
        self._graph, self._fixed = graph, fixed
        self._labels, self._limits = LiveAttributes(), Limits()
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._known: dict[str, Known] = {}

    def take(self, record: Record) -> None:
        """Take a record; one that breaks the contract is logged, and changes nothing."""
        try:
            said = decode_attributes(record.key, record.value, record.headers, self._limits)
            if said.values and COMMUNITY not in said.values:
                raise BadAttributes('the value has no community, as in {"community": "east"}')
        except BadInput as error:
            log_bad(record, error)
            return
        if self._graph not in (None, said.graph):
            return
        before = self._labels.trouble
        label = {name: text for name, text in said.values.items() if name == COMMUNITY}
        self._labels.take(said.graph, said.node, label)
        if self._labels.trouble != before:
            LOG.warning(self._labels.trouble)
        with self._lock:
            self._changed.add(said.graph)

    def now(self) -> Mapping[str, Known]:
        """What is known now, by graph; logs each graph of which something else is known."""
        with self._lock:
            changed, self._changed = self._changed, set()
        for graph in sorted(changed):
            rows = self._labels.rows(graph)
            known = known_of(
                {node: row[COMMUNITY] for node, row in rows.items()}, fixed=self._fixed
            )
            before = self._known.pop(graph, None)
            if rows:
                self._known[graph] = known
            if (before or known_of({}, fixed=self._fixed)).digest != known.digest:
                log = structlog.get_logger()
                log.info("communities are known", graph=graph, nodes=len(rows))
        return dict(self._known)


@contextmanager
def following_known(
    settings: KafkaSettings, graph: str | None = None, *, fixed: bool = False
) -> Iterator[LiveKnown]:
    """Give what the topic holds now, and keep it up to date during the block.

    If the topic cannot be read later, what is known stays as it is, and the reason is logged.

    Raises:
        TopicMissing: there is no such topic.
        BrokerError: what it holds now cannot be read.
    """
    known, stop, read = LiveKnown(graph, fixed=fixed), threading.Event(), dict[int, int]()
    with closing(TopicReader(settings, KNOWN)) as topic:
        for record in topic.records("beginning", "end"):
            known.take(record)
            read[record.partition] = record.offset + 1
    followed = Following(settings, KNOWN, known.take, stop, read or "beginning")
    with in_background(followed.run, f"follow {KNOWN}", stop, END_S):
        yield known
