"""Delivery of alerts over HTTP: CloudEvents with a signature, or a line of text for Slack."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import ClassVar, Self
from urllib.error import HTTPError
from urllib.parse import urlsplit

from pydantic import SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from stream_icd.core.errors import AlertRefused, BadInput, BadSettings, ReceiverUnavailable
from stream_icd.core.post import post
from stream_icd.core.printable import printable, shortened
from stream_icd.core.settings import ENV_PREFIX, Settings, secret_in
from stream_icd.kafka.messages.records import Outcome, Processed, Refused
from stream_icd.kafka.record import Record
from stream_icd.kafka.waiting import Outage, insist
from stream_icd.methods.tracking.sentences import told
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.alerts import STRUCTURED_TYPE, Alert, decode_alert, source_of_alerts

_ANSWER_TIMEOUT_S = 10.0
_TRY_AGAIN = frozenset((408, 425, 429, *range(500, 600)))
"""Statuses after which a later try may succeed; any other one above 299 is final."""
_MOST_ANSWER = 300
"""Characters of an answer that an error quotes."""
_WRITTEN = "whsec_"
"""Begins a secret in base64, as Standard Webhooks writes it."""
_MOST_TAKEN = 10_000
"""Number of alerts of which it is remembered who took them."""


@dataclass(eq=False)
class Deliver(Step):
    """Sends each alert of a group to all receivers, and commits the group's position after it.

    While a receiver does not answer, its alerts wait in the topic, for `retry_for_s` from the
    beginning of the outage; then they become dead letters. If the worker ends between the answer
    and the commit, the alert is sent again, with the same id: so one alert at a time.
    """

    stages = ("decode", "deliver")
    most_records = 1

    group: str
    receivers: Sequence[_Receiver]
    retry_for_s: float
    _taken: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._outages = {
            receiver.url: Outage(self.retry_for_s, of=receiver.name) for receiver in self.receivers
        }
        # Nobody sets it: when the worker stops, the alert in hand is given back.
        self._never = threading.Event()

    def process(self, record: Record) -> Outcome:
        if dict(record.headers).get("ce_source") != source_of_alerts(self.group).encode():
            return Processed("an alert of another group")
        try:
            alert = decode_alert(record.key, record.value, record.headers)
        except BadInput as error:
            return Refused("decode", error)
        sent = (self._sent(receiver, alert) for receiver in self.receivers)
        failures = [failure for failure in sent if failure]
        if failures:
            return Refused("deliver", AlertRefused("; ".join(failures)))
        return Processed("delivered", {"alert": alert.id, "kind": alert.event})

    def _sent(self, receiver: _Receiver, alert: Alert) -> str:
        """Send an alert to a receiver that has not taken it; return why that failed, or ""."""
        if (alert.id, receiver.url) in self._taken:
            return ""
        send = partial(receiver.send, alert)
        try:
            insist(send, self._outages[receiver.url], self._never, (ReceiverUnavailable,))
        except (AlertRefused, ReceiverUnavailable) as error:
            return str(error)
        # Also if another receiver fails: then the alert comes again, by `stream-icd dlq retry`.
        self._taken[alert.id, receiver.url] = None
        if len(self._taken) > _MOST_TAKEN:
            self._taken.popitem(last=False)
        return ""


class AlertSettings(Settings):
    """The secret that alerts over HTTP are signed with.

    Set with `STREAM_ICD_ALERTS_SECRET` or `STREAM_ICD_ALERTS_SECRET_FILE`, or in the `[alerts]`
    table of the settings file. Without it, alerts are not signed.
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}ALERTS_")

    table: ClassVar[str] = "alerts"

    secret: SecretStr | None = None
    secret_file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_secret_of_file(cls, settings: dict[str, object]) -> dict[str, object]:
        if (file := settings.get("secret_file")) is None:
            return settings
        if settings.get("secret") is not None:
            raise ValueError("both secret and secret_file are set: leave out one")
        return settings | {"secret": secret_in(Path(str(file)), "secret_file")}

    @model_validator(mode="after")
    def _is_a_key(self) -> AlertSettings:
        self._key()
        return self

    def receivers(self, addresses: Sequence[str]) -> list[_Receiver]:
        """Return the receivers at these addresses, as `--to` gives them.

        Raises `BadSettings` if one is none, without showing more than its beginning.
        """
        key = self._key()
        return [_Receiver.at(address, key) for address in addresses]

    def _key(self) -> bytes | None:
        """Return the bytes that sign; None: nothing is signed."""
        if self.secret is None:
            return None
        text = self.secret.get_secret_value()
        if not text.startswith(_WRITTEN):
            return text.encode()
        try:
            return base64.b64decode(text.removeprefix(_WRITTEN), validate=True)
        except binascii.Error:
            raise ValueError(f"the secret begins with {_WRITTEN} and is no base64") from None


