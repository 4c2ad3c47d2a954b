"""Records are published together while that is fast: soon if they are heavy, cheaply if not."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from stream_icd.kafka import consumer
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.record import OutgoingRecord, Record
from tests.kafka.echo import publish
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls

pytestmark = pytest.mark.brokers("memory")


def test_who_says_nothing_of_the_time_of_a_record_gets_full_batches(
    broker: Broker, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "_LONG_S", 0.01)
    source, stop, batches = make_topic(), threading.Event(), list[int]()

    def handle(records: Sequence[Record]) -> list[OutgoingRecord]:
        time.sleep(0.05)  # as one file for all of them may take
        batches.append(len(records))
        if sum(batches) == 12:
            stop.set()
        return []

    publish(broker.settings(), source, 12)
    group = f"group-{source}"
    run_consumer(broker.steady(), source, group, Calls(handle), stop, max_records=4)
    assert batches == [4, 4, 4]


@pytest.mark.parametrize("ahead", [False, True])
def test_no_batch_takes_long_where_each_record_takes_its_time(
    broker: Broker,
    make_topic: Callable[..., str],
    ahead: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer, "_LONG_S", 0.2)
    source, seconds, stop = make_topic(), [0.05], threading.Event()
    batches: list[int] = []

    def handle(records: Sequence[Record]) -> list[OutgoingRecord]:
        time.sleep(seconds[0] * len(records))
        batches.append(len(records))
        return []

    handler = Calls(handle, ahead=ahead, at_once=1)
    arguments = (broker.steady(), source, f"group-{source}", handler, stop)
    thread = threading.Thread(target=run_consumer, args=arguments, daemon=True)
    publish(broker.settings(), source, 30)
    thread.start()
    wait_until(lambda: sum(batches) == 30)
    assert max(batches) == 2  # twice as many would take just as long as they may
    seconds[0] = 0.15
    publish(broker.settings(), source, 8)
    wait_until(lambda: sum(batches) == 38)
    assert batches[-2:] == [1, 1]  # a record that takes long is a batch of its own
    seconds[0] = 0.0
    publish(broker.settings(), source, 200)
    wait_until(lambda: sum(batches) == 238)
    assert max(batches) == 16
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
