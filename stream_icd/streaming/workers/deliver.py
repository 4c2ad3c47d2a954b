"""Delivery of alerts: each record of the alerts topic goes to its receivers over HTTP."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from stream_icd.core.errors import AlertRefused, BadInput, ReceiverUnavailable
from stream_icd.kafka.messages.records import Outcome, Processed, Refused
from stream_icd.kafka.record import Record
from stream_icd.kafka.waiting import Outage, insist
from stream_icd.streaming.workers.receivers import Receiver
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.alerts import Alert, decode_alert, source_of_alerts

_MOST_TAKEN = 10_000
"""Alerts of which is remembered who took them."""


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
    receivers: Sequence[Receiver]
    retry_for_s: float
    # Who took which alert: if another receiver refuses it, it may be sent again by `dlq retry`.
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
        failures = [said for receiver in self.receivers if (said := self._sent(receiver, alert))]
        if failures:
            return Refused("deliver", AlertRefused("; ".join(failures)))
        return Processed("delivered", {"alert": alert.id, "kind": alert.event})

    def _sent(self, receiver: Receiver, alert: Alert) -> str:
        """Send an alert to a receiver that has not taken it; return why that failed, or ""."""
        if (alert.id, receiver.url) in self._taken:
            return ""
        send = partial(receiver.send, alert)
        try:
            insist(send, self._outages[receiver.url], self._never, (ReceiverUnavailable,))
        except (AlertRefused, ReceiverUnavailable) as error:
            return str(error)
        self._taken[alert.id, receiver.url] = None
        if len(self._taken) > _MOST_TAKEN:
            self._taken.popitem(last=False)
        return ""
