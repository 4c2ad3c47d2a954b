"""A message of each kind, with all that it may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from stream_icd.core.communities import Labels
from stream_icd.core.coordinates import DEGREES
from stream_icd.core.errors import (
    BadAlert,
    BadAnnouncement,
    BadCommunities,
    BadEvents,
    BadInput,
    BadKnown,
    BadMember,
    BadMemory,
    BadSnapshot,
)
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.headers import Headers
from stream_icd.core.lineage import Figure, Gate
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.wire.alerts import Alert, decode_alert, encode_alert
from stream_icd.wire.announcements import Announcement, decode_announcement, encode_announcement
from stream_icd.wire.communities import (
    decode_communities,
    decode_labels,
    encode_communities,
    encode_labels,
)
from stream_icd.wire.events import decode_events, encode_events
from stream_icd.wire.message import Message
from stream_icd.wire.nodes import (
    MemberRow,
    decode_known,
    decode_member,
    encode_known,
    encode_member,
)
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from stream_icd.wire.states import MemoryState, decode_state, encode_state
from tests.testbed.windows import window

DAY = Window(datetime(1999, 4, 2, tzinfo=UTC), datetime(1999, 4, 3, tzinfo=UTC))
NODES = pa.array([701, 1239, 7018])


def made(src: object, dst: object, **options: Any) -> Snapshot:
    """The snapshot of these pairs."""
    named = {"graph": "g", "id": "g/1", "window": DAY}
    return snapshot_from_pairs(src, dst, **(named | options))


SNAPSHOT = encode_snapshot(
    made(
        [701, 701],
        [1239, 7018],
        n_communities=2,
        source="s",
        x=[116.4, 116.4],
        y=[39.9, 39.9],
        crs=DEGREES,
    ),
    unordered=True,
)
COMMUNITIES = encode_communities(
    replace(
        window(0, [0, 0, 1], NODES, "as@5b1f09c2", ids=[4, 2], revision="3f9c1a2b4d5e"),
        content="0" * 64,
        k_given=2,
        seed=0,
        snapshot_place="0@7",
        evidence="strong",
        bits_saved=1.5e-9,
        modularity=-0.0001,
        ncut=1e-12,
        replaced=np.array([[3, 4]]),
        moved=np.array([[3, 4]]),
        moved_bits=np.array([12.5]),
        levels=np.array([[2, 2]]),
        memory="continued",
        horizon=1.75,
        horizon_for=3,
        predicted_bits=-0.5,
    )
)
LABELS = encode_labels(Labels("g", "g/1", DAY, NODES, np.array([0, 0, 1]), source="s"))
EVENTS = encode_events(
    CommunityEvents(
        graph="g",
        snapshot_id="g/1",
        window=DAY,
        model="as@5b1f09c2",
        nodes=NODES,
        communities=np.array([7, 7, 4]),
        events=(
            CommunityEvent("merged", 4, 1, 1, 3, 0.25, (4, 5)),
            CommunityEvent("born", 7, 0, 2, 0, name="mostly RU, UA"),
        ),
        next_community=8,
        model_before="as@00000000",
        revision="3f9c1a2b4d5e",
        snapshot_place="0@7",
    )
)
MESSAGES: dict[str, tuple[Message, Callable[..., Any], type[BadInput]]] = {
    "snapshot": (SNAPSHOT, decode_snapshot, BadSnapshot),
    "communities": (COMMUNITIES, decode_communities, BadCommunities),
    "labels": (LABELS, decode_labels, BadCommunities),
    "events": (EVENTS, decode_events, BadEvents),
}
"""A message of each kind about a window, its decoder and the error if it breaks the contract."""

ALERT = Alert(
    group="stream-icd-alert",
    graph="as733",
    snapshot_id="as733/1999-04-02",
    window_start=DAY.start,
    window_end=DAY.end,
    model="as@1",
    event="merged",
    community=12,
    size=60,
    size_before=40,
    confirmed=3,
    rules=("merged and bits >= 20",),
    text="community 3 (20 nodes) joined community 12 (31 bits)",
    bits=31.4,
    parents=(12, 3),
)


GATE = Gate(
    "as@00000000",
    "as@5b1f09c2",
    DAY.start,
    DAY.end,
    windows=10,
    passed=True,
    reason="better",
    figures=(Figure("NMI, %", 70, 71, 0.5, 1.5),),
)
ANNOUNCEMENT = Announcement(
    "promoted",
    "s3://bucket/models",
    "better",
    "retrain",
    DAY.end,
    version=GATE.challenger,
    champion=GATE.challenger,
    generation=3,
    gate=GATE,
)
KNOWN = ("a/b", "7018", "east")
MEMBER = MemberRow("a/b", 7018, 4, DAY.start, DAY.end, "a/b/1", 0.97, "RU, UA")
STATE = MemoryState("detect", "as733", "as733/1", DAY, "as@5b1f09c2", "3f9c1a2b4d5e", "0@7", b"x")
EVERY_MESSAGE: dict[str, tuple[Message, Callable[..., Any], type[BadInput]]] = {
    **MESSAGES,
    "memory": (encode_state(STATE), decode_state, BadMemory),
    "announcement": (encode_announcement(ANNOUNCEMENT), decode_announcement, BadAnnouncement),
    "alert": (encode_alert(ALERT), decode_alert, BadAlert),
    "known": (encode_known(*KNOWN, DAY.end, "noc"), decode_known, BadKnown),
    "member": (encode_member(MEMBER, "a/b/1@m@1#7"), decode_member, BadMember),
}


def decoded(message: Message, decode: Callable[..., Any], **changed: object) -> Any:
    """What a decoder reads in a message of which some parts were changed."""
    parts = {"key": message.key, "value": message.value, "headers": message.headers}
    return decode(**(parts | changed))


def with_header(headers: Headers, name: str, value: str | bytes | None) -> Headers:
    """The headers with another value of one of them; None: without it."""
    new = value.encode() if isinstance(value, str) else value
    changed = ((own, new if own == name else old) for own, old in headers)
    return tuple((own, content) for own, content in changed if content is not None)
