"""Whatever fails around detectors, readers see all that was sent, once, in order within a graph."""

from __future__ import annotations

import pytest

from tests.faults.kept import assert_kept
from tests.testbed.faults.ground import Ground
from tests.testbed.faults.scenarios import SURROUNDINGS, Scenario

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("scenario", SURROUNDINGS, ids=lambda scenario: scenario.fault)
def test_what_was_sent_is_seen_once_and_in_order(ground: Ground, scenario: Scenario) -> None:
    assert_kept(ground, scenario)
