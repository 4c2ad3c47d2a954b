"""Where a replay stores its results, and which results already exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from stream_icd.communities import Communities
from stream_icd.errors import BadSettings, TopicMissing
from stream_icd.history.archive import Archive, Selection, read_message, windows
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, create_topics
from stream_icd.messages.claims import ClaimCheck
from stream_icd.messages.records import outgoing
from stream_icd.store.store import Store
from stream_icd.subscribers.seen_results import result_of
from stream_icd.subscribers.subscribe import subscribe
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Message

Name = tuple[str, str]
"""Graph and snapshot id."""

Kept = tuple[str, str, str]
"""Graph, snapshot id and revision of a result."""

Keep = Callable[[Message], object]


@dataclass(frozen=True, slots=True)
class HistoryResults:
    """Results in an archive, where each is durable as soon as it is stored."""

    store: Store

    @property
    def name(self) -> str:
        """The name for people."""
        return self.store.place

    def kept(self, version: str) -> set[Kept]:
        """Return the existing results of this model version."""
        chosen = Selection("communities", model=version, revisions="all")
        return {
            (noted.partition.graph, noted.identity.snapshot_id, noted.identity.revision)
            for noted in windows(self.store, chosen)
        }

    def read(self) -> Iterator[Communities]:
        """Yield the newest revision of each existing result, in the order of the windows."""
        limits = Limits()
        for noted in windows(self.store, Selection("communities")):
            message = read_message(self.store, noted)
            yield decode_communities(message.key, message.value, message.headers, limits)

    @contextmanager
    def writing(self) -> Iterator[Keep]:
        """Give a function that stores a result; all are durable at the end of the block."""
        archive = Archive(self.store)

        def keep(message: Message) -> None:
            detected = datetime.fromisoformat(dict(message.headers)["icd_detected_at"].decode())
            # That of a later replay is the newest.
            archive.add("communities", message, (round(detected.timestamp() * 1000), 0))

        yield keep


@dataclass(frozen=True, slots=True)
class TopicResults:
    """Results in a topic, which is created with these partitions on the first write."""

    settings: KafkaSettings
    topic: str
    partitions: int = 1

    @property
    def name(self) -> str:
        return f"topic {self.topic}"

    def kept(self, version: str) -> set[Kept]:
        """Return the existing results, from record headers; none if the topic does not exist."""
        found: set[Kept] = set()
        try:
            with open_reader(self.settings, self.topic, until="end") as records:
                for record in records:
                    (graph, snapshot_id, model), revision, _ = result_of(record)
                    if model == version.encode():
                        found.add((_text(graph), _text(snapshot_id), _text(revision)))
        except TopicMissing:
            return set()
        return found

    def read(self) -> Iterator[Communities]:
        """Yield the results in the order of the topic."""
        return subscribe(start="beginning", until="end", settings=self.settings, topic=self.topic)

    @contextmanager
    def writing(self) -> Iterator[Keep]:
        """Write one record per result; all are acknowledged at the end of the block."""
        create_topics(self.settings, [TopicSpec(self.topic, partitions=self.partitions)])
        claim_check = ClaimCheck(self.settings)
        with Publisher(self.settings) as publisher:

            def keep(message: Message) -> None:
                publisher.send(claim_check(outgoing(self.topic, message)))

            yield keep


Results = HistoryResults | TopicResults


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def check_results_topic(topic: str, *, into_live: bool) -> None:
    """Refuse the live topic for results (`BadSettings`), unless its use was explicitly allowed."""
    if topic == COMMUNITIES and not into_live:
        raise BadSettings(
            f"{topic} is the live topic: its subscribers would take past results for new ones. "
            "Give another --out-topic, or confirm with --into-live"
        )
