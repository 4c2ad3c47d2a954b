"""A record that no answer has room for is named, not asked for again for ever."""

import pytest

from stream_icd.core.errors import Action, MessageTooLarge
from stream_icd.kafka.client import connections
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from tests.kafka.echo import Echo, MakeTopic, publish
from tests.testbed.brokers import Broker, wait_until

TOO_LARGE = 60_000_000
SAYS = r"next record of %s\[0\] .* at most 5\d{7} bytes .* 60000\d{3}\)\. Set STREAM_ICD_MAX_MESS"


@pytest.fixture
def topic(broker: Broker, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three records, and one that is too large, for the smallest limit that the client accepts."""
    monkeypatch.setattr(connections, "_ANSWER_BYTES", 0)
    topic = make_topic(max_message_bytes=TOO_LARGE + 1_000_000)
    publish(broker.settings(), topic, 3, keys=1)
    with Publisher(taking_all(broker)) as publisher:
        publisher.send(OutgoingRecord(topic, bytes(TOO_LARGE), b"large"))
    return topic


def taking_all(broker: Broker) -> KafkaSettings:
    return broker.steady(max_message_bytes=TOO_LARGE + 1000, max_in_flight_bytes=10 * TOO_LARGE)


def came_before(broker: Broker) -> int:
    """The embedded broker puts what came before into the same answer, which is not taken."""
    return 3 if broker.name == "kafka" else 0


@pytest.mark.brokers("embedded")
def test_a_reader_says_so(broker: Broker, topic: str) -> None:
    seen: list[int] = []
    with (
        open_reader(broker.settings(), topic, until="end") as records,
        pytest.raises(MessageTooLarge, match=SAYS % topic) as refused,
    ):
        seen.extend(record.offset for record in records)
    assert len(seen) == came_before(broker)
    assert refused.value.action is Action.STOP
    with open_reader(taking_all(broker), topic, until="end") as records:
        assert [record.offset for record in records] == [0, 1, 2, 3]


@pytest.mark.brokers("kafka")
def test_a_member_of_a_group_stops_and_goes_on_with_more_room(
    broker: Broker, topic: str, make_topic: MakeTopic
) -> None:
    target, group = make_topic(max_message_bytes=TOO_LARGE + 1_000_000), f"group-{topic}"
    echo = Echo(broker.steady(), topic, target, group)
    with pytest.raises(MessageTooLarge, match=SAYS % topic), echo:
        wait_until(lambda: echo.ended)
    assert echo.committed == came_before(broker)
    with Echo(taking_all(broker), topic, target, group) as later:
        wait_until(lambda: later.committed == 4 - echo.committed)
