"""What a broker can promise is found out from itself."""

import time

import pytest

from stream_icd.kafka.capabilities import probe, recognise
from stream_icd.kafka.port.capabilities import KAFKA, MEMORY, TANSU
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import topic_names
from testbed.brokers import Broker, wait_until

pytestmark = pytest.mark.brokers("memory", "embedded", "kafka")


def test_each_broker_is_recognised_and_its_transactions_are_tried(broker: Broker) -> None:
    expected = {"memory": MEMORY, "embedded": TANSU, "kafka": KAFKA}[broker.name]
    assert recognise(broker.settings()) == expected
    assert probe(broker.settings()) == expected


def test_a_probe_waits_for_no_timeout_and_leaves_no_topic(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = ("connect", "request", "delivery", "transaction")
    settings = broker.settings(**{f"{wait}_timeout_s": 100 for wait in waits})
    monkeypatch.setattr("stream_icd.kafka.capabilities.READ_BACK_TIMEOUT_S", 100)
    probe(settings)  # a fresh Kafka makes its own transaction topic first
    before = probed(settings)  # by programs that were killed meanwhile
    started = time.monotonic()
    probe(settings)
    assert time.monotonic() - started < 50  # each timeout is 100; it takes half a second
    wait_until(lambda: probed(settings) <= before)  # Kafka deletes a moment after it says so


def probed(settings: KafkaSettings) -> set[str]:
    return {name for name in topic_names(settings) if name.startswith("stream-icd-probe")}


def test_what_was_tried_counts_and_not_what_is_said(
    embedded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.capabilities.recognise", lambda _: KAFKA)
    assert not probe(embedded.settings()).hides_aborted
