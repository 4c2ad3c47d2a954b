"""Archiving a stream: what arrives on a topic is kept, once, before its offset is committed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import structlog

from stream_icd.errors import BadInput
from stream_icd.history.archive import Archive
from stream_icd.history.layout import Kind
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery import Delivery
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, LABELS, SNAPSHOTS
from stream_icd.kafka.watcher import Watcher
from stream_icd.pipeline.claim_settings import ClaimSettings
from stream_icd.pipeline.claims import redeem
from stream_icd.pipeline.dead_letters import DeadLetterLimit, dead_letter
from stream_icd.pipeline.outgoing import Fit
from stream_icd.pipeline.record_log import about
from stream_icd.wire.communities import (
    decode_communities,
    decode_labels,
    encode_communities,
    encode_labels,
)
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot

TOPICS: dict[Kind, str] = {
    "snapshots": SNAPSHOTS,
    "labels": LABELS,
    "communities": COMMUNITIES,
}
"""Where each kind of message comes from."""

_CODECS: dict[Kind, tuple[Callable[..., Any], Callable[[Any], Message]]] = {
    "snapshots": (decode_snapshot, encode_snapshot),
    "labels": (decode_labels, encode_labels),
    "communities": (decode_communities, encode_communities),
}


class Archiver:
    """What a worker does with the records of one topic; `handle` is its one verb."""

    def __init__(
        self,
        archive: Archive,
        kind: Kind,
        dead_letters: DeadLetterLimit,
        graph: str | None = None,
        limits: Limits | None = None,
        claims: ClaimSettings | None = None,
    ) -> None:
        self._archive = archive
        self._kind = kind
        self._dead_letters = dead_letters
        self._graph = graph
        self._limits = limits or Limits()
        self._claims = claims or ClaimSettings()

    def handle(self, records: Sequence[Record]) -> Iterator[OutgoingRecord]:
        """Keep each record; gives nothing to publish but dead letters.

        When it is through, all of them last: so offsets may be committed then, and a record that
        comes again changes nothing.

        Raises:
            StoreUnwritable: such as a full disk.
            TooManyDeadLetters: nearly all of the last records were bad.
        """
        for record in records:
            if self._graph is None or record.key == self._graph.encode():
                with about(record):
                    letter = self._keep(record)
                if letter is not None:
                    yield letter

    def _keep(self, record: Record) -> OutgoingRecord | None:
        """Its dead letter, where it breaks the contract."""
        log = structlog.get_logger()
        try:
            new = self._archive.add(self._kind, self._checked(record))
        except BadInput as error:
            log.warning("dead letter", stage="archive", reason=str(error))
            self._dead_letters.count(dead=True, reason=str(error))
            return dead_letter(record, "archive", error)
        self._dead_letters.count(dead=False)
        log.info("archived" if new else "archived before", kind=self._kind)
        return None

    def _checked(self, record: Record) -> Message:
        """The record as a message in canonical form, with the headers that it came with.

        What it claims is archived, not the claim: that outlasts the object.
        """
        decode, encode = _CODECS[self._kind]
        whole = redeem(record, self._claims, self._limits)
        message = encode(decode(whole.key, whole.value, whole.headers, self._limits))
        return Message(message.key, message.value, whole.headers)


def archive_topics(
    settings: KafkaSettings,
    archivers: Mapping[str, Archiver],
    group: str,
    stop: threading.Event,
    *,
    max_records: int = 16,
    watch: Callable[[str], Watcher] = lambda _: Watcher(),
) -> None:
    """Archive several topics until `stop`, each in a thread and a group of its own.

    At least once is enough, since keeping something twice is keeping it once. When one of them
    fails all end, and its error is raised.

    Args:
        archivers: of each topic.
        watch: gives who watches the consumer of a topic.

    Raises:
        What `run_consumer` and `Archiver.handle` raise.
    """
    errors: list[BaseException] = []
    fit = Fit(settings)
    watchers = {topic: watch(topic) for topic in archivers}

    def work(topic: str, archiver: Archiver) -> None:
        try:
            run_consumer(
                settings,
                topic,
                f"{group}-{topic}",
                fit.handle(archiver.handle),
                stop,
                delivery=Delivery.AT_LEAST_ONCE,
                max_records=max_records,
                watcher=watchers[topic],
            )
        except BaseException as error:
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=work, args=one, daemon=True) for one in archivers.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
