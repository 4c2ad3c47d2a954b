"""Messages too big for a broker: where their bytes go, and which bytes are taken for them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from stream_icd.core.communities import Communities, Labels
from stream_icd.core.errors import (
    BadClaim,
    BadSettings,
    ClaimedObjectAltered,
    ClaimedObjectMissing,
    ClaimRefused,
    LimitExceeded,
    MessageTooLarge,
    RecordTooLarge,
    StoreUnreachable,
)
from stream_icd.core.headers import Headers
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.history.archiver import Archiver
from stream_icd.history.replay.redetect import ReplayJob
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import Claim, ClaimCheck, ClaimSettings, MessageReader
from stream_icd.kafka.messages.publish import publish_source
from stream_icd.kafka.port import DEAD_LETTER_ROOM, TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.registry.model import VersionedModel
from stream_icd.sources.source import Source
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.subscribers.subscribe import subscribe, subscribe_events
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.track import Tracker
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.limits import Limits
from tests.kafka.echo import MakeTopic
from tests.streaming.workers.tracked import outgoing as communities_record
from tests.streaming.workers.tracked import same, stream, unbroken
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.object_store import new_folder
from tests.testbed.streams import as_claim, as_read, beside, held, publish

pytestmark = pytest.mark.brokers("memory")

MakeSnapshot = Callable[..., Snapshot]
ToRecord = Callable[[Snapshot, str], OutgoingRecord]
Topics = tuple[str, str]

INLINE = 4096
"""The most bytes of a message in these tests."""
BIG = {"cliques": 200, "size": 20}


@pytest.fixture
def claims(tmp_path: Path) -> ClaimSettings:
    return ClaimSettings(uri=str(tmp_path / "claims"))


@pytest.fixture
def claimed(
    claims: ClaimSettings, snapshot: MakeSnapshot, outgoing: ToRecord
) -> Callable[..., Record]:
    """`claimed(0)`: a record as a worker reads it, its bytes stored."""

    def make(i: int) -> Record:
        (record,) = as_read([as_claim(outgoing(snapshot(i, **BIG), "t"), claims)])
        return record

    return make


def objects(claims: ClaimSettings) -> list[str]:
    return open_store(str(claims.uri)).files()


def folder_of(claims: ClaimSettings) -> Path:
    return Path(str(claims.place).removeprefix("file://"))


def the_object(claims: ClaimSettings) -> Path:
    (path,) = objects(claims)
    return folder_of(claims) / path


def with_claim(record: Record, uri: str, value: bytes = b"x") -> Record:
    claim = Claim(uri, len(value), sha256(value).hexdigest())
    return replace(record, value=b"", headers=Claim.left_out(record.headers) + claim.headers())


# There and back.


@dataclass(frozen=True)
class Stream:
    """A producer, a detector and a subscriber of one test, whose messages are small."""

    broker: Broker
    topics: Topics
    model: VersionedModel
    claims: ClaimSettings

    @contextmanager
    def detecting(self) -> Iterator[list[BaseException]]:
        """A detector at work in the background; yields the errors that ended it."""
        settings, (topic, found) = self.broker.settings(max_message_bytes=INLINE), self.topics
        chosen = DetectSettings(topic=found, threads=1, reader=MessageReader(self.claims))
        detector, check = Detector(lambda: self.model, chosen), ClaimCheck(settings, self.claims)
        handle = Runner(detector, DeadLetterLimit(), claim_check=check).handle
        with beside(partial(run_consumer, settings, topic, topic, Calls(handle))) as errors:
            yield errors

    def produce(self, *sent: Snapshot) -> None:
        """Send them, and labels of them."""
        settings, topic = self.broker.settings(max_message_bytes=INLINE), self.topics[0]
        create_topics(settings, [TopicSpec(f"{topic}.labels")])
        labels = (
            Labels(s.graph, s.id, s.window, s.nodes, np.arange(s.n_nodes, dtype="i4")) for s in sent
        )
        with Publisher(settings) as publisher:
            publish_source(
                Source(len(sent), zip(sent, labels, strict=True)),
                publisher,
                topic=topic,
                labels_topic=f"{topic}.labels",
                claim_check=ClaimCheck(settings, self.claims),
            )

    def results(self, limit: int) -> list[Communities]:
        where = {"settings": self.broker.settings(), "topic": self.topics[1]}
        return list(subscribe(start="beginning", limit=limit, claims=self.claims, **where))

    def dead_letters(self) -> list[Record]:
        return held(self.broker, f"{self.topics[0]}.dlq")


@pytest.fixture
def whole(broker: Broker, topics: Topics, model: VersionedModel, claims: ClaimSettings) -> Stream:
    return Stream(broker, topics, model, claims)


@pytest.fixture
def placeless(whole: Stream) -> Stream:
    """The same, without a place for what is large."""
    return replace(whole, claims=ClaimSettings())


def test_what_is_too_big_for_a_message_comes_through_whole(
    whole: Stream, snapshot: MakeSnapshot
) -> None:
    sent = [snapshot(0), snapshot(1, **BIG), snapshot(2)]
    whole.produce(*sent)
    with whole.detecting():
        results = whole.results(3)
    for result, its in zip(results, sent, strict=True):
        assert (result.snapshot_id, result.n_edges) == (its.id, its.n_edges)
        assert result.nodes.equals(its.nodes)
    # Three times the big one: its graph, its labels, its communities; the small ones inline.
    topic, communities_topic = whole.topics
    holders = [held(whole.broker, of) for of in (topic, f"{topic}.labels", communities_topic)]
    for records in holders:
        assert [record.value == b"" for record in records] == [False, True, False]
        assert all(len(record.value or b"") < INLINE for record in records)
    assert len(objects(whole.claims)) == 3
    labels = MessageReader(whole.claims).decoded(holders[1][1], decode_labels)
    assert labels.labels.tolist() == list(range(sent[1].n_nodes))


def test_without_a_place_the_producer_stops_and_a_result_becomes_a_dead_letter(
    placeless: Stream, snapshot: MakeSnapshot, outgoing: ToRecord
) -> None:
    with pytest.raises(MessageTooLarge, match="limit of 4096 bytes.*set STREAM_ICD_CLAIMS_URI"):
        placeless.produce(snapshot(0, **BIG))
    three = (snapshot(0), snapshot(1, **BIG), snapshot(2))
    sent = [outgoing(made, placeless.topics[0]) for made in three]
    publish(placeless.broker, sent)
    with placeless.detecting():
        assert [result.snapshot_id for result in placeless.results(2)] == ["test/0", "test/2"]
    (letter,) = placeless.dead_letters()
    why = {name: value.decode() for name, value in letter.headers}
    assert (letter.value, why["icd_dlq_stage"]) == (sent[1].value, "publish")
    assert why["icd_dlq_exception"] == "LimitExceeded"
    assert "its result is too large" in why["icd_dlq_message"]
    assert "set STREAM_ICD_CLAIMS_URI" in why["icd_dlq_message"]


@pytest.mark.parametrize("value", [None, b"", b"value" * 1000])
def test_headers_that_are_too_large_are_refused_not_claimed(
    broker: Broker, make_topic: MakeTopic, claims: ClaimSettings, value: bytes | None
) -> None:
    record = OutgoingRecord(make_topic(), value, b"g", (("x", bytes(2 * INLINE)),))
    settings = broker.settings(max_message_bytes=INLINE)
    with pytest.raises(RecordTooLarge, match="limit of 4096.*") as refused:
        ClaimCheck(settings, claims)(record)
    assert ("its key and headers" in str(refused.value)) == bool(value)
    assert ("STREAM_ICD_CLAIMS_URI" in str(refused.value)) != bool(value)
    with Publisher(settings) as publisher, pytest.raises(MessageTooLarge):
        publisher.send(record)


def test_a_dead_letter_that_its_topic_does_not_take_stops_the_worker(placeless: Stream) -> None:
    headers = (("x", bytes(DEAD_LETTER_ROOM + INLINE)),)
    topic = placeless.topics[0]
    publish(placeless.broker, [OutgoingRecord(topic, b"garbage", b"test", headers)])
    with placeless.detecting() as errors:
        wait_until(lambda: errors)
    (error,) = errors
    assert isinstance(error, MessageTooLarge)
    assert f"{topic}.dlq" in str(error)


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_the_topics_own_limit_counts_where_it_is_lower(
    broker: Broker, make_topic: MakeTopic, claims: ClaimSettings
) -> None:
    topic = make_topic(max_message_bytes=20_000)
    claim_check = ClaimCheck(broker.settings(), claims)
    small, large = (claim_check(OutgoingRecord(topic, bytes(n), b"g")) for n in (19_000, 20_000))
    assert small.value == bytes(19_000)
    if large.value != b"":  # a broker that does not tell its topics' settings
        assert broker.name == "embedded"


def test_a_tracker_reads_claimed_communities_and_remembers_claimed_events(
    broker: Broker, topics: Topics, claims: ClaimSettings
) -> None:
    sent = stream("g", 6)
    records = as_read(as_claim(communities_record(found, "found"), claims) for found in sent)
    for part in (records[:3], records[3:]):  # the second one knows only the topic
        tracker = Tracker(broker.settings(), topic=topics[1], reader=MessageReader(claims))
        events = Runner(tracker, DeadLetterLimit()).handle(part)
        publish(broker, [as_claim(result, claims) for result in events])
    of = {"settings": broker.settings(), "topic": topics[1], "claims": claims}
    received = subscribe_events(start="beginning", until="end", **of)
    assert same(list(received), unbroken(sent))
    assert all(record.value == b"" for record in held(broker, topics[1]))


def test_an_archive_keeps_the_content_and_not_the_claim_and_a_replay_fetches_what_is_claimed(
    tmp_path: Path, claims: ClaimSettings, claimed: Callable[..., Record], snapshot: MakeSnapshot
) -> None:
    store, reader, record = open_store(str(tmp_path / "history")), MessageReader(claims), claimed(0)
    archiver = Archiver(Archive(store), "snapshots", reader)
    assert list(Runner(archiver, DeadLetterLimit()).handle([record])) == []
    assert ReplayJob.of_record(record, reader).snapshot() == snapshot(0, **BIG)
    the_object(claims).unlink()
    (noted,) = Archive(store).windows()
    assert Archive(store).read_snapshot(noted) == snapshot(0, **BIG)
    names = [name for name, _ in Archive(store).read_message(noted).headers]
    assert not any(name.startswith("icd_claim") for name in names)


def test_an_object_store_holds_what_is_claimed(
    s3: str, snapshot: MakeSnapshot, outgoing: ToRecord
) -> None:
    claims = ClaimSettings(uri=new_folder(s3))
    sent = outgoing(snapshot(0, **BIG), "t")
    (record,) = as_read([as_claim(sent, claims)])
    assert b"endpoint" not in dict(record.headers)["icd_claim_uri"]
    reader = pickle.loads(pickle.dumps(MessageReader(claims)))  # as worker processes get it
    assert reader.whole(record).value == sent.value
    (path,) = objects(claims)
    open_store(str(claims.uri)).delete(path)
    with pytest.raises(ClaimedObjectMissing, match=path):
        MessageReader(claims).whole(record)


# The headers of a claim survive the wire, and broken ones are named.

URI, BYTES, SHA256 = NAMES = Claim.NAMES
OTHERS: Headers = (("ce_id", b"g/1"), ("icd_k", b"3"), ("traceparent", b"\xff"))
CLAIM = Claim("s3://bucket/é.arrows", 5, sha256(b"bytes").hexdigest())


@pytest.mark.parametrize("at", range(len(OTHERS) + 1))
def test_a_claim_is_read_as_it_was_made_whatever_stands_around_it(at: int) -> None:
    headers = (*OTHERS[:at], *reversed(CLAIM.headers()), *OTHERS[at:])
    assert Claim.among(headers) == CLAIM
    assert Claim.left_out(headers) == OTHERS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (URI, b""),
        (URI, b"s3://\xff"),
        (BYTES, b"0"),
        (BYTES, b"9" * 5000),
        (BYTES, "٣".encode()),
        (SHA256, b"ab" * 31),
        (SHA256, b"AB" * 32),
        (SHA256, b"ab" * 32 + b"\n"),
    ],
)
def test_what_is_no_claim_is_named(name: str, value: bytes) -> None:
    headers = tuple((own, value if own == name else text) for own, text in CLAIM.headers())
    with pytest.raises(BadClaim, match=name) as raised:
        Claim.among(headers)
    assert len(str(raised.value)) < 200


def test_a_claim_is_whole_and_given_once_or_there_is_none() -> None:
    assert Claim.among(OTHERS) is None
    for missing in NAMES:
        headers = tuple(header for header in CLAIM.headers() if header[0] != missing)
        with pytest.raises(BadClaim, match=missing):
            Claim.among(headers)
    with pytest.raises(BadClaim, match="icd_claim_uri is given 2 times; send it once"):
        Claim.among((*CLAIM.headers(), CLAIM.headers()[0]))


# Sending.


def test_a_retry_writes_the_same_object_and_sends_the_same_message(
    claims: ClaimSettings, snapshot: MakeSnapshot, outgoing: ToRecord
) -> None:
    record = outgoing(snapshot(0, **BIG), "t")
    first, second = as_claim(record, claims), as_claim(record, claims)
    assert first == second  # so a producer that is killed in between leaves nothing behind
    assert the_object(claims).read_bytes() == record.value
    headers = dict(first.headers)
    assert headers["icd_claim_sha256"].decode() == sha256(record.value or b"").hexdigest()
    assert headers["icd_claim_uri"].startswith(f"{claims.place}/topic=t/".encode())
    assert (first.key, first.headers[: len(record.headers)]) == (record.key, record.headers)


# Reading.


OUTSIDE = [
    "/etc/passwd",
    "{place}/../secret.arrows",
    "{place}/./x.arrows",
    "{place}//x.arrows",
    "{place}/",
    "{place}2/x.arrows",
    "{place}/.hidden",
    "{place}/_aside.part",
    "{place}/%2e%2e/secret.arrows",
    "{place}/x?endpoint_override=evil.example",
    "{place}/x\n",
    "{place}/" + "a" * 300,
    "{place}/" + "a/" * 300 + "a",
    "s3://evil/x.arrows",
]


@pytest.mark.parametrize("uri", OUTSIDE)
def test_only_what_is_below_our_own_place_is_opened(
    claims: ClaimSettings, claimed: Callable[..., Record], uri: str
) -> None:
    record, content = claimed(0), b"secret"
    the_object(claims).parents[2].joinpath("secret.arrows").write_bytes(content)
    refused = with_claim(record, uri.format(place=claims.place), content)
    with pytest.raises(ClaimRefused, match="STREAM_ICD_CLAIMS_URI"):
        MessageReader(claims).whole(refused)


def test_what_is_no_claim_on_an_object_of_ours_is_refused(
    claims: ClaimSettings, claimed: Callable[..., Record]
) -> None:
    record, path, reader = claimed(0), the_object(claims), MessageReader(claims)
    with pytest.raises(ClaimRefused, match="STREAM_ICD_CLAIMS_URI is not set here"):
        MessageReader(ClaimSettings()).whole(record)
    with pytest.raises(BadClaim, match="a value of 4 bytes and a claim on"):
        reader.whole(replace(record, value=b"both"))
    with pytest.raises(ClaimedObjectMissing):  # it is a folder
        reader.whole(with_claim(record, f"{claims.place}/topic=t"))
    content, size = path.read_bytes(), path.stat().st_size
    for altered in (b"", b"short", content[::-1]):
        path.write_bytes(altered)
        says = f"{path.name} does not have the size and SHA-256"
        with pytest.raises(ClaimedObjectAltered, match=says):
            reader.whole(record)
    path.unlink()  # it is not even looked for
    with pytest.raises(LimitExceeded, match=f"has {size} bytes; the limit is {size - 1}"):
        MessageReader(claims, Limits(decoded_bytes=size - 1)).whole(record)


def test_a_store_that_does_not_answer_is_not_the_messages_fault() -> None:
    address = "region=us-east-1&endpoint_override=127.0.0.1:9&scheme=http"
    claims = ClaimSettings(uri=f"s3://bucket/claims?{address}")
    record = with_claim(Record("t", 0, 0, 0, b"g", b""), "s3://bucket/claims/x.arrows")
    with pytest.raises(StoreUnreachable, match="s3://bucket/claims: .*connect"):
        MessageReader(claims).whole(record)


@pytest.mark.parametrize("uri", [" ", "s3://key:secret@bucket/x", "s3://key:se/cret@bucket"])
def test_a_place_that_is_none_is_refused_at_once(uri: str) -> None:
    with pytest.raises(BadSettings, match="uri: it") as raised:
        ClaimSettings(uri=uri)
    assert "secret" not in str(raised.value)


def test_the_place_comes_from_the_environment_or_the_file_and_has_no_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ClaimSettings(uri="s3://bucket/x/?region=eu&scheme=http").place == "s3://bucket/x"
    file = tmp_path / "icd.toml"
    file.write_text('[claims]\nuri = "s3://bucket/claims/"\n[kafka]\nclient_id = "x"\n')
    monkeypatch.setenv("STREAM_ICD_CONFIG_FILE", str(file))
    assert ClaimSettings().place == "s3://bucket/claims"
    monkeypatch.setenv("STREAM_ICD_CLAIMS_URI", "relative")
    assert ClaimSettings().place == (Path.cwd() / "relative").as_uri()


# A detector.


def test_dead_letters_keep_the_claim_so_that_a_retry_works(
    whole: Stream, snapshot: MakeSnapshot
) -> None:
    whole.produce(snapshot(0, **BIG))
    (record,) = held(whole.broker, whole.topics[0])
    uri = dict(record.headers)["icd_claim_uri"].decode()
    path = Path(uri.removeprefix("file://"))
    content = path.read_bytes()
    path.unlink()
    with whole.detecting():
        wait_until(whole.dead_letters)
        (dead,) = whole.dead_letters()
        why = dict(dead.headers)
        assert why["icd_dlq_exception"] == b"ClaimedObjectMissing"
        assert uri.encode() in why["icd_dlq_message"]
        assert (dead.key, dead.value) == (record.key, record.value)
        assert dead.headers[: len(record.headers)] == record.headers
        path.write_bytes(content)
        again = OutgoingRecord(record.topic, dead.value, dead.key, record.headers)
        publish(whole.broker, [again])  # as `stream-icd dlq retry` does
        (result,) = whole.results(1)
    assert result.snapshot_id == "test/0"


def test_a_store_that_is_away_stops_the_worker_and_loses_nothing(
    whole: Stream, snapshot: MakeSnapshot
) -> None:
    whole.produce(snapshot(0), snapshot(1, **BIG))
    folder = folder_of(whole.claims)
    folder.rename(folder.with_name("unmounted"))
    with whole.detecting() as errors:
        wait_until(lambda: errors)
    assert isinstance(errors[0], StoreUnreachable)
    assert str(folder) in str(errors[0])
    assert whole.dead_letters() == []
    folder.with_name("unmounted").rename(folder)
    with whole.detecting():
        assert [result.snapshot_id for result in whole.results(2)] == ["test/0", "test/1"]
