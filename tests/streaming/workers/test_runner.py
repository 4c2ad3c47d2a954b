"""What every step gets from the runner: its graph only, log lines, dead letters also of crashes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from stream_icd.core.errors import (
    BadInput,
    BadSettings,
    BadSnapshot,
    BrokerUnavailable,
    CrashedWorker,
    Overloaded,
    RecordTooLarge,
    StoreUnreachable,
)
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import DIED, BatchDone
from stream_icd.kafka.group.worker_notes import Attempts, WorkerNotes
from stream_icd.kafka.messages.claims import ClaimCheck, ClaimSettings, MessageReader
from stream_icd.kafka.messages.records import Outcome, Processed, Refused
from stream_icd.kafka.port import TopicPartition, TopicSpec
from stream_icd.kafka.reader import TopicReader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import WORKERS, create_topics
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.step import Step
from tests.testbed.brokers import Broker, timeouts
from tests.testbed.handlers import Calls, WhenDone
from tests.testbed.starting import start_forked
from tests.testbed.streams import held, publish

Topics = tuple[str, str]


class Number(Step):
    """Numbers the records; `?` is bad input."""

    at_once = 4

    def __init__(self) -> None:
        self._count = 0

    def process(self, record: Record) -> Outcome:
        if record.value == b"?":
            return Refused("read", BadInput("not a number"))
        self._count += 1
        number = OutgoingRecord("out", b"%d" % self._count)
        return Processed("numbered", {"count": self._count}, (number,))


def record(offset: int, graph: bytes = b"a", value: bytes = b"x") -> Record:
    return Record("in", 0, offset, 0, graph, value)


def published(runner: Runner, *records: Record) -> list[bytes | None]:
    return [one.value for one in runner.handle(records)]


def test_only_one_graph_is_processed_and_skipped_records_are_said_when_they_double() -> None:
    runner = Runner(Number(), graph="b")
    assert runner.at_once == 4
    assert published(runner, record(0, b"b")) == [b"1"]
    with capture_logs() as lines:
        for batch in range(100):
            assert published(runner, *(record(16 * batch + i) for i in range(16))) == []
    assert [line["since_start"] for line in lines] == [16, 32, 64, 128, 256, 512, 1024]


def test_a_bad_record_becomes_a_dead_letter_in_its_place_and_the_log_says_so() -> None:
    with capture_logs([merge_contextvars]) as lines:
        good, letter, other = Runner(Number()).handle([record(7), record(8, value=b"?"), record(9)])
    assert (good.value, letter.topic, other.value) == (b"1", "in.dlq", b"2")
    headers = dict(letter.headers)
    assert (headers["icd_dlq_stage"], headers["icd_dlq_message"]) == (b"read", b"not a number")
    first, bad, _ = lines
    assert first.items() >= {"event": "numbered", "count": 1, "offset": 7, "graph": "a"}.items()
    assert bad.items() >= {"event": "dead letter", "stage": "read", "offset": 8}.items()


def test_records_that_were_sent_again_too_early_stop_no_worker() -> None:
    runner = Runner(Number(), DeadLetterLimit(window=2))
    again = [replace(record(i, value=b"?"), headers=(("icd_dlq_attempt", b"1"),)) for i in range(9)]
    assert published(runner, *again) == [b"?"] * 9


def test_what_a_step_cannot_do_ends_its_worker_with_the_reason() -> None:
    class Forgetful(Number):
        def process(self, record: Record) -> Outcome:
            super().process(record)
            return None  # type: ignore[return-value]

    with pytest.raises(TypeError, match=r"Forgetful returned None for in\[0\]@0: return Processed"):
        published(Runner(Forgetful()), record(0))
    with pytest.raises(RecordTooLarge, match="refused"):  # there is no claim check
        Runner(Number()).learn(RecordTooLarge("refused", "out", 5))


@pytest.mark.brokers("memory")
@pytest.mark.parametrize(("first", "other"), [("a", "b"), (None, "a"), ("a", None)])
def test_a_group_that_is_given_to_workers_of_different_graphs_is_refused(
    broker: Broker, topics: Topics, first: str | None, other: str | None
) -> None:
    create_topics(broker.settings())
    stop = threading.Event()
    stop.set()

    def run_briefly(graph: str | None) -> None:
        runner = Runner(Copy(topics[1]), graph=graph)
        run_consumer(broker.settings(), topics[0], topics[0], runner, stop)

    run_briefly(first)
    reads = "all graphs" if first is None else f"graph {first} only"
    with pytest.raises(BadSettings, match=f"reads {reads} of .* another --group"):
        run_briefly(other)
    run_briefly(first)


ERRORS = {b"divide": ZeroDivisionError, b"store": StoreUnreachable}


class Copy(Step):
    """Copies each record; `kill` kills the process, the names of errors raise them."""

    def __init__(self, target: str) -> None:
        self._target = target

    def process(self, record: Record) -> Outcome:
        if record.value == b"kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if record.value in ERRORS:
            raise ERRORS[record.value]("as it always does")
        return Processed("copied", {}, (OutgoingRecord(self._target, record.value, record.key),))


def copy(
    settings: KafkaSettings, source: str, last: bytes, claim_check: ClaimCheck | None = None
) -> None:
    """Copy a topic to SOURCE.found in batches of four, until a record with this value is through.

    Raises:
        What a record raises.
    """
    stop = threading.Event()

    def on_done(batch: BatchDone) -> None:
        if any(record.value == last for record in batch.records):
            stop.set()

    runner, watchers = Runner(Copy(f"{source}.found"), claim_check=claim_check), [WhenDone(on_done)]
    run_consumer(settings, source, source, runner, stop, max_records=4, watchers=watchers)


LARGE, LARGER = b"large" * 1000, b"larger" * 1000
SENT = (b"0", LARGE, b"1", LARGER, b"2")


@pytest.mark.kafka
@pytest.mark.parametrize("has_store", [False, True])
def test_what_only_the_broker_finds_too_large_is_claimed_or_a_dead_letter(
    kafka: Broker, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_store: bool
) -> None:
    """The worker has no right to read the limits of topics."""
    settings = kafka.settings()
    create_topics(settings)
    target = TopicSpec(f"{topic_name}.found", max_message_bytes=2000)
    create_topics(settings, [*TopicSpec(topic_name).with_dead_letters(), target])
    publish(kafka, [OutgoingRecord(topic_name, value, b"g") for value in SENT])
    monkeypatch.setattr("stream_icd.kafka.client.broker._ClientAdmin._configs", lambda *_: {})
    claims = ClaimSettings(uri=str(tmp_path) if has_store else None)
    copy(settings, topic_name, SENT[-1], ClaimCheck(settings, claims))
    found, letters = held(kafka, target.name), held(kafka, f"{topic_name}.dlq")
    if has_store:
        assert [record.value for record in found] == [b"0", b"", b"1", b"", b"2"]
        assert tuple(MessageReader(claims).whole(record).value for record in found) == SENT
        assert letters == []
        return
    assert [record.value for record in found] == [b"0", b"1", b"2"]  # each once
    assert [letter.value for letter in letters] == [LARGE, LARGER]
    for headers in (dict(letter.headers) for letter in letters):
        assert headers["icd_dlq_stage"] == b"publish"
        reason = b"its result is too large.*set STREAM_ICD_CLAIMS_URI"
        assert re.match(reason, headers["icd_dlq_message"])


# A record that ends its worker each time is given up, and nobody else is.


def send(broker: Broker, topic: str, culprit: bytes) -> list[bytes]:
    """Records in one partition, the culprit in the midst of a batch; the others."""
    create_topics(broker.settings())
    good = [b"%d" % i for i in range(9)]
    values = (*good[:6], culprit, *good[6:])
    publish(broker, [OutgoingRecord(topic, value, b"g") for value in values])
    return good


def given_up(broker: Broker, topics: Topics, good: list[bytes], culprit: bytes) -> bytes:
    """Check that the culprit alone was given up; return why."""
    assert [record.value for record in held(broker, topics[1])] == good
    (letter,) = held(broker, f"{topics[0]}.dlq")
    why = dict(letter.headers)
    assert letter.value == culprit
    assert (why["icd_dlq_stage"], why["icd_dlq_exception"]) == (b"crashed", b"CrashedWorker")
    return why["icd_dlq_message"]


def test_a_record_that_kills_is_given_up(broker: Broker, topics: Topics, tmp_path: Path) -> None:
    good, settings = send(broker, topics[0], b"kill"), broker.settings()
    at_broker = {"STREAM_ICD_BOOTSTRAP_SERVERS": settings.bootstrap_servers}
    how = {"env": os.environ | timeouts(settings) | at_broker, "module": __name__}
    start = partial(start_forked, (topics[0], "8"), tmp_path / "log", **how)
    assert [start().wait(90) for _ in range(4)] == [-signal.SIGKILL] * 3 + [0]
    why = b"ended 3 workers in a row, the last time like this: the process died"
    assert why in given_up(broker, topics, good, b"kill")


@pytest.mark.brokers("memory")
def test_a_record_that_raises_is_given_up(broker: Broker, topics: Topics) -> None:
    good = send(broker, topics[0], b"divide")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            copy(broker.settings(), topics[0], b"8")
    copy(broker.settings(), topics[0], b"8")
    why = b"ZeroDivisionError: as it always does"
    assert why in given_up(broker, topics, good, b"divide")


@pytest.mark.brokers("memory")
def test_what_asks_to_retry_is_never_the_records_fault(broker: Broker, topics: Topics) -> None:
    send(broker, topics[0], b"store")
    for _ in range(4):
        with pytest.raises(StoreUnreachable):
            copy(broker.settings(), topics[0], b"8")
    assert held(broker, f"{topics[0]}.dlq") == []
    attempts = Attempts(WorkerNotes(KafkaSettings(), "t", "g"), in_hand=4)
    for error in (ZeroDivisionError(), BadSnapshot(), MemoryError(), pa.ArrowMemoryError()):
        assert attempts.ended([], error)
    for innocent in (StoreUnreachable(), Overloaded(), KeyboardInterrupt()):
        assert not attempts.ended([], innocent)


# What one worker of a group finds where another one was.

HERE = TopicPartition("t", 0)


def worker(broker: Broker, group: str) -> Attempts:
    found = Attempts(WorkerNotes(broker.settings(), "t", group), in_hand=4)
    found.take_over({HERE: 0})
    return found


def begin(attempts: Attempts, worker: str, offset: int = 0) -> None:
    attempts.write(attempts.news({HERE: offset}, worker))


@pytest.fixture
def group(memory: Broker, topic_name: str) -> str:
    create_topics(memory.settings())
    return topic_name


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_a_worker_that_starts_reads_the_notes_once_and_then_what_is_new(
    broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(broker.settings())
    opened = MagicMock(side_effect=TopicReader)
    monkeypatch.setattr("stream_icd.kafka.group.worker_notes.TopicReader", opened)
    notes = WorkerNotes(broker.settings(), "t", topic_name)
    notes.keep_to(None)
    WorkerNotes(broker.settings(), "t", topic_name).write({0: {"worker": "killed later"}})
    attempts = Attempts(notes, in_hand=4)
    attempts.take_over({HERE: 0})
    assert attempts.suspicious([HERE]) == [HERE]
    opened.assert_called_once()


@pytest.mark.brokers("memory")
def test_a_broker_that_is_gone_at_the_end_is_said_in_words(
    broker: Broker,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop, gone = threading.Event(), threading.Event()
    stop.set()

    def refused(*_: object) -> None:
        raise BrokerUnavailable("nobody there")

    monkeypatch.setattr("stream_icd.kafka.consumer._NOTE_TIMEOUT_S", 0.1)
    for end, said in ((refused, "nobody there"), (gone.wait, "the broker does not answer")):
        monkeypatch.setattr(Attempts, "end", lambda *_, end=end: end())
        run_consumer(broker.settings(), topics[0], topics[0], Calls(lambda _: ()), stop)
        assert caplog.messages[-1] == f"cannot note how this worker ended: {said}"
    gone.set()


def test_what_is_no_note_stops_no_worker(broker: Broker, topic_name: str) -> None:
    create_topics(broker.settings())
    key, nested = json.dumps((topic_name, "t", 0)).encode(), b"[" * 100_000
    wrong = {"worker": ["x"]}, {"left": "a"}, {"how": 5, "worker": "w"}, {"ends": 10**4299}, [], {}
    values = [nested, *(json.dumps(note).encode() for note in wrong)]
    publish(broker, [OutgoingRecord(WORKERS, b"{}", nested)])
    for value in values:
        publish(broker, [OutgoingRecord(WORKERS, value, key)])
        assert worker(broker, topic_name).suspicious([HERE]) == []
    for name in ("graph", "place"):
        odd = json.dumps((topic_name, "t", name)).encode()
        publish(broker, [OutgoingRecord(WORKERS, b"{}", odd)])
    notes = WorkerNotes(broker.settings(), "t", topic_name)
    notes.keep_to(None)
    notes.note_place("/a")


def test_records_are_worked_on_alone_after_a_crash_only(memory: Broker, group: str) -> None:
    first = worker(memory, group)
    assert first.suspicious([HERE]) == []
    begin(first, "first")
    assert first.news({HERE: 4}, "first") == {}  # of the batches that follow, nothing is noted
    first.end([HERE])
    second = worker(memory, group)
    assert second.suspicious([HERE]) == []
    begin(second, "second", 4)  # and was never seen again
    careful = worker(memory, group)
    assert careful.suspicious([HERE]) == [HERE]
    assert worker(memory, f"{group}.other").suspicious([HERE]) == []
    for offset in range(4, 8):  # neighbours are not blamed
        begin(careful, "third", offset)
        assert careful.given_up([HERE]) is None
        careful.done([HERE])
    assert careful.suspicious([HERE]) == []


def how(attempts: Attempts) -> str | None:
    """How the record ended its workers, if it is given up."""
    given_up = attempts.given_up([HERE])
    return None if given_up is None else given_up.how


def test_an_error_of_another_kind_begins_the_count_anew(memory: Broker, group: str) -> None:
    begin(worker(memory, group), "first")
    for error in (KeyError("a"), ValueError("b"), ValueError("c"), ValueError("d")):
        next_worker = worker(memory, group)
        begin(next_worker, "next")
        assert how(next_worker) is None
        next_worker.ended([HERE], error)
        next_worker.end([HERE])
    last = worker(memory, group)
    begin(last, "last")
    assert how(last) == "ValueError: d"


def test_ends_of_processes_and_workers_are_one_count(memory: Broker, group: str) -> None:
    first = worker(memory, group)
    for _ in range(2):
        begin(first, "first")
        first.ended([HERE], CrashedWorker(f"{DIED}: a worker process"))
        assert first.suspicious([HERE]) == [HERE]
        assert how(first) is None
    begin(first, "first")  # and was never seen again
    assert how(worker(memory, group)) == DIED


if __name__ == "__main__":
    copy(KafkaSettings(), sys.argv[1], sys.argv[2].encode())
