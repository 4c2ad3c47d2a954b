"""A record that ends its worker each time is given up, and nobody else is."""

from __future__ import annotations

import json
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_icd.core.errors import (
    BadSnapshot,
    BrokerUnavailable,
    CrashedWorker,
    Overloaded,
    StoreUnreachable,
)
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import DIED
from stream_icd.kafka.group.worker_notes import Attempts, WorkerNotes
from stream_icd.kafka.port import TopicPartition, TopicSpec
from stream_icd.kafka.reader import TopicReader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import WORKERS, create_topics
from tests.streaming.workers import crashing
from tests.streaming.workers.crashing import copy
from tests.testbed.brokers import Broker
from tests.testbed.handlers import Calls
from tests.testbed.starting import start_forked
from tests.testbed.streams import held, publish

Topics = tuple[str, str]
LAST = b"8"


def send(broker: Broker, topic: str, culprit: bytes) -> list[bytes]:
    """Records in one partition, the culprit in the midst of a batch; the others."""
    create_topics(broker.settings())
    good = [b"%d" % i for i in range(9)]
    publish(
        broker, [OutgoingRecord(topic, value, b"g") for value in (*good[:6], culprit, *good[6:])]
    )
    return good


def copied(broker: Broker, topics: Topics) -> list[bytes | None]:
    return [record.value for record in held(broker, topics[1])]


def test_a_record_that_kills_its_process_each_time_is_given_up_at_the_third_restart(
    broker: Broker, topics: Topics, tmp_path: Path
) -> None:
    good = send(broker, topics[0], b"kill")
    settings = broker.settings()
    times = (str(settings.session_timeout_s), str(settings.transaction_timeout_s))
    arguments = (settings.bootstrap_servers, topics[0], *times, LAST.decode())
    start = partial(start_forked, arguments, tmp_path / "log", module=crashing.__name__)
    statuses = [start().wait(90) for _ in range(4)]
    assert statuses == [-signal.SIGKILL] * 3 + [0]
    assert copied(broker, topics) == good
    (letter,) = held(broker, f"{topics[0]}.dlq")
    said = dict(letter.headers)
    assert letter.value == b"kill"
    assert (said["icd_dlq_stage"], said["icd_dlq_exception"]) == (b"crashed", b"CrashedWorker")
    assert (
        b"ended 3 workers in a row, the last time like this: the process died"
        in said["icd_dlq_message"]
    )


@pytest.mark.brokers("memory")
@pytest.mark.parametrize(
    ("culprit", "error"), [(b"divide", ZeroDivisionError), (b"memory", MemoryError)]
)
def test_a_record_that_raises_the_same_error_each_time_is_given_up_at_the_third_restart(
    broker: Broker, topics: Topics, culprit: bytes, error: type[Exception]
) -> None:
    good = send(broker, topics[0], culprit)
    for _ in range(3):
        with pytest.raises(error):
            copy(broker.settings(), topics[0], LAST)
    copy(broker.settings(), topics[0], LAST)
    assert copied(broker, topics) == good
    (letter,) = held(broker, f"{topics[0]}.dlq")
    said = dict(letter.headers)
    assert (letter.value, said["icd_dlq_stage"]) == (culprit, b"crashed")
    assert f"{error.__name__}: as it always does".encode() in said["icd_dlq_message"]


def test_what_asks_to_retry_is_never_the_records_fault(memory: Broker, topic_name: str) -> None:
    topics = topic_name, f"{topic_name}.found"
    source, target = map(TopicSpec, topics)
    create_topics(memory.settings(), [*source.with_dead_letters(), target])
    send(memory, topics[0], b"store")
    for _ in range(4):
        with pytest.raises(StoreUnreachable):
            copy(memory.settings(), topics[0], LAST)
    assert held(memory, f"{topics[0]}.dlq") == []


def test_which_errors_may_be_the_records_fault() -> None:
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


