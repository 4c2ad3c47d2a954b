"""What the tests of consumers share."""

import pytest

from tests.kafka.echo import MakeTopic, Pipe
from tests.testbed.brokers import Broker


@pytest.fixture
def pipe(broker: Broker, make_topic: MakeTopic) -> Pipe:
    """A source of three partitions, a target, and a group of their own."""
    source = make_topic(partitions=3)
    return Pipe(broker, source, make_topic(), f"group-{source}")


@pytest.fixture
def narrow(broker: Broker, make_topic: MakeTopic) -> Pipe:
    """The same with a source of one partition."""
    source = make_topic()
    return Pipe(broker, source, make_topic(), f"group-{source}")
