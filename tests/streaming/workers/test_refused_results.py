"""A result that only the broker finds too large, since it does not tell the topic's limit."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stream_icd.kafka.client.broker import ClientAdmin
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import ClaimCheck, ClaimSettings, MessageReader
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from stream_icd.streaming.workers.runner import Runner
from tests.streaming.workers.crashing import Copy
from tests.testbed.brokers import Broker
from tests.testbed.handlers import WhenDone
from tests.testbed.streams import held, publish

pytestmark = pytest.mark.kafka

LARGE, LARGER = b"large" * 1000, b"larger" * 1000
SENT = (b"0", LARGE, b"1", LARGER, b"2")


@pytest.fixture
def source(kafka: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic that holds `SENT`; workers copy it to SOURCE.found, which takes no large ones.

    The worker has no right to read the limits of topics.
    """
    create_topics(kafka.settings())
    target = TopicSpec(f"{topic_name}.found", max_message_bytes=2000)
    create_topics(kafka.settings(), [*TopicSpec(topic_name).with_dead_letters(), target])
    publish(kafka, [OutgoingRecord(topic_name, value, b"g") for value in SENT])
    monkeypatch.setattr(ClientAdmin, "_configs", lambda *_: {})
    return topic_name


def copy_all(settings: KafkaSettings, source: str, claim_check: ClaimCheck) -> None:
    stop = threading.Event()

    def on_done(batch: BatchDone) -> None:
        if batch.records[-1].value == SENT[-1]:
            stop.set()

    runner = Runner(Copy(f"{source}.found"), claim_check=claim_check)
    run_consumer(settings, source, source, runner, stop, watchers=[WhenDone(on_done)])


def test_it_becomes_a_dead_letter_and_the_others_of_its_batch_are_published_once(
    kafka: Broker, source: str
) -> None:
    copy_all(kafka.settings(), source, ClaimCheck(kafka.settings()))
    assert [record.value for record in held(kafka, f"{source}.found")] == [b"0", b"1", b"2"]
    letters = held(kafka, f"{source}.dlq")
    assert [letter.value for letter in letters] == [LARGE, LARGER]
    for letter in letters:
        said = dict(letter.headers)
        assert said["icd_dlq_stage"] == b"publish"
        assert b"its result is too large" in said["icd_dlq_message"]
        assert b"set STREAM_ICD_CLAIMS_URI" in said["icd_dlq_message"]


def test_it_goes_to_the_file_store_where_there_is_one(
    kafka: Broker, source: str, tmp_path: Path
) -> None:
    claims = ClaimSettings(uri=str(tmp_path))
    copy_all(kafka.settings(), source, ClaimCheck(kafka.settings(), claims))
    records = held(kafka, f"{source}.found")
    assert [record.value for record in records] == [b"0", b"", b"1", b"", b"2"]
    assert tuple(MessageReader(claims).whole(record).value for record in records) == SENT
    assert held(kafka, f"{source}.dlq") == []
