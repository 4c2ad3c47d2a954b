"""Alerts over HTTP: what a receiver gets, and what its answer means."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stream_icd.core.errors import AlertRefused, BadSettings, ReceiverUnavailable
from stream_icd.streaming.workers import receivers
from stream_icd.streaming.workers.receivers import AlertSettings, Receiver, receiver_at
from stream_icd.wire.alerts import Alert
from tests.testbed.brokers import free_ports
from tests.testbed.webhook import webhook

DAY = datetime(1999, 4, 2, tzinfo=UTC)
ALERT = Alert(
    group="stream-icd-alert",
    graph="as733",
    snapshot_id="as733/1999-04-02",
    window_start=DAY,
    window_end=DAY.replace(day=3),
    model="as@1",
    event="merged",
    community=12,
    size=60,
    size_before=40,
    confirmed=3,
    rules=("merged and bits >= 20",),
    text="community 3 (20 nodes) joined community 12 <mostly RU & UA> (31 bits)",
    bits=31.4,
    name="<mostly RU & UA>",
    parents=(12, 3),
)


def test_an_alert_is_one_cloud_event_that_is_signed() -> None:
    with webhook() as at:
        Receiver(at.url, key=b"key", clock=lambda: 1_700_000_000.7).send(ALERT)
    ((headers, body),) = at.requests
    assert headers["content-type"] == "application/cloudevents+json; charset=utf-8"
    said = json.loads(body)
    data = said.pop("data")
    assert said == {
        "specversion": "1.0",
        "type": "stream_icd.alert.v1",
        "source": "stream_icd/alert/stream-icd-alert",
        "id": ALERT.id,
        "time": "1999-04-03T00:00:00Z",
        "subject": "as733",
        "datacontenttype": "application/json",
    }
    assert (data["event"], data["community"], data["bits"]) == ("merged", 12, 31.4)
    assert data["text"] == ALERT.text
    signed = f"{ALERT.id}.1700000000.".encode() + body
    expected = base64.b64encode(hmac.new(b"key", signed, "sha256").digest()).decode()
    assert headers["webhook-id"] == ALERT.id
    assert headers["webhook-timestamp"] == "1700000000"
    assert headers["webhook-signature"] == f"v1,{expected}"


def test_without_a_secret_nothing_is_signed() -> None:
    with webhook() as at:
        Receiver(at.url).send(ALERT)
    assert "webhook-signature" not in at.requests[0][0]


def test_slack_gets_a_line_without_markup_of_others() -> None:
    with webhook(lambda _: 200) as at:
        receiver_at(f"slack:{at.url}", b"key").send(ALERT)
    ((headers, body),) = at.requests
    assert "webhook-signature" not in headers
    said = "joined community 12 &lt;mostly RU &amp; UA&gt; (31 bits)"
    text = f"as733, 1999-04-02 UTC: community 3 (20 nodes) {said}"
    assert json.loads(body) == {"text": text}


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_statuses_after_which_it_is_tried_again(status: int) -> None:
    with (
        webhook(lambda _: status) as at,
        pytest.raises(ReceiverUnavailable, match=f"{status}.*so!"),
    ):
        Receiver(at.url).send(ALERT)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 410])
def test_statuses_that_are_final_and_no_redirect_is_followed(status: int) -> None:
    with webhook(lambda _: status) as at, pytest.raises(AlertRefused, match=f"answered {status}"):
        Receiver(at.url).send(ALERT)
    assert len(at.requests) == 1


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    receiver = Receiver(f"http://127.0.0.1:{port}/secret-path")
    with pytest.raises(ReceiverUnavailable, match="127.0.0.1 does not answer") as error:
        receiver.send(ALERT)
    assert "secret-path" not in f"{error.value} {receiver.name}"
    monkeypatch.setattr(receivers, "_ANSWER_TIMEOUT_S", 0.2)
    with webhook() as at, at.came, pytest.raises(ReceiverUnavailable, match="timed out"):
        Receiver(at.url).send(replace(ALERT, text="waits for the lock"))


def test_an_address_in_a_file(tmp_path: Path) -> None:
    (file := tmp_path / "hook").write_text("https://hooks.example/T/B/secret\n")
    receiver = receiver_at(f"slack:@{file}")
    assert (receiver.url, receiver.slack) == ("https://hooks.example/T/B/secret", True)
    assert receiver.name == "slack hooks.example"
    with pytest.raises(BadSettings, match="cannot read the address in the file"):
        receiver_at(f"@{tmp_path}/none")


@pytest.mark.parametrize(
    "text", ["ftp://a/secret-path", "https://", "slack:", "mailto:me", "http://a:0/x",
             "https://a/b c", "http://[a/", "https://é/"]
)  # fmt: skip
def test_what_is_no_address_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(BadSettings, match="give https://HOST/PATH") as error:
        receiver_at(text)
    assert "secret-path" not in str(error.value)


def test_the_secret_is_text_or_written_as_standard_webhooks_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert AlertSettings().key() is None
    monkeypatch.setenv("STREAM_ICD_ALERTS_SECRET", "whsec_" + base64.b64encode(b"abc").decode())
    assert AlertSettings().key() == b"abc"
    assert "whsec" not in repr(AlertSettings())
    monkeypatch.setenv("STREAM_ICD_ALERTS_SECRET", "whsec_!")
    with pytest.raises(BadSettings, match="alerts: the secret begins with whsec_ and is no base64"):
        AlertSettings()
    (file := tmp_path / "secret").write_text("abc\n")
    monkeypatch.setenv("STREAM_ICD_ALERTS_SECRET_FILE", str(file))
    with pytest.raises(BadSettings, match="both secret and secret_file"):
        AlertSettings()
    monkeypatch.delenv("STREAM_ICD_ALERTS_SECRET")
    assert AlertSettings().key() == b"abc"
