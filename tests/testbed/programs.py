"""Programs that are not Python's, which many tests need: where they are, or how to get them."""

from __future__ import annotations

import os
import shutil

CHROMIUM = os.environ.get("STREAM_ICD_TEST_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PROMTOOL = shutil.which("promtool")


def told_missing(chromium: str | None = CHROMIUM, promtool: str | None = PROMTOOL) -> list[str]:
    """Return a line for each program that is missing: what is skipped, and how to get it."""
    needed = (
        ("Chromium", chromium, "the live page", "apt install chromium"),
        ("promtool", promtool, "alerts for Prometheus", "apt install prometheus"),
    )
    return [
        f"{name} is missing: tests of {what} are skipped; on Debian and Ubuntu, {how}"
        for name, path, what, how in needed
        if path is None
    ]
