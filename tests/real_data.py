"""Where the real data sets are that some tests read; without them these tests are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("STREAM_ICD_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def real_data(name: str) -> Path:
    """The file of that name; skips the test where it is absent."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{path} is absent: set STREAM_ICD_TEST_DATA to a folder that holds {name}")
    return path
