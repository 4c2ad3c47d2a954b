"""Announcements about the models of a registry, and their messages: JSON as the value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import quote

from pydantic import TypeAdapter

from stream_icd.core.errors import BadAnnouncement, LimitExceeded
from stream_icd.core.headers import Headers
from stream_icd.core.lineage import Gate
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import JSON_TYPE, EventHeaders, Message, event_message, refusing

_ANNOUNCEMENT_TYPE = "stream_icd.model.v1"
_MOST_BYTES = 2**20

_Kind = Literal["published", "promoted", "rolled back", "refused", "kept"]


@dataclass(frozen=True, slots=True)
class Announcement:
    """One event of a registry. The registry itself holds the truth; an announcement may be lost.

    Attributes:
        kind: `published`: a version was added. `promoted`, `rolled back`: the champion is now
            `version`. `refused`: a detector cannot use `version`. `kept`: a trigger or a gate
            decided to keep the champion for now.
    """

    kind: _Kind
    registry: str  # as its users name it
    reason: str  # in one sentence, for people
    by: str  # the program that decided
    at: datetime
    version: str | None = None  # what it is about; None for `kept` before anything was learned
    champion: str | None = None  # the champion after it, if there is one
    generation: int = 0  # of the aliases after it (`registry.aliases`); 0 without a champion
    gate: Gate | None = None  # the comparison that decided, if there was one

    @property
    def id(self) -> str:
        """Equal for two announcements of one event, such as a repetition after a crash."""
        match self.kind:
            case "published":
                return f"published/{self.version}"
            case "promoted" | "rolled back":
                return f"champion/{self.generation}/{self.version}"
            case "refused":
                return f"refused/{self.version}/{self.generation}"
            case "kept":
                return f"kept/{self.at.isoformat()}"


def encode_announcement(announcement: Announcement) -> Message:
    """Encode an announcement; its key is the registry, so that those of one keep their order."""
    value = TypeAdapter(Announcement).dump_python(announcement, mode="json")
    return event_message(
        announcement.registry.encode(),
        json.dumps(value).encode(),
        type=_ANNOUNCEMENT_TYPE,
        source=quote(announcement.registry, safe="/:@"),
        id=announcement.id,
        time=announcement.at,
        extra={
            "icd_kind": announcement.kind.replace(" ", "-"),
            "icd_model": announcement.version or None,
            "icd_champion": announcement.champion or None,
        },
        content_type=JSON_TYPE,
    )


def decode_announcement(
    key: bytes | None,  # noqa: ARG001 - the value names the registry, too
    value: bytes | None,
    headers: Headers,
    limits: Limits = DEFAULT_LIMITS,
) -> Announcement:
    """Decode an announcement of at most 1 MiB; fields that this version does not know are ignored.
    Raises BadAnnouncement and LimitExceeded, see `wire.message`."""
    with refusing(BadAnnouncement, "the announcement cannot be read"):
        EventHeaders(headers, _ANNOUNCEMENT_TYPE, limits, BadAnnouncement, JSON_TYPE)
        if len(value or b"") > _MOST_BYTES:
            raise LimitExceeded(f"an announcement of {len(value or b'')} bytes; at most 1 MiB")
        return TypeAdapter(Announcement).validate_python(json.loads(value or b""))
