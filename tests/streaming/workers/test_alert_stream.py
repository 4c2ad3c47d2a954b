"""What alerts on a stream promise: each event once, after failures too, and delivered over HTTP."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import AlertRefused, BadSettings, ReceiverUnavailable, TopicMissing
from stream_icd.core.events import CommunityEvents
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import ALERTS, EVENTS, create_topics, positions
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.alerts import Alerting
from stream_icd.methods.tracking.rules import Rule
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.subscribers.events_topic import Forgotten
from stream_icd.streaming.workers import deliver
from stream_icd.streaming.workers.alert import Alerts
from stream_icd.streaming.workers.deliver import AlertSettings, Deliver
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.alerts import Alert, decode_alert
from tests.streaming.workers.tracked import Bench, outgoing, stream, unbroken
from tests.testbed.brokers import Broker, free_ports, wait_until
from tests.testbed.http_server import webhook
from tests.testbed.starting import kill_and_restart
from tests.testbed.streams import beside, held
from tests.wire.samples import ALERT

RULES = ("merged or split", "born and size > 2", "node = 7 and moved")


@pytest.fixture
def bench(memory: Broker, topic_name: str) -> Bench:
    """A topic of events and one of alerts."""
    return Bench.opened(memory, topic_name)


def alerting(*rules: str, lasting: int = 0, group: str = "desk") -> Alerting:
    read = lambda _: frozenset(("7",))  # noqa: E731
    return Alerting([Rule.parse(rule, read) for rule in rules or RULES], lasting, group)


def worker(bench: Bench, told: Alerting, **options: object) -> Runner:
    where = {"topic": bench.source, "out": bench.target} | options
    return Runner(Alerts(bench.broker.settings(), told, **where))  # type: ignore[arg-type]


def alerts_in(bench: Bench) -> list[Alert]:
    records = held(bench.broker, bench.target)
    return [decode_alert(record.key, record.value, record.headers) for record in records]


def expected(alerting: Alerting, windows: Sequence[CommunityEvents]) -> list[Alert]:
    """The alerts of an unbroken worker."""
    ends = range(1, len(windows) + 1)
    parts = (windows[max(end - alerting.windows, 0) : end] for end in ends)
    return [alert for part in parts for alert in alerting.alerts(part)]


@pytest.mark.parametrize("lasting", [0, 3])
def test_alerts_are_published_once_whichever_worker_ends(bench: Bench, lasting: int) -> None:
    told, windows = alerting(lasting=lasting), unbroken(stream("g", 20))
    records, runner = bench.sent(windows), worker(bench, told)
    list(runner.handle(records[:8]))  # not published
    runner.assigned([0])
    bench.work(runner, records[:6])
    for again in (runner, worker(bench, told)):  # it was published, and not committed
        again.assigned([0])
        bench.work(again, records[:6])
    for start in range(6, 20, 4):
        bench.work(worker(bench, told), records[start : start + 4])
    found = alerts_in(bench)
    assert found == expected(told, windows)
    assert len({alert.id for alert in found}) == len(found) > 3


def test_groups_have_alerts_of_their_own(bench: Bench) -> None:
    records = bench.sent(unbroken(stream("g", 8)))
    for group in ("desk", "noc"):
        bench.work(worker(bench, alerting(group=group)), records)
    found = alerts_in(bench)
    desk, noc = ([one.id for one in found if one.group == group] for group in ("desk", "noc"))
    assert desk == noc != []


def test_graphs_that_take_too_much_memory_are_read_again(bench: Bench) -> None:
    told = alerting(lasting=1)
    graphs = {name: unbroken(stream(name, 8, seed)) for name, seed in (("a", 3), ("b", 4))}
    records = bench.sent(one for pair in zip(*graphs.values(), strict=True) for one in pair)
    small = worker(bench, told, memory=MemorySettings(cache_bytes=1))
    for start in range(0, 16, 3):
        bench.work(small, records[start : start + 3])
    found = alerts_in(bench)
    for name, windows in graphs.items():
        assert [alert for alert in found if alert.graph == name] == expected(told, windows)


def test_repeated_late_and_revised_windows_add_no_second_alert(bench: Bench) -> None:
    told, windows = alerting("merged or split or born"), unbroken(stream("g", 8))
    at = next(at for at in range(8) if list(told.alerts(windows[: at + 1][-2:])))
    revised, late = replace(windows[at], revision="r2"), replace(windows[at - 1], late=True)
    again = [windows[at], revised, late, windows[at - 1]]
    sent = bench.sent([*windows[: at + 1], *again, *windows[at + 1 :]])
    bench.work(worker(bench, told), sent)
    ids = [alert.id for alert in alerts_in(bench)]
    assert ids == [alert.id for alert in expected(told, windows)]


def test_a_graph_that_starts_anew_has_a_first_window_again(bench: Bench) -> None:
    first, second = unbroken(stream("g", 2))
    records = bench.sent([first, Forgotten("g").record(bench.source), second])
    bench.work(worker(bench, alerting("size > 0")), records)
    assert alerts_in(bench) == []


def test_old_events_give_no_alerts_and_what_is_no_message_a_dead_letter(bench: Bench) -> None:
    *records, wrong = bench.sent([*unbroken(stream("g", 8)), OutgoingRecord(bench.source, b"?")])
    aged = [replace(one, timestamp_ms=one.timestamp_ms - 3_700_000) for one in records]
    runner = worker(bench, alerting(), oldest=timedelta(hours=1))
    with capture_logs() as logs:
        (letter,) = runner.handle([*aged, wrong])
    assert letter.topic == f"{bench.source}.dlq"
    assert any(line["event"] == "too old for alerts" for line in logs)
    with pytest.raises(TopicMissing, match=f"{bench.target}x"):
        list(worker(bench, alerting(), out=f"{bench.target}x").handle(records))


def test_names_by_attributes_of_nodes(bench: Bench) -> None:
    windows = unbroken(stream("g", 12))
    values = [f"<{community}>" for community in windows[0].communities]
    known = Naming({"g": attributes_of(windows[0].nodes, {"of": values})})
    told = replace(alerting("merged or split"), names=known.of_events)
    bench.work(worker(bench, told), bench.sent(windows))
    named = [alert for alert in alerts_in(bench) if alert.name]
    assert named
    assert all(f"({alert.name})" in alert.text or "more" in alert.text for alert in named)


@pytest.mark.brokers("kafka")
def test_kill_9_of_a_worker_of_alerts(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    rule, windows = "merged or split or (born and size > 2)", unbroken(stream(topic_name, 24))
    told = alerting(rule, lasting=1, group=topic_name)
    ids = [alert.id for alert in expected(told, windows)]
    sent = [outgoing(window, EVENTS) for window in windows]
    create_topics(broker.settings())
    with webhook() as at:
        options = ["--rule", rule, "--to", at.url, "--confirmed", "1", "--batch", "4"]
        options += ["--oldest", "36500d"]

        def ended() -> None:
            with at.came:
                assert at.came.wait_for(lambda: {one["id"] for one in at.taken()} == set(ids), 90)

        began = partial(at.wait_for, 3)
        kill_and_restart(broker, topic_name, tmp_path, sent, 8, "alert", options, began, ended)
        received = [alert["id"] for alert in at.taken()]
    # Killed between the answer and the commit, a worker sends one alert again.
    assert len(received) - len(ids) in (0, 1)
    assert list(dict.fromkeys(received)) == ids
    of_graph = [one for one in held(broker, ALERTS) if one.key == topic_name.encode()]
    assert [dict(record.headers)["ce_id"].decode() for record in of_graph] == ids


@pytest.fixture
def published(bench: Bench) -> list[Record]:
    """The alerts of eight windows, as records."""
    bench.work(worker(bench, alerting()), bench.sent(unbroken(stream("g", 8))))
    return held(bench.broker, bench.target)


def delivery(*urls: str, group: str = "desk", retry_for_s: float = 60.0) -> Runner:
    return Runner(Deliver(group, AlertSettings().receivers(urls), retry_for_s))


def test_alerts_of_a_group_are_delivered_in_order_after_an_outage(published: list[Record]) -> None:
    with webhook(lambda n: 503 if n == 1 else 204) as at:
        assert list(delivery(at.url).handle(published)) == []
        assert list(delivery(at.url, group="noc").handle(published)) == []
    ids = [dict(record.headers)["ce_id"].decode() for record in published]
    assert len(ids) > 2
    assert [alert["id"] for alert in at.taken()] == ids
    assert at.statuses == [503, *[204] * len(ids)]


def test_alerts_that_nobody_takes_become_dead_letters(published: list[Record]) -> None:
    with webhook(lambda n: 410 if n == 1 else 204) as refusing, webhook() as taking:
        runner = delivery(refusing.url, taking.url)
        (letter,) = runner.handle(published[:1])
        said = dict(letter.headers)
        assert (letter.value, said["icd_dlq_stage"]) == (published[0].value, b"deliver")
        assert said["icd_dlq_exception"] == b"AlertRefused"
        assert b"127.0.0.1 answered 410 to alert" in said["icd_dlq_message"]
        assert list(runner.handle(published[:1])) == []  # as `dlq retry` sends it
    assert [len(refusing.taken()), len(taking.taken())] == [1, 1]
    (letter,) = delivery().handle([replace(published[0], value=b"{")])
    assert dict(letter.headers)["icd_dlq_stage"] == b"decode"


def test_an_outage_that_lasts_too_long_is_not_waited_for_again(published: list[Record]) -> None:
    with webhook(lambda _: 500) as at:
        letters = list(delivery(at.url, retry_for_s=0.5).handle(published[:3]))
    assert len(letters) == 3
    assert len(at.statuses) == 4  # two tries of the first alert, one of each other one


def test_a_stop_gives_back_the_alert_that_waits(bench: Bench, published: list[Record]) -> None:
    assert published
    create_topics(bench.broker.settings())  # with that in which workers note what they process
    settings = bench.broker.settings(shutdown_timeout_s=0.3)
    with webhook(lambda _: 503) as at:
        runner = delivery(at.url, retry_for_s=10.0)  # its thread goes on for so long
        work = partial(run_consumer, settings, bench.target, "group", runner)
        with beside(work) as errors:
            wait_until(lambda: at.statuses)
    assert errors == []
    assert positions(bench.broker.settings(), bench.target, "group") == {}


MARKED_UP = replace(
    ALERT,
    text="community 3 (20 nodes) joined community 12 <mostly RU & UA> (31 bits)",
    name="<mostly RU & UA>",
)


def send(alert: Alert, to: str, **settings: Any) -> None:
    (receiver,) = AlertSettings(**settings).receivers([to])
    receiver.send(alert)


def test_an_alert_is_one_cloud_event_that_is_signed_if_there_is_a_secret() -> None:
    with webhook() as at:
        (receiver,) = AlertSettings(secret="key").receivers([at.url])
        replace(receiver, clock=lambda: 1_700_000_000.7).send(MARKED_UP)
        send(MARKED_UP, at.url)
    (headers, body), (unsigned, _) = at.requests
    assert "webhook-signature" not in unsigned
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    event = json.loads(body)
    data = event.pop("data")
    assert event == {
        "specversion": "1.0",
        "type": "stream_icd.alert.v1",
        "source": "stream_icd/alert/stream-icd-alert",
        "id": MARKED_UP.id,
        "time": "1999-04-03T00:00:00Z",
        "subject": "as733",
        "datacontenttype": "application/json",
    }
    assert (data["event"], data["community"], data["bits"]) == ("merged", 12, 31.4)
    assert data["text"] == MARKED_UP.text
    signed = f"{MARKED_UP.id}.1700000000.".encode() + body
    signature = base64.b64encode(hmac.new(b"key", signed, "sha256").digest()).decode()
    assert headers["webhook-id"] == MARKED_UP.id
    assert headers["webhook-timestamp"] == "1700000000"
    assert headers["webhook-signature"] == f"v1,{signature}"


def test_slack_gets_a_line_without_markup_of_others() -> None:
    with webhook(lambda _: 200) as at:
        send(MARKED_UP, f"slack:{at.url}", secret="key")
    ((headers, body),) = at.requests
    assert "webhook-signature" not in headers
    sentence = "joined community 12 &lt;mostly RU &amp; UA&gt; (31 bits)"
    text = f"as733, 1999-04-02 UTC: community 3 (20 nodes) {sentence}"
    assert json.loads(body) == {"text": text}


@pytest.mark.parametrize(
    ("error", "statuses"),
    [
        (ReceiverUnavailable, (408, 425, 429, 500, 503)),
        (AlertRefused, (301, 302, 307, 400, 401, 404, 410)),  # no redirect is followed
    ],
)
def test_some_statuses_ask_to_try_again(error: type[Exception], statuses: tuple[int, ...]) -> None:
    for status in statuses:
        with webhook(lambda _, status=status: status) as at:
            with pytest.raises(error, match=f"answered {status}.*so!"):
                send(MARKED_UP, at.url)
            assert len(at.requests) == 1


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    (receiver,) = AlertSettings().receivers([f"http://127.0.0.1:{port}/secret-path"])
    with pytest.raises(ReceiverUnavailable, match="127.0.0.1 does not answer") as error:
        receiver.send(MARKED_UP)
    assert "secret-path" not in f"{error.value} {receiver.name}"
    monkeypatch.setattr(deliver, "_ANSWER_TIMEOUT_S", 0.2)
    with webhook() as at, at.came, pytest.raises(ReceiverUnavailable, match="timed out"):
        send(replace(MARKED_UP, text="waits for the lock"), at.url)


def test_an_address_is_given_or_in_a_file_and_none_is_shown(tmp_path: Path) -> None:
    (file := tmp_path / "hook").write_text("https://hooks.example/T/B/secret\n")
    (receiver,) = AlertSettings().receivers([f"slack:@{file}"])
    assert (receiver.url, receiver.slack) == ("https://hooks.example/T/B/secret", True)
    assert receiver.name == "slack hooks.example"
    with pytest.raises(BadSettings, match="cannot read the address in the file"):
        AlertSettings().receivers([f"@{tmp_path}/none"])
    for text in ("ftp://a/secret-path", "https://", "slack:", "mailto:me", "http://a:0/x",
                 "https://a/b c", "http://[a/", "https://é/"):  # fmt: skip
        with pytest.raises(BadSettings, match="give https://HOST/PATH") as error:
            AlertSettings().receivers([text])
        assert "secret-path" not in str(error.value)


def test_the_secret_is_text_or_written_as_standard_webhooks_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (file := tmp_path / "secret").write_text("abc\n")
    written = "whsec_" + base64.b64encode(b"abc").decode()
    for variables, key in (
        ({}, None),
        ({"SECRET": written}, b"abc"),
        ({"SECRET_FILE": file}, b"abc"),
    ):
        with monkeypatch.context() as environment:
            for name, value in variables.items():
                environment.setenv(f"STREAM_ICD_ALERTS_{name}", str(value))
            (receiver,) = AlertSettings().receivers(["https://example.org"])
            assert receiver.key == key
            assert "whsec" not in repr(AlertSettings())
    with pytest.raises(BadSettings, match="alerts: the secret begins with whsec_ and is no base64"):
        AlertSettings(secret="whsec_!")
    with pytest.raises(BadSettings, match="both secret and secret_file"):
        AlertSettings(secret="abc", secret_file=file)
