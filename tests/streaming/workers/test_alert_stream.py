"""What alerts on a stream promise: each event once, after restarts and failures too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import TopicMissing
from stream_icd.core.events import CommunityEvents
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics, positions
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.alerts import Alerting
from stream_icd.methods.tracking.rules import Rule
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.subscribers.events_topic import forget_graph
from stream_icd.streaming.workers.alert import Alerts, names_by
from stream_icd.streaming.workers.deliver import Deliver
from stream_icd.streaming.workers.receivers import Receiver
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.alerts import Alert, decode_alert
from stream_icd.wire.events import encode_events
from tests.streaming.workers.tracked import stream, unbroken
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import beside, held, publish
from tests.testbed.webhook import webhook

Topics = tuple[str, str]

RULES = ("merged or split", "born and size > 2", "node = 7 and moved")


@pytest.fixture
def topics(memory: Broker, topic_name: str) -> Topics:
    """A topic of events and one of alerts, of one test's own."""
    names = topic_name, f"{topic_name}.alerts"
    create_topics(memory.settings(), [TopicSpec(name) for name in names])
    return names


def alerting(*rules: str, lasting: int = 0, group: str = "desk") -> Alerting:
    read = lambda _: frozenset(("7",))  # noqa: E731
    return Alerting([Rule.parse(rule, read) for rule in rules or RULES], lasting, group)


def worker(broker: Broker, topics: Topics, told: Alerting, **options: object) -> Runner:
    events, alerts = topics
    step = Alerts(broker.settings(), told, topic=events, out=alerts, **options)
    return Runner(step, DeadLetterLimit())


def sent_windows(broker: Broker, topic: str, windows: Sequence[CommunityEvents]) -> list[Record]:
    publish(broker, [outgoing(topic, encode_events(window)) for window in windows])
    return held(broker, topic)


def work(broker: Broker, runner: Runner, records: Sequence[Record]) -> None:
    """A batch that succeeds: handled, published, committed."""
    runner.step.begin(records)
    sent = tuple(runner.handle(records))
    publish(broker, sent)
    runner.done(BatchDone(tuple(records), sent, 0.0))


def alerts_in(broker: Broker, topic: str) -> list[Alert]:
    return [decode_alert(one.key, one.value, one.headers) for one in held(broker, topic)]


def expected(told: Alerting, windows: Sequence[CommunityEvents]) -> list[Alert]:
    """The alerts of an unbroken worker."""
    ends = range(1, len(windows) + 1)
    parts = (windows[max(end - told.windows, 0) : end] for end in ends)
    return [alert for part in parts for alert in told.alerts(part)]


@pytest.mark.parametrize("lasting", [0, 3])
def test_a_worker_continues_where_another_one_was(
    memory: Broker, topics: Topics, lasting: int
) -> None:
    told, windows = alerting(lasting=lasting), unbroken(stream("g", 16))
    records = sent_windows(memory, topics[0], windows)
    for start in range(0, 16, 4):
        work(memory, worker(memory, topics, told), records[start : start + 4])
    found = alerts_in(memory, topics[1])
    assert found == expected(told, windows)
    assert len(found) > 3
    assert len({alert.id for alert in found}) == len(found)


def test_a_batch_that_was_published_and_not_committed_adds_nothing(
    memory: Broker, topics: Topics
) -> None:
    told, windows = alerting(), unbroken(stream("g", 12))
    records = sent_windows(memory, topics[0], windows)
    runner = worker(memory, topics, told)
    publish(memory, tuple(runner.handle(records[:6])))  # no commit
    for again in (runner, worker(memory, topics, told)):
        again.assigned([0])
        work(memory, again, records[:6])
    work(memory, again, records[6:])
    assert alerts_in(memory, topics[1]) == expected(told, windows)


def test_a_batch_that_was_not_published_is_done_again(memory: Broker, topics: Topics) -> None:
    told, windows = alerting(), unbroken(stream("g", 12))
    records = sent_windows(memory, topics[0], windows)
    runner = worker(memory, topics, told)
    list(runner.handle(records[:8]))
    runner.assigned([0])
    work(memory, runner, records)
    assert alerts_in(memory, topics[1]) == expected(told, windows)


