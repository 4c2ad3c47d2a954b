"""What is dead-lettered comes back as it was, says why, and is sent again once that is fixed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from stream_icd.commands.cli.dlq import _verdict
from stream_icd.core.errors import BadSettings, BadSnapshot, LimitExceeded
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.messages.claims import ClaimSettings, MessageReader
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import MEMORY, create_topics
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.box import (
    BadRecord,
    DeadLetterBox,
    DeadLetterChoice,
    ResendPlan,
    open_retry_sink,
)
from stream_icd.streaming.dead_letters.letters import (
    DeadLetter,
    Retried,
    dead_letter,
    parse_places,
    split_headers,
)
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.limits import Limits
from tests.fixtures.stream import cliques
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.drifting import outgoing
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside, held, publish

pytestmark = pytest.mark.brokers("memory")

# Among a record's own headers may be some that look like ours.
ODD_HEADERS = (
    ("icd_dlq_topic", b"theirs"),
    ("ce_id", b"g/1"),
    ("ce_id", b"\xff"),
    ("empty", b""),
    ("icd_dlq_stage", b"theirs"),
)


def record(offset: int, *headers: tuple[str, bytes]) -> Record:
    return Record("t", 0, offset, 0, b"g", b"x", headers)


def dead_lettered(came: Record, stage: str = "decode", offset: int = 9) -> Record:
    """What a reader of the dead-letter topic sees of it."""
    out = dead_letter(came, stage, BadSnapshot("not an Arrow IPC stream"))
    return Record(out.topic, 0, offset, 1_700_000_000_123, out.key, out.value, out.headers)


def letter_of(came: Record, stage: str = "decode", offset: int = 9) -> DeadLetter:
    return DeadLetter.of(dead_lettered(came, stage, offset))


@pytest.mark.parametrize("key", [b"g", b"\xff", b"", None])
@pytest.mark.parametrize("value", [b"\x00 not Arrow \xff", b"", None])
def test_a_dead_letter_keeps_what_came_and_says_why(key: bytes | None, value: bytes | None) -> None:
    dead = dead_lettered(Record("t", 3, 41, 0, key, value, ODD_HEADERS))
    assert (dead.topic, dead.key, dead.value) == ("t.dlq", key, value)
    letter = DeadLetter.of(dead)
    assert letter.headers == ODD_HEADERS
    assert (letter.place, letter.came_from) == ("t.dlq[0]@9", "t[3]@41")
    assert (letter.stage, letter.exception) == ("decode", "BadSnapshot")
    assert letter.message == "not an Arrow IPC stream"
    assert letter.at.isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert letter.size == (None if value is None else len(value))
    claim = (("icd_claim_uri", b"file:///c/1"), ("icd_claim_bytes", b"9"))  # of its own value
    headers, added = split_headers((*dead.headers, *claim))
    assert (headers, added["icd_dlq_offset"]) == ((*ODD_HEADERS, *claim), "41")
    marker = letter.marker("elsewhere", letter.at)
    assert (marker.topic, marker.partition, marker.key) == ("t.dlq", 0, key)
    assert marker.value == b"", "null would delete the dead letter from a compacted topic"
    assert split_headers(marker.headers) == (marker.headers, {})


def test_a_dead_letter_of_memory_is_chosen_by_its_graph_and_not_sent_again() -> None:
    """The memory topic is compacted: what is sent last is all that is left of a graph."""
    letter = letter_of(Record(MEMORY, 0, 7, 0, b'["stream-icd-detect", "as733"]', b"old"))
    box, part = DeadLetterBox([letter], {}), TopicRange(letter.topic)
    assert DeadLetterChoice(part, graph="as733").of(box) == [letter]
    with pytest.raises(BadSettings, match="it holds those of as733; did you mean as733"):
        DeadLetterChoice(part, graph="as773").of(box)
    for to in (None, MEMORY):
        with pytest.raises(BadSettings, match="nothing is sent to icd.memory.v1: .* older one"):
            ResendPlan.of(box, DeadLetterChoice(part), to=to)
    assert ResendPlan.of(box, DeadLetterChoice(part), to="elsewhere").targets == {"elsewhere": 1}


def test_all_dead_letters_of_a_record_are_one_record_and_no_other_takes_its_place() -> None:
    by_detector, by_archive = (letter_of(record(1), stage) for stage in ("decode", "archive"))
    attempt, origin = str(by_detector.attempt).encode(), by_detector.origin.encode()
    again = record(5, ("icd_dlq_attempt", attempt), ("icd_dlq_origin", origin))  # it was resent
    later, other = letter_of(again, offset=11), letter_of(record(2), offset=12)
    forged = letter_of(record(0, ("icd_dlq_origin", b"t[0]@1")))
    retried = {"t[0]@1": [Retried("now", "t")]}
    letters = [forged, by_detector, by_archive, later, other]
    several, single = DeadLetterBox(letters, retried).records
    assert (several.origin, several.attempt) == ("t[0]@1", 2)
    assert several.stages == ("decode", "archive")
    assert (several.first, several.latest) == (by_detector, later)
    assert (several.was_sent_again, single.was_sent_again) == (True, False)
    assert (single.origin, single.attempt) == ("t[0]@2", 1)
    choice = DeadLetterChoice(TopicRange("t.dlq"))
    plan = ResendPlan.of(DeadLetterBox(letters, retried), choice)
    assert (plan.records, plan.already) == ([(single, "t")], 1)
    assert BadRecord([later]).was_sent_again, "also where retention has removed the marker"


def test_an_origin_or_a_count_that_is_none_does_not_matter() -> None:
    for origin in (b"", b"\xff", b"t[0]", b"t[x]@1", b"a b[0]@1"):
        letter = letter_of(record(3, ("icd_dlq_origin", origin)))
        assert (letter.origin, letter.headers) == ("t[0]@3", ())
    for count in (b"", b"-1", b"many", b"9" * 5000, "²".encode()):
        assert letter_of(record(1, ("icd_dlq_attempt", count))).attempt == 1


def test_places_are_named_as_lists_and_logs_name_them() -> None:
    assert parse_places([], "t") == parse_places([], "t.dlq") == ("t.dlq", frozenset())
    places = frozenset({"t.dlq[0]@7", "t.dlq[1]@8", "t[2]@9"})
    assert parse_places(["0:7", "t.dlq[1]@8", "t[2]@9"], "u") == ("t.dlq", places)
    for wrong, reason in (
        (["seven"], "PARTITION:OFFSET"),
        (["t[0]@1", "u[0]@1"], "several topics"),
    ):
        with pytest.raises(BadSettings, match=reason):
            parse_places(wrong, "t")


def retry_all(broker: Broker, topic: str, again: bool = False) -> int:
    with closing(open_retry_sink(broker.steady(), f"{topic}.dlq")) as sink:
        choice = DeadLetterChoice(TopicRange(f"{topic}.dlq"))
        plan = ResendPlan.of(box_of(broker, topic), choice, again=again)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        retry = plan.send(broker.settings(), sink, Tempo(), lambda: at, threading.Event())
        assert not retry.refused
        return retry.sent


def box_of(broker: Broker, topic: str) -> DeadLetterBox:
    return DeadLetterBox.read(broker.settings(), f"{topic}.dlq", until="settled")


@contextmanager
def detecting(
    broker: Broker, topics: tuple[str, str], model: VersionedModel, limits: Limits
) -> Iterator[None]:
    """A detector at work beside a block, which reads what the limits allow."""
    settings = DetectSettings(topic=topics[1], threads=1, reader=MessageReader(limits=limits))
    handler = Calls(Runner(Detector(lambda: model, settings)).handle)
    work = partial(run_consumer, broker.settings(), topics[0], f"{topics[0]}-detect", handler)
    with beside(work) as errors:
        yield
    assert not errors


def test_what_was_dead_lettered_is_detected_once_the_limit_was_raised(
    broker: Broker,
    topics: tuple[str, str],
    model: VersionedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, results = topics

    def detected() -> list[str]:
        """The snapshot of each result, also of one that was published twice."""
        return [
            dict(result.headers)["icd_snapshot_id"].decode() for result in held(broker, results)
        ]

    sent = cliques(0), cliques(1, size=20), cliques(2)
    publish(broker, [outgoing(snapshot, topic) for snapshot in sent])
    with detecting(broker, topics, model, Limits(rows=200)):
        wait_until(lambda: len(detected()) == 2)
        wait_until(lambda: len(box_of(broker, topic).letters) == 1)  # it is in another topic
        assert retry_all(broker, topic) == 1  # nothing is mended yet
        wait_until(lambda: len(box_of(broker, topic).letters) == 2)
    first, second = box_of(broker, topic).letters
    assert (first.snapshot_id, first.exception) == ("test/1", "LimitExceeded")
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.headers == first.headers == outgoing(sent[1], topic).headers
    assert list(box_of(broker, topic).retried) == [first.origin] == [second.origin]
    (dead,) = [dead for dead in held(broker, f"{topic}.dlq") if dead.offset == second.offset]
    dead = replace(dead, headers=second.headers)
    assert _verdict(dead, MessageReader()) == "it can be read, as stream_icd.snapshot.v1"
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "200")
    assert "LimitExceeded" in _verdict(dead, MessageReader())

    with detecting(broker, topics, model, Limits(rows=10_000)):
        assert retry_all(broker, topic) == 0  # it failed again: who knows better?
        assert retry_all(broker, topic, again=True) == 1
        wait_until(lambda: len(detected()) == 3)
        assert retry_all(broker, topic) == 0
    assert detected() == ["test/0", "test/2", "test/1"]
    assert len(box_of(broker, topic).letters) == 2


def test_what_its_topic_takes_no_more_goes_to_the_file_store(
    memory: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(memory.settings(), TopicSpec(topic_name).with_dead_letters())
    monkeypatch.setenv("STREAM_ICD_CLAIMS_URI", str(tmp_path / "claims"))
    value, headers = b"x" * 20_000, (("ce_id", b"g/1"),)
    came = Record(topic_name, 0, 9, 0, b"g", value, headers)
    publish(memory, [dead_letter(came, "decode", LimitExceeded("too large"))])
    monkeypatch.setenv("STREAM_ICD_MAX_MESSAGE_BYTES", "10000")
    assert retry_all(memory, topic_name) == 1
    (claimed,) = held(memory, topic_name)
    assert claimed.value == b""
    whole, origin = MessageReader(ClaimSettings()).whole(claimed), f"{topic_name}[0]@9".encode()
    assert whole.value == value
    assert whole.headers == (*headers, ("icd_dlq_attempt", b"1"), ("icd_dlq_origin", origin))
    again = dead_letter(claimed, "decode", LimitExceeded("too large"))  # it fails again
    kept, added = split_headers(again.headers)
    assert added["icd_dlq_attempt"] == "2"
    assert kept[0][0] == "ce_id"
    assert len(dict(kept)) == len(kept) == 1 + 3
