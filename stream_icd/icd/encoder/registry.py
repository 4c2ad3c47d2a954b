"""All encoders, by their name in a recipe."""

from __future__ import annotations

from stream_icd.errors import BadSettings
from stream_icd.icd.encoder.contract import Encoder
from stream_icd.icd.encoder.gcn import Gcn
from stream_icd.icd.encoder.hops import Hops
from stream_icd.icd.encoder.on_torch import Gat, Gin

ENCODERS: dict[str, Encoder] = {"gcn": Gcn(), "gat": Gat(), "gin": Gin(), "hops": Hops()}
"""Every encoder; a contract test runs on each."""


def encoder(kind: str) -> Encoder:
    """The encoder of that name.

    Raises:
        BadSettings: no such encoder.
    """
    if kind not in ENCODERS:
        raise BadSettings(f"no encoder {kind!r}: choose from {', '.join(sorted(ENCODERS))}")
    return ENCODERS[kind]