def test_groups_have_alerts_of_their_own(memory: Broker, topics: Topics) -> None:
    windows = unbroken(stream("g", 8))
    records = sent_windows(memory, topics[0], windows)
    for group in ("desk", "noc"):
        work(memory, worker(memory, topics, alerting(group=group)), records)
    one, other = ([alert.id for alert in alerts_in(memory, topics[1]) if alert.group == group]
                  for group in ("desk", "noc"))  # fmt: skip
    assert one == other != []


def test_graphs_that_take_too_much_memory_are_read_again(memory: Broker, topics: Topics) -> None:
    told = alerting(lasting=1)
    graphs = {name: unbroken(stream(name, 8, seed)) for name, seed in (("a", 3), ("b", 4))}
    pairs = zip(graphs["a"], graphs["b"], strict=True)
    records = sent_windows(memory, topics[0], [one for pair in pairs for one in pair])
    small = worker(memory, topics, told, memory=MemorySettings(cache_bytes=1))
    for start in range(0, 16, 3):
        work(memory, small, records[start : start + 3])
    found = alerts_in(memory, topics[1])
    for name, windows in graphs.items():
        assert [alert for alert in found if alert.graph == name] == expected(told, windows)


def test_repeated_late_and_revised_windows_add_no_second_alert(
    memory: Broker, topics: Topics
) -> None:
    told, windows = alerting("merged or split or born"), unbroken(stream("g", 8))
    at = next(
        at for at, one in enumerate(windows) if len(list(told.alerts(windows[: at + 1][-2:])))
    )
    revised = replace(windows[at], revision="r2")
    late = replace(windows[at - 1], late=True)
    sent = [*windows[: at + 1], windows[at], revised, late, windows[at - 1], *windows[at + 1 :]]
    work(memory, worker(memory, topics, told), sent_windows(memory, topics[0], sent))
    ids = [alert.id for alert in alerts_in(memory, topics[1])]
    assert ids == [alert.id for alert in expected(told, windows)]


def test_a_graph_that_starts_anew_has_a_first_window_again(memory: Broker, topics: Topics) -> None:
    windows = unbroken(stream("g", 2))
    first, second = [outgoing(topics[0], encode_events(window)) for window in windows]
    publish(memory, [first, forget_graph("g", topics[0]), second])
    work(memory, worker(memory, topics, alerting("size > 0")), held(memory, topics[0]))
    assert alerts_in(memory, topics[1]) == []


def test_what_was_published_long_ago_is_no_news(memory: Broker, topics: Topics) -> None:
    records = sent_windows(memory, topics[0], unbroken(stream("g", 8)))
    aged = [replace(one, timestamp_ms=one.timestamp_ms - 3_700_000) for one in records]
    runner = worker(memory, topics, alerting(), oldest=timedelta(hours=1))
    with capture_logs() as logs:
        work(memory, runner, aged)
    assert alerts_in(memory, topics[1]) == []
    assert any(line["event"] == "too old for alerts" for line in logs)


def test_a_message_that_is_none_is_a_dead_letter(memory: Broker, topics: Topics) -> None:
    publish(memory, [OutgoingRecord(topics[0], b"?", b"g")])
    (letter,) = worker(memory, topics, alerting()).handle(held(memory, topics[0]))
    assert letter.topic == f"{topics[0]}.dlq"


def test_a_missing_topic_of_alerts_is_said(memory: Broker, topics: Topics) -> None:
    records = sent_windows(memory, topics[0], unbroken(stream("g", 8)))
    with pytest.raises(TopicMissing, match=f"{topics[1]}x"):
        list(worker(memory, (topics[0], f"{topics[1]}x"), alerting()).handle(records))


