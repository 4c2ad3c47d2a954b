"""What is dead-lettered comes back as it was, and says why it was dead-lettered."""

from __future__ import annotations

import pytest

from stream_icd.core.errors import BadSettings, BadSnapshot
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import MEMORY
from stream_icd.streaming.dead_letters.box import (
    BadRecord,
    DeadLetter,
    DeadLetterBox,
    DeadLetterChoice,
    Retried,
    dead_letter_of,
    parse_places,
    retried_marker,
)
from stream_icd.streaming.dead_letters.letters import dead_letter, split_headers
from stream_icd.streaming.dead_letters.retry import plan_retry

# Among a record's own headers may be some that look like ours.
ODD_HEADERS = (
    ("icd_dlq_topic", b"theirs"),
    ("ce_id", b"g/1"),
    ("ce_id", b"\xff"),
    ("empty", b""),
    ("icd_dlq_stage", b"theirs"),
)


def dead_lettered(record: Record, stage: str = "decode", offset: int = 9) -> Record:
    """What a reader of the dead-letter topic sees of it."""
    out = dead_letter(record, stage, BadSnapshot("not an Arrow IPC stream"))
    return Record(out.topic, 0, offset, 1_700_000_000_123, out.key, out.value, out.headers)


@pytest.mark.parametrize("key", [b"g", b"\xff", b"", None])
@pytest.mark.parametrize("value", [b"\x00 not Arrow \xff", b"", None])
def test_a_dead_letter_keeps_what_came_and_says_why(key: bytes | None, value: bytes | None) -> None:
    dead = dead_lettered(Record("t", 3, 41, 0, key, value, ODD_HEADERS))
    assert (dead.topic, dead.key, dead.value) == ("t.dlq", key, value)
    letter = dead_letter_of(dead)
    assert letter.headers == ODD_HEADERS
    assert (letter.place, letter.came_from) == ("t.dlq[0]@9", "t[3]@41")
    assert (letter.stage, letter.exception) == ("decode", "BadSnapshot")
    assert letter.message == "not an Arrow IPC stream"
    assert letter.at.isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert letter.size == (None if value is None else len(value))


def test_a_dead_letter_of_memory_is_chosen_by_its_graph() -> None:
    kept = Record(MEMORY, 0, 7, 0, b'["stream-icd-detect", "as733"]', b"x")
    letter = dead_letter_of(dead_lettered(kept))
    box = DeadLetterBox([letter], {})
    assert DeadLetterChoice(TopicRange(letter.topic), graph="as733").of(box) == [letter]
    with pytest.raises(BadSettings, match="it holds those of as733; did you mean as733"):
        DeadLetterChoice(TopicRange(letter.topic), graph="as773").of(box)


def test_a_record_that_goes_round_in_circles_is_counted() -> None:
    came = Record("t", 0, 1, 0, b"g", b"x", ODD_HEADERS)
    for attempt in (1, 2, 3):
        letter = dead_letter_of(dead_lettered(came))
        assert (letter.attempt, letter.headers) == (attempt, ODD_HEADERS)
        counted = ("icd_dlq_attempt", str(letter.attempt).encode())
        came = Record("t", 0, 1 + attempt, 0, b"g", b"x", (*letter.headers, counted))


def again(letter: DeadLetter, offset: int, *own: tuple[str, bytes]) -> Record:
    """It was sent again, and lies there now."""
    attempt, origin = str(letter.attempt).encode(), letter.origin.encode()
    headers = (*own, ("icd_dlq_attempt", attempt), ("icd_dlq_origin", origin))
    return Record("t", 0, offset, 0, b"g", b"x", headers)


def test_all_dead_letters_of_a_record_are_one_record() -> None:
    came = Record("t", 0, 1, 0, b"g", b"x")
    by_detector, by_archive = (
        dead_letter_of(dead_lettered(came, s)) for s in ("decode", "archive")
    )
    later = dead_letter_of(dead_lettered(again(by_detector, 5), offset=11))
    other = dead_letter_of(dead_lettered(Record("t", 0, 2, 0, b"g", b"x"), offset=12))
    retried = {"t[0]@1": [Retried("now", "t")]}
    record, two = DeadLetterBox([by_detector, by_archive, later, other], retried).records
    assert (record.origin, record.stages, record.attempt) == ("t[0]@1", ("decode", "archive"), 2)
    assert (record.first, record.latest) == (by_detector, later)
    assert (record.was_sent_again, two.was_sent_again) == (True, False)
    assert (two.origin, two.attempt) == ("t[0]@2", 1)
    assert BadRecord([later]).was_sent_again, "also where retention has removed the marker"


