"""Records are published together while that is fast: soon if they are heavy, cheaply if not."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.group import batch_size
from stream_icd.kafka.group.batch_size import LONG_S, BatchSize
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.waiting import Clock
from tests.kafka.echo import publish
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls


def sizes(size: BatchSize, seconds_a_record: float, n_batches: int) -> list[int]:
    """The records of consecutive batches, of as many as are allowed."""
    times, taken = [0.0], []
    clock = Clock(now=lambda: times[0])
    for _ in range(n_batches):
        taken.append(size.now)
        with size.timed(size.now, clock):
            times[0] += size.now * seconds_a_record
    return taken


def test_light_records_soon_fill_a_batch() -> None:
    assert sizes(BatchSize(16), 0.01, 6) == [1, 2, 4, 8, 16, 16]
    assert sizes(BatchSize(20, least=3), 0.01, 5) == [3, 6, 12, 20, 20]


def test_a_record_that_takes_long_is_a_batch_of_its_own() -> None:
    assert sizes(BatchSize(16), 1.1 * LONG_S, 4) == [1, 1, 1, 1]


def test_each_process_gets_a_record_however_long_it_takes() -> None:
    assert sizes(BatchSize(128, least=4), LONG_S, 3) == [4, 4, 4]
    assert sizes(BatchSize(2, least=4), LONG_S, 3) == [2, 2, 2]  # who asks for two gets two


def test_batches_follow_records_that_become_heavier_and_lighter() -> None:
    size = BatchSize(16)
    sizes(size, 0.01, 5)
    assert sizes(size, LONG_S / 5, 4) == [16, 8, 4, 4]  # of four times .4 s each
    assert sizes(size, 0.01, 3) == [4, 8, 16]


def test_a_few_records_say_nothing_about_many() -> None:
    size, clock = BatchSize(16, least=4), Clock(now=lambda: 0.0)
    with size.timed(3, clock):
        pass
    assert size.now == 4


@pytest.mark.brokers("memory")
def test_who_says_nothing_of_the_time_of_a_record_gets_full_batches(
    broker: Broker, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_size, "LONG_S", 0.01)
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


@pytest.mark.brokers("memory", "embedded", "kafka")
@pytest.mark.parametrize("ahead", [False, True])
def test_no_batch_takes_long_where_each_record_takes_its_time(
    broker: Broker,
    make_topic: Callable[..., str],
    ahead: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_size, "LONG_S", 0.2)
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
    seconds[0] = 0.0
    publish(broker.settings(), source, 200)
    wait_until(lambda: sum(batches) == 230)
    assert max(batches) == 16
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
