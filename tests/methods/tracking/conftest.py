"""Windows of communities, and what a tracker says of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from tests.testbed.windows import follow, window


@pytest.fixture(name="window")
def _window() -> Callable[..., Communities]:
    return window


@pytest.fixture(name="follow")
def _follow() -> Callable[..., list[CommunityEvents]]:
    return follow