@pytest.mark.parametrize("origin", [b"", b"\xff", b"t[0]", b"t[x]@1", b"a b[0]@1"])
def test_an_origin_that_is_none_does_not_matter(origin: bytes) -> None:
    came = Record("t", 0, 3, 0, b"g", b"x", (("icd_dlq_origin", origin),))
    letter = dead_letter_of(dead_lettered(came))
    assert (letter.origin, letter.headers) == ("t[0]@3", ())


def test_a_record_that_claims_the_origin_of_another_is_not_sent_in_its_place() -> None:
    came = Record("t", 0, 1, 0, b"g", b"theirs")
    forged = Record("t", 0, 0, 0, b"g", b"x", (("icd_dlq_origin", b"t[0]@1"),))
    letters = [
        dead_letter_of(dead_lettered(forged)),
        dead_letter_of(dead_lettered(came, offset=10)),
    ]
    (record,) = DeadLetterBox(letters, {}).records
    assert record.first == letters[1]


@pytest.mark.parametrize("text", [b"", b"-1", b"many", b"9" * 5000, "²".encode()])
def test_a_count_that_is_none_does_not_matter(text: bytes) -> None:
    came = Record("t", 0, 1, 0, b"g", b"x", (("icd_dlq_attempt", text),))
    assert dead_letter_of(dead_lettered(came)).attempt == 1


def test_a_marker_lies_behind_its_dead_letter_and_deletes_nothing() -> None:
    letter = dead_letter_of(dead_lettered(Record("t", 3, 41, 0, b"g", b"x")))
    marker = retried_marker(letter, "elsewhere", letter.at)
    assert (marker.topic, marker.partition, marker.key) == ("t.dlq", 0, b"g")
    assert marker.value == b"", "null would delete the dead letter from a compacted topic"
    assert dict(marker.headers) == {
        "icd_dlq_retried": b"t[3]@41",
        "icd_dlq_retried_at": b"2023-11-14T22:13:20.123000Z",
        "icd_dlq_retried_to": b"elsewhere",
    }
    assert split_headers(marker.headers) == (marker.headers, {})


def test_places_are_named_as_lists_and_logs_name_them() -> None:
    assert parse_places([], "t") == ("t.dlq", frozenset())
    assert parse_places([], "t.dlq") == ("t.dlq", frozenset())
    named = ["0:7", "t.dlq[1]@8", "t[2]@9"]
    assert parse_places(named, "t") == (
        "t.dlq",
        frozenset({"t.dlq[0]@7", "t.dlq[1]@8", "t[2]@9"}),
    )
    assert parse_places(["u[2]@9"], "t") == ("u.dlq", frozenset({"u[2]@9"}))
    with pytest.raises(BadSettings, match="PARTITION:OFFSET"):
        parse_places(["seven"], "t")
    with pytest.raises(BadSettings, match="several topics"):
        parse_places(["t[0]@1", "u[0]@1"], "t")


def test_a_dead_letter_whose_own_value_went_to_the_file_store_keeps_its_claim() -> None:
    claim = (("icd_claim_uri", b"file:///c/1"), ("icd_claim_bytes", b"9"))
    dead = dead_lettered(Record("t", 3, 41, 0, b"g", b"x", ODD_HEADERS))
    headers, added = split_headers((*dead.headers, *claim))
    assert headers == (*ODD_HEADERS, *claim)
    assert added["icd_dlq_offset"] == "41"


def test_old_memory_is_not_sent_again_since_detectors_would_continue_with_it() -> None:
    """The memory topic is compacted: what is sent last is all that is left of a graph."""
    letter = dead_letter_of(dead_lettered(Record(MEMORY, 0, 7, 0, b'["g", "a"]', b"old")))
    box, choice = DeadLetterBox([letter], {}), DeadLetterChoice(TopicRange(letter.topic))
    with pytest.raises(BadSettings, match="nothing is sent to icd.memory.v1: .* the older one"):
        plan_retry(box, choice)
    with pytest.raises(BadSettings, match="nothing is sent to icd.memory.v1"):
        plan_retry(box, choice, to=MEMORY)
    assert plan_retry(box, choice, to="elsewhere").targets == {"elsewhere": 1}
