"""Learn because somebody asks for it."""

from __future__ import annotations

from stream_icd.retraining.triggers.due import Due


def by_command(*, asked: bool) -> Due:
    """Due if it was asked for."""
    return Due(asked, "asked by command" if asked else "not asked by command")
