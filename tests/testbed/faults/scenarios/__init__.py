"""All that can go wrong, as functions from a ground to an outcome; tests and docs use the same."""

from __future__ import annotations

from tests.testbed.faults.play import Scenario as Scenario
from tests.testbed.faults.scenarios.detectors import GROUPS, KILLS
from tests.testbed.faults.scenarios.surroundings import SURROUNDINGS

SCENARIOS = (*KILLS, *SURROUNDINGS, *GROUPS)
