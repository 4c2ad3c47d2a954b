"""Whether two results are the same."""

from __future__ import annotations

import hashlib

from stream_icd.wire.message import Message

VARYING = ("icd_detected_at", "icd_ms_", "icd_snapshot_place")
"""Headers of a result about when, how fast and from where it was computed, not its content."""


def fingerprint(result: Message) -> str:
    """The SHA-256 of a result: graph, snapshot, window, model, quality, nodes, communities."""
    digest = hashlib.sha256(result.key + b"\0" + result.value)
    for name, value in result.headers:
        if not name.startswith(VARYING):
            digest.update(b"\0" + name.encode() + b"\0" + value)
    return digest.hexdigest()
