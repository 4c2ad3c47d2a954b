"""Alerts: CloudEvents in Kafka (headers, and JSON as the value) and over HTTP (one JSON object)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from stream_icd.core.errors import BadAlert, LimitExceeded
from stream_icd.core.headers import Headers
from stream_icd.core.times import rfc3339
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import (
    JSON_TYPE,
    EventHeaders,
    Message,
    event_message,
    graph_name_of,
    refusing,
)

_ALERT_TYPE = "stream_icd.alert.v1"
STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Alert:
    """An event that a rule asked for, or a node that moved.

    Attributes:
        group: the group of the worker, which stands for its rules.
        snapshot_id, window_start, window_end, model: the window in which it happened.
        event: the kind of event, or `moved`.
        community: stable id; of a node that moved, of its community now.
        size, size_before: members of the community, in the window and before.
        bits, name, parents, children: as those of the event; at most 1,000 parents or children.
        node, community_before: of a node that moved.
        confirmed: number of later windows for which it has held.
        rules: those that fired, as they were written.
        text: what happened, for people.
    """

    group: str
    graph: str
    snapshot_id: str
    window_start: datetime
    window_end: datetime
    model: str
    event: str
    community: int
    size: int
    size_before: int
    confirmed: int
    rules: tuple[str, ...]
    text: str
    bits: float | None = None
    name: str | None = None
    parents: tuple[int, ...] = ()
    children: tuple[int, ...] = ()
    node: str | None = None
    community_before: int | None = None

    @property
    def id(self) -> str:
        """Equal for two alerts of one event, whatever its revision and the rules that fired."""
        subject = self.community if self.node is None else self.node
        identity = json.dumps([self.graph, self.snapshot_id, self.event, subject])
        return sha256(identity.encode()).hexdigest()[:32]

    def structured(self) -> bytes:
        """Return it as one JSON object: CloudEvents' structured mode, for HTTP."""
        event = {
            "specversion": "1.0",
            "type": _ALERT_TYPE,
            "source": source_of_alerts(self.group),
            "id": self.id,
            "time": rfc3339(self.window_end),
            "subject": self.graph,
            "datacontenttype": JSON_TYPE,
            "data": _fields(self),
        }
        return json.dumps(event, ensure_ascii=False).encode()


def source_of_alerts(group: str) -> str:
    """Return the `ce_source` of a group's alerts.

    >>> source_of_alerts("fraud desk")
    'stream_icd/alert/fraud%20desk'
    """
    return f"stream_icd/alert/{quote(group, safe='')}"


def encode_alert(alert: Alert) -> Message:
    """Encode an alert; the same alert gives the same bytes."""
    return event_message(
        alert.graph.encode(),
        json.dumps(_fields(alert), ensure_ascii=False).encode(),
        type=_ALERT_TYPE,
        source=source_of_alerts(alert.group),
        id=alert.id,
        time=alert.window_end,
        extra={"icd_snapshot_id": alert.snapshot_id, "icd_model": alert.model},
        content_type=JSON_TYPE,
    )


def _fields(alert: Alert) -> dict[str, Any]:
    """Return what an alert says, in JSON's own types."""
    fields: dict[str, Any] = TypeAdapter(Alert).dump_python(alert, mode="json")
    return fields


def decode_alert(
    key: bytes | None, value: bytes | None, headers: Headers, limits: Limits = DEFAULT_LIMITS
) -> Alert:
    """Decode an alert of at most 1 MiB; fields that this version does not know are ignored.
    Raises BadAlert and LimitExceeded, see `wire.message`."""
    with refusing(BadAlert, "the alert cannot be read"):
        EventHeaders(headers, _ALERT_TYPE, limits, BadAlert, JSON_TYPE)
        if len(value or b"") > _MOST_BYTES:  # JSON takes several times its size in memory
            raise LimitExceeded(f"an alert of {len(value or b'')} bytes; at most 1 MiB")
        alert: Alert = TypeAdapter(Alert).validate_python(json.loads(value or b""))
        if graph_name_of(key, limits, BadAlert) != alert.graph:
            raise BadAlert(f"the key names another graph than the alert, {alert.graph!r:.80}")
        # A time without a zone, or text that is not UTF-8, would fail when it is delivered.
        alert.structured()
        return alert
