"""What the tests of consumers share."""

from collections.abc import Callable

import pytest


@pytest.fixture
def pipe(make_topic: Callable[..., str]) -> tuple[str, str, str]:
    """A source of three partitions, a target, and a group of their own."""
    source = make_topic(partitions=3)
    return source, make_topic(), f"group-{source}"
