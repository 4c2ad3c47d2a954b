"""Announcements about models as Kafka messages: CloudEvents headers, and JSON as the value."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from pydantic import TypeAdapter

from stream_icd.announcement import Announcement
from stream_icd.errors import BadAnnouncement, LimitExceeded
from stream_icd.wire.cloudevents import EventHeaders, event_headers
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import Headers, Message, refusing

ANNOUNCEMENT_TYPE = "stream_icd.model.v1"
JSON_TYPE = "application/json"
MOST_BYTES = 2**20


def encode_announcement(announcement: Announcement) -> Message:
    """Encode an announcement; its key is the registry, so that those of one keep their order."""
    value = TypeAdapter(Announcement).dump_python(announcement, mode="json")
    kind = announcement.kind.replace(" ", "-")
    headers = event_headers(
        type=ANNOUNCEMENT_TYPE,
        source=quote(announcement.registry, safe="/:@"),
        id=announcement.id,
        time=announcement.at,
        extra={"icd_kind": kind, **_versions(announcement)},
        content_type=JSON_TYPE,
    )
    return Message(announcement.registry.encode(), json.dumps(value).encode(), headers)


def decode_announcement(
    key: bytes | None,  # noqa: ARG001 - the value names the registry, too
    value: bytes | None,
    headers: Headers,
    limits: Limits = DEFAULT_LIMITS,
) -> Announcement:
    """Decode an announcement; fields that this version does not know are ignored.

    Raises:
        BadAnnouncement: the message breaks the contract.
        LimitExceeded: the headers or the value are above `limits`, or 1 MiB.
    """
    with refusing(BadAnnouncement, "the announcement cannot be read"):
        EventHeaders(headers, ANNOUNCEMENT_TYPE, limits, BadAnnouncement, JSON_TYPE)
        if len(value or b"") > MOST_BYTES:
            raise LimitExceeded(f"an announcement of {len(value or b'')} bytes; at most 1 MiB")
        said: dict[str, Any] = json.loads(value or b"")
        return TypeAdapter(Announcement).validate_python(said)


def _versions(announcement: Announcement) -> dict[str, str]:
    known = {"icd_model": announcement.version, "icd_champion": announcement.champion}
    return {name: text for name, text in known.items() if text}