def begin(attempts: Attempts, first: dict[TopicPartition, int], worker: str) -> None:
    attempts.write(attempts.news(first, worker))


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_a_worker_that_starts_reads_the_notes_once_and_then_what_is_new(
    broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(broker.settings())
    opened = 0

    class Counted(TopicReader):
        def __init__(self, *arguments: Any) -> None:
            nonlocal opened
            opened += 1
            super().__init__(*arguments)

    monkeypatch.setattr("stream_icd.kafka.group.worker_notes.TopicReader", Counted)
    notes = WorkerNotes(broker.settings(), "t", topic_name)
    notes.keep_to(None)
    WorkerNotes(broker.settings(), "t", topic_name).write({0: {"worker": "killed later"}})
    attempts = Attempts(notes, in_hand=4)
    attempts.take_over({HERE: 0})
    assert attempts.suspicious([HERE]) == [HERE]
    assert opened == 1


def test_a_group_that_keeps_its_records_in_two_places_is_named(
    memory: Broker, topic_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    create_topics(memory.settings())
    for place, warnings in (("/a", 0), ("/a", 0), ("/b", 1), ("/b", 1), ("/a", 2)):
        WorkerNotes(memory.settings(), "t", topic_name).note_place(place)
        assert len(caplog.messages) == warnings
    assert f"group {topic_name} kept the records of t in /b before" in caplog.messages[-1]


@pytest.mark.brokers("memory")
def test_a_broker_that_is_gone_at_the_end_is_said_in_words(
    memory: Broker,
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
        run_consumer(memory.settings(), topics[0], topics[0], Calls(lambda _: ()), stop)
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


@pytest.mark.brokers("memory")
def test_only_where_a_worker_did_not_end_in_good_order_records_are_worked_on_alone(
    broker: Broker, topic_name: str
) -> None:
    create_topics(broker.settings())
    first = worker(broker, topic_name)
    assert first.suspicious([HERE]) == []
    begin(first, {HERE: 0}, "first")
    assert first.news({HERE: 4}, "first") == {}  # of the batches that follow, nothing is noted
    first.end([HERE])
    second = worker(broker, topic_name)
    assert second.suspicious([HERE]) == []
    begin(second, {HERE: 4}, "second")  # and was never seen again
    assert worker(broker, topic_name).suspicious([HERE]) == [HERE]
    assert worker(broker, f"{topic_name}.other").suspicious([HERE]) == []


def test_neighbours_of_a_record_that_ended_a_worker_are_not_blamed(
    memory: Broker, topic_name: str
) -> None:
    create_topics(memory.settings())
    begin(worker(memory, topic_name), {HERE: 0}, "first")
    careful = worker(memory, topic_name)
    for offset in range(4):
        begin(careful, {HERE: offset}, "second")
        assert careful.given_up([HERE]) is None
        careful.done([HERE])
    assert careful.suspicious([HERE]) == []


def test_an_error_of_another_kind_begins_the_count_anew(memory: Broker, topic_name: str) -> None:
    create_topics(memory.settings())
    begin(worker(memory, topic_name), {HERE: 0}, "first")
    for error in (KeyError("a"), ValueError("b"), ValueError("c")):
        one = worker(memory, topic_name)
        begin(one, {HERE: 0}, "next")
        assert one.given_up([HERE]) is None
        one.ended([HERE], error)
        one.end([HERE])
    one = worker(memory, topic_name)
    begin(one, {HERE: 0}, "next")
    assert one.given_up([HERE]) is None
    one.ended([HERE], ValueError("d"))
    one.end([HERE])
    last = worker(memory, topic_name)
    begin(last, {HERE: 0}, "last")
    assert how(last) == "ValueError: d"


def how(attempts: Attempts) -> str | None:
    ended = attempts.given_up([HERE])
    return None if ended is None else ended.how


def test_the_end_of_a_process_and_that_of_the_whole_worker_are_one_count(
    memory: Broker, topic_name: str
) -> None:
    create_topics(memory.settings())
    first = worker(memory, topic_name)
    begin(first, {HERE: 0}, "first")
    first.ended([HERE], CrashedWorker(f"{DIED}: a worker process"))
    assert first.suspicious([HERE]) == [HERE]
    begin(first, {HERE: 0}, "first")
    first.ended([HERE], CrashedWorker(f"{DIED}: a worker process"))
    assert first.given_up([HERE]) is None
    begin(first, {HERE: 0}, "first")  # and was never seen again
    assert how(worker(memory, topic_name)) == DIED