def test_names_by_attributes_of_nodes(memory: Broker, topics: Topics) -> None:
    windows = unbroken(stream("g", 12))
    values = [f"<{community}>" for community in windows[0].communities]
    known = Naming({"g": attributes_of(windows[0].nodes, {"of": values})})
    told = replace(alerting("merged or split"), names=names_by(known))
    work(memory, worker(memory, topics, told), sent_windows(memory, topics[0], windows))
    named = [alert for alert in alerts_in(memory, topics[1]) if alert.name]
    assert named
    assert all(f"({alert.name})" in alert.text or "more" in alert.text for alert in named)


@pytest.fixture
def published(memory: Broker, topics: Topics) -> list[Record]:
    """The alerts of eight windows, as records."""
    records = sent_windows(memory, topics[0], unbroken(stream("g", 8)))
    work(memory, worker(memory, topics, alerting()), records)
    return held(memory, topics[1])


def test_alerts_are_delivered_in_order_and_those_of_other_groups_are_not(
    published: list[Record],
) -> None:
    with webhook() as at:
        runner = Runner(Deliver("desk", [Receiver(at.url)], 1.0), DeadLetterLimit())
        assert list(runner.handle(published)) == []
        other = Runner(Deliver("noc", [Receiver(at.url)], 1.0), DeadLetterLimit())
        assert list(other.handle(published)) == []
    said = [dict(record.headers)["ce_id"].decode() for record in published]
    assert [alert["id"] for alert in at.taken()] == said
    assert len(said) > 2


def test_a_receiver_that_is_away_for_a_moment_gets_all(published: list[Record]) -> None:
    with webhook(lambda n: 503 if n == 1 else 204) as at:
        runner = Runner(Deliver("desk", [Receiver(at.url)], 60.0), DeadLetterLimit())
        assert list(runner.handle(published[:1])) == []
    assert at.statuses == [503, 204]


def test_alerts_that_nobody_takes_become_dead_letters(published: list[Record]) -> None:
    with webhook(lambda n: 410 if n == 1 else 204) as refusing, webhook() as taking:
        both = [Receiver(refusing.url), Receiver(taking.url)]
        runner = Runner(Deliver("desk", both, 60.0), DeadLetterLimit())
        (letter,) = runner.handle(published[:1])
        said = dict(letter.headers)
        assert (letter.value, said["icd_dlq_stage"]) == (published[0].value, b"deliver")
        assert said["icd_dlq_exception"] == b"AlertRefused"
        assert b"127.0.0.1 answered 410 to alert" in said["icd_dlq_message"]
        assert list(runner.handle(published[:1])) == []  # as `dlq retry` sends it
    assert [len(refusing.taken()), len(taking.taken())] == [1, 1]


def test_an_outage_that_lasts_too_long_is_not_waited_for_again(published: list[Record]) -> None:
    with webhook(lambda _: 500) as at:
        runner = Runner(Deliver("desk", [Receiver(at.url)], 0.5), DeadLetterLimit())
        letters = list(runner.handle(published[:3]))
    assert len(letters) == 3
    assert len(at.statuses) == 4  # two tries of the first alert, one of each other one


def test_a_worker_that_stops_gives_back_the_alert_that_waits(
    memory: Broker, topics: Topics, published: list[Record]
) -> None:
    assert published
    create_topics(memory.settings())  # with that in which workers note what they process
    settings = memory.settings(shutdown_timeout_s=0.3)
    with webhook(lambda _: 503) as at:
        runner = Runner(Deliver("desk", [Receiver(at.url)], 60.0), DeadLetterLimit())
        with beside(partial(run_consumer, settings, topics[1], "group", runner)) as errors:
            wait_until(lambda: at.statuses)
    assert errors == []
    assert positions(memory.settings(), topics[1], "group") == {}


def test_a_record_that_is_no_alert_is_a_dead_letter(published: list[Record]) -> None:
    broken = replace(published[0], value=b"{")
    (letter,) = Runner(Deliver("desk", [], 1.0), DeadLetterLimit()).handle([broken])
    assert dict(letter.headers)["icd_dlq_stage"] == b"decode"
