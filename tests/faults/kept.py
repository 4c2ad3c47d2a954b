"""Whether the promise of a scenario is kept.

The scenarios are the rows of the table in docs/measured/faults.md, which `benchmarks.guarantees`
makes. Their tests are in two files, so that two processes share them.
"""

from __future__ import annotations

import pytest

from tests.testbed.faults.ground import CannotPlay, Ground
from tests.testbed.faults.scenarios import Scenario


def assert_kept(ground: Ground, scenario: Scenario) -> None:
    """Play it, or skip it where it cannot be played."""
    try:
        outcome = scenario.play(ground)
    except CannotPlay as why:
        pytest.skip(str(why))
    assert scenario.is_kept(outcome), outcome
