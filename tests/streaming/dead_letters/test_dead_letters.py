"""What is dead-lettered comes back as it was, says why, and is sent again once that is fixed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
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
    Retry,
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

Detecting = Callable[..., AbstractContextManager[None]]

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


def test_all_dead_letters_of_a_record_are_one_record() -> None:
    by_detector, by_archive = (letter_of(record(1), stage) for stage in ("decode", "archive"))
    attempt, origin = str(by_detector.attempt).encode(), by_detector.origin.encode()
    again = record(5, ("icd_dlq_attempt", attempt), ("icd_dlq_origin", origin))  # it was resent
    later, other = letter_of(again, offset=11), letter_of(record(2), offset=12)
    retried = {"t[0]@1": [Retried("now", "t")]}
    one, two = DeadLetterBox([by_detector, by_archive, later, other], retried).records
    assert (one.origin, one.stages, one.attempt) == ("t[0]@1", ("decode", "archive"), 2)
    assert (one.first, one.latest) == (by_detector, later)
    assert (one.was_sent_again, two.was_sent_again) == (True, False)
    assert (two.origin, two.attempt) == ("t[0]@2", 1)
    assert BadRecord([later]).was_sent_again, "also where retention has removed the marker"


@pytest.mark.parametrize("origin", [b"", b"\xff", b"t[0]", b"t[x]@1", b"a b[0]@1"])
def test_an_origin_that_is_none_does_not_matter(origin: bytes) -> None:
    letter = letter_of(record(3, ("icd_dlq_origin", origin)))
    assert (letter.origin, letter.headers) == ("t[0]@3", ())


def test_a_record_that_claims_the_origin_of_another_is_not_sent_in_its_place() -> None:
    forged = letter_of(record(0, ("icd_dlq_origin", b"t[0]@1")))
    theirs = letter_of(record(1), offset=10)
    (found,) = DeadLetterBox([forged, theirs], {}).records
    assert found.first == theirs


@pytest.mark.parametrize("text", [b"", b"-1", b"many", b"9" * 5000, "²".encode()])
def test_a_count_that_is_none_does_not_matter(text: bytes) -> None:
    assert letter_of(record(1, ("icd_dlq_attempt", text))).attempt == 1


def test_a_marker_lies_behind_its_dead_letter_and_deletes_nothing() -> None:
    letter = letter_of(Record("t", 3, 41, 0, b"g", b"x"))
    marker = letter.marker("elsewhere", letter.at)
    assert (marker.topic, marker.partition, marker.key) == ("t.dlq", 0, b"g")
    assert marker.value == b"", "null would delete the dead letter from a compacted topic"
    assert dict(marker.headers) == {
        "icd_dlq_retried": b"t[3]@41",
        "icd_dlq_retried_at": b"2023-11-14T22:13:20.123000Z",
        "icd_dlq_retried_to": b"elsewhere",
    }
    assert split_headers(marker.headers) == (marker.headers, {})


def test_places_are_named_as_lists_and_logs_name_them() -> None:
    assert parse_places([], "t") == parse_places([], "t.dlq") == ("t.dlq", frozenset())
    named = frozenset({"t.dlq[0]@7", "t.dlq[1]@8", "t[2]@9"})
    assert parse_places(["0:7", "t.dlq[1]@8", "t[2]@9"], "t") == ("t.dlq", named)
    assert parse_places(["u[2]@9"], "t") == ("u.dlq", frozenset({"u[2]@9"}))
    with pytest.raises(BadSettings, match="PARTITION:OFFSET"):
        parse_places(["seven"], "t")
    with pytest.raises(BadSettings, match="several topics"):
        parse_places(["t[0]@1", "u[0]@1"], "t")


def retry_all(broker: Broker, topic: str, again: bool = False) -> Retry:
    with closing(open_retry_sink(broker.steady(), f"{topic}.dlq")) as sink:
        choice = DeadLetterChoice(TopicRange(f"{topic}.dlq"))
        plan = ResendPlan.of(box_of(broker, topic), choice, again=again)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return plan.send(broker.settings(), sink, Tempo(), lambda: at, threading.Event())


def box_of(broker: Broker, topic: str) -> DeadLetterBox:
    return DeadLetterBox.read(broker.settings(), f"{topic}.dlq", until="settled")


@pytest.fixture
def detecting(broker: Broker, topics: tuple[str, str], model: VersionedModel) -> Detecting:
    """`detecting(limits)`: a detector at work beside a block, which reads what the limits allow."""

    @contextmanager
    def detecting(limits: Limits, group: str = "detect") -> Iterator[None]:
        settings = DetectSettings(topic=topics[1], threads=1, reader=MessageReader(limits=limits))
        handler = Calls(Runner(Detector(lambda: model, settings)).handle)
        own_group = f"{topics[0]}-{group}"
        work = partial(run_consumer, broker.settings(), topics[0], own_group, handler)
        with beside(work) as errors:
            yield
        assert not errors

    return detecting


def test_what_was_dead_lettered_is_detected_once_the_limit_was_raised(
    broker: Broker, topics: tuple[str, str], detecting: Detecting, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, found = topics

    def detected() -> list[str]:
        """The snapshot of each result, also of one that was published twice."""
        return [dict(one.headers)["icd_snapshot_id"].decode() for one in held(broker, found)]

    sent = cliques(0), cliques(1, size=20), cliques(2)
    publish(broker, [outgoing(one, topic) for one in sent])
    with detecting(Limits(rows=200)):
        wait_until(lambda: len(detected()) == 2)
        wait_until(lambda: len(box_of(broker, topic).letters) == 1)  # it is in another topic
        assert retry_all(broker, topic) == Retry(sent=1)  # nothing is mended yet
        wait_until(lambda: len(box_of(broker, topic).letters) == 2)
    first, second = box_of(broker, topic).letters
    assert (first.snapshot_id, first.exception) == ("test/1", "LimitExceeded")
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.headers == first.headers == outgoing(sent[1], topic).headers
    assert list(box_of(broker, topic).retried) == [first.origin] == [second.origin]
    (dead,) = [one for one in held(broker, f"{topic}.dlq") if one.offset == second.offset]
    dead = Record("", 0, 0, 0, dead.key, dead.value, second.headers)
    assert _verdict(dead, MessageReader()) == "it can be read, as stream_icd.snapshot.v1"
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "200")
    assert "LimitExceeded" in _verdict(dead, MessageReader())

    with detecting(Limits(rows=10_000)):
        assert retry_all(broker, topic) == Retry(sent=0)  # it failed again: who knows better?
        assert retry_all(broker, topic, again=True) == Retry(sent=1)
        wait_until(lambda: len(detected()) == 3)
        assert retry_all(broker, topic) == Retry(sent=0)
    assert detected() == ["test/0", "test/2", "test/1"]
    assert len(box_of(broker, topic).letters) == 2


def test_what_two_workers_dead_lettered_is_one_record_however_often_it_fails(
    broker: Broker, topics: tuple[str, str], detecting: Detecting
) -> None:
    topic, limits = topics[0], Limits(rows=200)
    publish(broker, [outgoing(cliques(0, size=20), topic)])
    with detecting(limits, "detect"), detecting(limits, "archive"):
        for attempt in (1, 2, 3):
            wait_until(lambda n=2 * attempt: len(box_of(broker, topic).letters) == n)
            (found,) = box_of(broker, topic).records
            assert (found.attempt, len(found.retried)) == (attempt, attempt - 1)
            assert retry_all(broker, topic, again=attempt > 1) == Retry(sent=1)
            assert retry_all(broker, topic) == Retry(sent=0)
    came = [dict(one.headers).get("icd_dlq_attempt") for one in held(broker, topic)]
    assert came == [None, b"1", b"2", b"3"]


def test_what_its_topic_takes_no_more_goes_to_the_file_store(
    memory: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(memory.settings(), TopicSpec(topic_name).with_dead_letters())
    monkeypatch.setenv("STREAM_ICD_CLAIMS_URI", str(tmp_path / "claims"))
    value, headers = b"x" * 20_000, (("ce_id", b"g/1"),)
    came = Record(topic_name, 0, 9, 0, b"g", value, headers)
    publish(memory, [dead_letter(came, "decode", LimitExceeded("too large"))])
    monkeypatch.setenv("STREAM_ICD_MAX_MESSAGE_BYTES", "10000")
    assert retry_all(memory, topic_name) == Retry(sent=1)
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