@dataclass(frozen=True, slots=True)
class _Receiver:
    """An address that alerts are sent to, which may be secret, and how it wants them."""

    url: str
    slack: bool = False
    key: bytes | None = None
    clock: Callable[[], float] = time.time

    @classmethod
    def at(cls, text: str, key: bytes | None) -> Self:
        slack = text.startswith("slack:")
        address = text.removeprefix("slack:")
        if address.startswith("@"):
            try:
                address = secret_in(Path(address[1:]), "the address in the file")
            except ValueError as error:
                raise BadSettings(f"--to {text}: {error}") from None
        try:
            parts = urlsplit(address)
            good = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not (good and address.isascii() and address.isprintable() and " " not in address):
            raise BadSettings(
                f"--to {shortened(text, 12)}: give https://HOST/PATH, slack:https://HOST/PATH, "
                "kafka:TOPIC, or @FILE or slack:@FILE with a file that holds the address"
            )
        return cls(address, slack, None if slack else key)

    @property
    def name(self) -> str:
        """The receiver in logs and errors: without the path, which may be a secret."""
        return f"{'slack ' if self.slack else ''}{urlsplit(self.url).hostname}"

    def send(self, alert: Alert) -> None:
        """Send an alert.

        Raises:
            ReceiverUnavailable: there was no answer, or one that asks to try again.
            AlertRefused: the receiver will never take it.
        """
        body = _for_slack(alert) if self.slack else alert.structured()
        try:
            post(self.url, body, self._headers(alert, body), _ANSWER_TIMEOUT_S)
        except HTTPError as error:
            with error:
                answer = printable(shortened(error.read(_MOST_ANSWER), _MOST_ANSWER))
            kind = ReceiverUnavailable if error.code in _TRY_AGAIN else AlertRefused
            reason = f"{self.name} answered {error.code} to alert {alert.id}: {answer}"
            raise kind(reason) from None
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", None) or error
            raise ReceiverUnavailable(f"{self.name} does not answer: {cause}") from None

    def _headers(self, alert: Alert, body: bytes) -> Mapping[str, str]:
        if self.slack:
            return {"content-type": "application/json"}
        now = int(self.clock())
        headers = {
            "content-type": STRUCTURED_TYPE,
            "webhook-id": alert.id,
            "webhook-timestamp": str(now),
        }
        if self.key is not None:
            # As Standard Webhooks demands: HMAC-SHA256 of id, time and body.
            signed = b"%s.%d.%s" % (alert.id.encode(), now, body)
            signature = base64.b64encode(hmac.digest(self.key, signed, "sha256")).decode()
            headers["webhook-signature"] = f"v1,{signature}"
        return headers


def _for_slack(alert: Alert) -> bytes:
    """Return the line of an alert; Slack's three signs of markup are escaped."""
    text = f"{alert.graph}, {told(alert.window_start)} UTC: {alert.text}"
    for sign, code in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(sign, code)
    return json.dumps({"text": text}).encode()
