"""All encoders, by their name in a recipe."""

from __future__ import annotations

from stream_icd.errors import BadSettings
from stream_icd.icd.encoder.contract import Encoder
from stream_icd.icd.encoder.gcn import Gcn
from stream_icd.icd.encoder.hops import Hops
from stream_icd.icd.encoder.on_torch import Gat, Gin
from stream_icd.icd.recipe import EncoderSettings

ENCODERS: dict[str, type[Encoder]] = {"gcn": Gcn, "gat": Gat, "gin": Gin, "hops": Hops}
"""Every encoder; a contract test runs on each."""


def encoder(settings: EncoderSettings) -> Encoder:
    """The encoder of these settings.

    Raises:
        BadSettings: no encoder has the name `settings.kind`.
    """
    if settings.kind not in ENCODERS:
        names = ", ".join(sorted(ENCODERS))
        raise BadSettings(f"no encoder {settings.kind!r}: choose from {names}")
    return ENCODERS[settings.kind](settings)
