"""What a broker can promise is found out from itself, and nothing is written to find out."""

import logging

import pytest

from stream_icd.core.errors import NotSupported
from stream_icd.kafka.connect import recognise
from stream_icd.kafka.delivery.delivery import resolve
from stream_icd.kafka.port import KAFKA, MEMORY, TANSU, UNKNOWN
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import topic_names
from tests.testbed.brokers import Broker

EVERYWHERE = pytest.mark.brokers("memory", "embedded", "kafka")
EXPECTED = {"memory": MEMORY, "embedded": TANSU, "kafka": KAFKA}


@EVERYWHERE
def test_each_broker_is_recognised_and_gets_no_topic(broker: Broker) -> None:
    before = topics_at(broker)
    assert recognise(broker.settings()) == EXPECTED[broker.name]
    best = "at-least-once" if broker.name == "embedded" else "exactly-once"
    assert resolve(broker.settings(), "auto", EXPECTED[broker.name]) == best
    assert topics_at(broker) == before


def topics_at(broker: Broker) -> set[str]:
    """All topics but those that Kafka makes for itself."""
    return {name for name in topic_names(broker.settings()) if not name.startswith("__")}


def test_exactly_once_is_refused_where_aborted_records_are_shown_and_a_risk_where_they_may_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = KafkaSettings()
    with pytest.raises(NotSupported, match="at-least-once, or Apache Kafka"):
        resolve(settings, "exactly-once", TANSU)
    with caplog.at_level(logging.WARNING):
        assert resolve(settings, "auto", UNKNOWN) == "at-least-once"
        assert resolve(settings, "exactly-once", UNKNOWN) == "exactly-once"
    first, second = caplog.messages
    assert first.startswith("delivery is at-least-once: the broker at")
    assert second.startswith("exactly-once only if the broker at")


def test_a_group_of_the_embedded_broker_is_joined_soon_unless_somebody_has_set_the_session() -> (
    None
):
    unset, chosen = KafkaSettings(), KafkaSettings(session_timeout_s=9)
    assert unset.joining_quickly().session_timeout_s == 2.0
    assert chosen.joining_quickly() == chosen
