"""What a producer sends, and how fast."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice

import numpy as np
import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadCommunities, BadSettings, DeliveryFailed, LimitExceeded
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.messages.pacing import Tempo, paced, parse_rate
from stream_icd.kafka.messages.publish import SentBefore, publish_source
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.sources.source import Source
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.testbed.streams import as_read

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = (0, 1, 5, 6)


class Sent:
    """Takes records instead of a broker."""

    def __init__(self, fails: bool = False) -> None:
        self.records: list[OutgoingRecord] = []
        self.flushed = 0
        self._fails = fails

    def send(self, record: OutgoingRecord) -> None:
        self.records.append(record)

    def flush(self) -> None:
        if self._fails:
            raise DeliveryFailed("refused")
        self.flushed = len(self.records)


MakeSnapshot = Callable[..., Snapshot]


def endless(snapshot: MakeSnapshot) -> Source:
    def pairs() -> Iterator[tuple[Snapshot, Labels]]:
        for i in count():
            made = snapshot(i)
            truth = np.zeros(made.n_nodes, np.int32)
            yield made, Labels(made.graph, made.id, made.window, made.nodes, truth)

    return Source(None, pairs())


def holding(*snapshots: Snapshot) -> SentBefore:
    """What is known of a topic that holds these."""
    sent_before = SentBefore()
    for record in as_read(outgoing("t", encode_snapshot(snapshot)) for snapshot in snapshots):
        sent_before.add(record)
    return sent_before


def test_the_limit_ends_an_endless_source_and_everything_was_flushed(
    snapshot: MakeSnapshot,
) -> None:
    sent = Sent()
    report = publish_source(endless(snapshot), sent, limit=3)
    assert (report.snapshots, report.labels, report.nodes) == (3, 3, 72)
    assert sent.flushed == 6
    topics = [record.topic for record in sent.records]
    assert topics == ["icd.labels.v1", "icd.snapshots.v1"] * 3
    last = sent.records[-1]
    assert decode_snapshot(last.key, last.value, last.headers) == snapshot(2)
    with pytest.raises(DeliveryFailed):
        publish_source(endless(snapshot), Sent(fails=True), limit=1)


def test_what_no_reader_takes_is_not_sent(snapshot: MakeSnapshot) -> None:
    sends = Sent()
    long = replace(snapshot(0), id="x" * 2000)
    with pytest.raises(LimitExceeded, match="header ce_id is 2000 bytes"):
        publish_source(Source(1, iter([(long, None)])), sends)
    first, second = islice(endless(snapshot).snapshots, 2)
    with pytest.raises(BadCommunities, match="labels of .*test/1.* with .*test/0"):
        publish_source(Source(1, iter([(first[0], second[1])])), sends)
    assert sends.records == []


def test_what_the_topic_holds_is_not_sent_again_and_not_counted_to_the_limit(
    snapshot: MakeSnapshot,
) -> None:
    sent = Sent()
    sent_before = holding(snapshot(0), snapshot(2))
    report = publish_source(endless(snapshot), sent, sent_before=sent_before, limit=2)
    assert (report.snapshots, report.already_sent) == (2, 2)
    ids = [dict(record.headers)["ce_id"] for record in sent.records[1::2]]
    assert ids == [b"test/1", b"test/3"]


def test_spread_over_partitions_each_is_acknowledged_before_the_next_is_sent(
    snapshot: MakeSnapshot,
) -> None:
    class Watched(Sent):
        def send(self, record: OutgoingRecord) -> None:
            if record.topic == "icd.snapshots.v1":
                assert self.flushed >= len(self.records) - 1  # all but its labels
            super().send(record)

    sent = Watched()
    publish_source(endless(snapshot), sent, spread_over=6, limit=30)
    partitions = [r.partition for r in sent.records if r.topic == "icd.snapshots.v1"]
    assert set(partitions) == set(range(6))
    assert partitions[:6] == [0, 1, 0, 1, 0, 2], "another hash sends what is sent again elsewhere"
    assert {r.partition for r in sent.records if r.topic == "icd.labels.v1"} == {None}


def test_asked_to_stop_it_begins_nothing_more_and_reads_no_more_of_what_the_topic_holds(
    snapshot: MakeSnapshot,
) -> None:
    sent, clock, stop = Sent(), Clock(), threading.Event()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now > 101.5:
            stop.set()

    due = paced(
        endless(snapshot).snapshots, lambda pair: pair[0].window.end, Tempo(rate=1.0), clock, sleep
    )
    report = publish_source(Source(None, due), sent, stop=stop)
    assert (report.snapshots, report.labels) == (2, 2)
    assert sent.flushed == len(sent.records) == 4
    stop.clear()
    report = publish_source(
        endless(snapshot),
        Sent(),
        sent_before=holding(*map(snapshot, range(3))),
        stop=stop,
        on_already=lambda _: stop.set(),
    )
    assert (report.snapshots, report.already_sent) == (0, 1)


# The past goes by as fast as it was asked to.


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def times(tempo: Tempo, slow: float = 0.0) -> list[float]:
    """When each of four windows comes, seconds from the start."""
    clock, found = Clock(), []
    items = (START + timedelta(minutes=m) for m in MINUTES)
    for _ in paced(items, lambda time: time, tempo, clock, clock.sleep):
        found.append(round(clock.now - 100.0, 6))
        clock.now += slow
    return found


SPEED, RATE = Tempo.of_options("60x", None), Tempo.of_options(None, parse_rate("50/s"))


@pytest.mark.parametrize(
    ("tempo", "slow", "expected"),
    [
        (SPEED, 0.0, [0, 1, 5, 6]),  # the spacing of the windows
        (Tempo.of_options("0.5", None), 0.0, [0, 120, 600, 720]),
        (SPEED, 2.0, [0, 2, 5, 7]),  # what takes long is caught up with
        (RATE, 0.0, [0, 0.02, 0.04, 0.06]),
        (Tempo(rate=4), 0.1, [0, 0.25, 0.5, 0.75]),  # without drift
        (Tempo.of_options(None, None, fastest=True), 0.0, [0] * 4),
    ],
)
def test_windows_come_at_the_speed_or_the_rate_of_the_options(
    tempo: Tempo, slow: float, expected: list[float]
) -> None:
    assert times(tempo, slow) == expected


def test_nobody_waits_for_what_is_there_already() -> None:
    clock = Clock()
    items = [START + timedelta(minutes=m) for m in MINUTES]
    done = paced(items, lambda t: None if t < items[2] else t, Tempo(speed=60), clock, clock.sleep)
    assert list(done) == items
    assert clock.now == 101.0  # from the third to the fourth


def test_other_tempos_are_refused() -> None:
    for speed in ("fast", "0x", "2/s"):
        with pytest.raises(BadSettings):
            Tempo.of_options(speed, None)
    with pytest.raises(BadSettings):
        parse_rate("-1/s")
    for rate in (0, float("nan"), float("inf")):
        with pytest.raises(BadSettings, match=f"rate {rate}; it must be above 0"):
            Tempo(rate=rate)
    for speed, rate, fastest in (("2x", 3.0, False), ("2x", None, True), (None, 3.0, True)):
        with pytest.raises(BadSettings):
            Tempo.of_options(speed, rate, fastest=fastest)


def test_a_pause_is_no_longer_than_a_thread_can_wait() -> None:
    far = datetime(9999, 12, 31, tzinfo=UTC)
    for tempo, windows in ((Tempo(rate=1e-320), [START, START]), (Tempo(speed=1), [START, far])):
        waits: list[float] = []
        assert list(paced(windows, lambda time: time, tempo, lambda: 0.0, waits.append)) == windows
        assert waits == [threading.TIMEOUT_MAX]
