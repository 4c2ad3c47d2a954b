"""What a broker can promise is found out from itself."""

import time

import pytest

from stream_icd.kafka.capabilities import KAFKA, TANSU, probe, recognise
from stream_icd.kafka.clients import open_admin
from tests.brokers import Broker


def test_each_broker_is_recognised_and_its_transactions_are_tried(broker: Broker) -> None:
    expected = {"embedded": TANSU, "kafka": KAFKA}[broker.name]
    assert recognise(broker.settings()) == expected
    assert probe(broker.settings()) == expected


def test_a_probe_waits_for_no_timeout_and_leaves_no_topic(broker: Broker) -> None:
    probe(broker.settings())  # a fresh Kafka makes its own transaction topic first
    started = time.monotonic()
    probe(broker.settings())
    assert time.monotonic() - started < 8  # the shortest one is 10; it takes half a second
    with open_admin(broker.settings()) as admin:
        assert not [t for t in admin.list_topics() if t.startswith("stream-icd-probe")]


def test_what_was_tried_counts_and_not_what_is_said(
    embedded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.kafka.capabilities.recognise", lambda _: KAFKA)
    assert not probe(embedded.settings()).hides_aborted
