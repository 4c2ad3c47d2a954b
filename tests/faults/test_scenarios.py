"""Whatever fails, readers see all that was sent, once, in order within a graph.

The scenarios are the rows of the table in docs/measured/faults.md, which
`benchmarks.guarantees` makes.
"""

from __future__ import annotations

import pytest

from tests.testbed.faults.ground import CannotPlay, Ground
from tests.testbed.faults.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.fault)
def test_what_was_sent_is_seen_once_and_in_order(ground: Ground, scenario: Scenario) -> None:
    try:
        outcome = scenario.play(ground)
    except CannotPlay as why:
        pytest.skip(str(why))
    assert scenario.is_kept(outcome), outcome
