"""What a failure does to a stream, and how long it takes until results come again.

    python -m benchmarks.guarantees
    python -m benchmarks.guarantees --only network --rounds 1

Plays the scenarios of tests/testbed/faults on Apache Kafka, as the tests do, but with the settings
that programs have when nobody sets any. Writes the table in docs/measured/faults.md, unless only
some were played; the exit status is 1 when a promise was not kept.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from statistics import median

from benchmarks.shared.machine import BY_CLOCK, Machine
from benchmarks.shared.pages.sections import write_section
from tests.testbed.faults.ground import Ground, open_ground
from tests.testbed.faults.play import Outcome
from tests.testbed.faults.scenarios import SCENARIOS, Scenario

PRODUCTION: Mapping[str, float] = {}


def played(scenario: Scenario, ground: Ground, rounds: int) -> list[Outcome]:
    outcomes = [scenario.play(ground) for _ in range(rounds)]
    for outcome in outcomes:
        print(row(scenario, [outcome]), "" if scenario.is_kept(outcome) else "NOT KEPT", flush=True)
    return outcomes


def row(scenario: Scenario, outcomes: Sequence[Outcome]) -> str:
    """A line of the table; counts are of the last round."""
    last = outcomes[-1]
    following = seconds([outcome.next_after_s for outcome in outcomes])
    everything = seconds([outcome.all_after_s for outcome in outcomes])
    cells = scenario.fault, sent(last), seen(last), following, everything, last.stopped_with
    return " | ".join(cells).strip()


def sent(outcome: Outcome) -> str:
    gone = len(outcome.removed)
    return f"{len(outcome.sent)}" + (
        f", {gone} of them removed before they were read" if gone else ""
    )


def seen(outcome: Outcome) -> str:
    repeated = f", {outcome.repeated} of them twice" if outcome.repeated else ", once"
    return f"{len(set(outcome.seen))}{repeated}"


def seconds(values: Sequence[float]) -> str:
    known = [value for value in values if not isnan(value)]
    return f"{median(known):.1f}" if known else "-"


def section(found: Mapping[Scenario, Sequence[Outcome]], rounds: int, stamp: str) -> str:
    """The table, and how it was made."""
    rows = [row(scenario, outcomes) for scenario, outcomes in found.items()]
    return "\n".join(
        (
            "fault | snapshots sent | results seen | seconds to the next result | seconds to all "
            "results | program ended with",
            "--- | --- | --- | --- | --- | ---",
            *rows,
            "",
            f"Written by `python -m benchmarks.guarantees`. Seconds are medians of {rounds} "
            "rounds. All settings have their",
            "defaults. Everything runs on one machine.",
            stamp,
            "",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="faults whose names hold this")
    options, machine = parser.parse_args(), Machine(BY_CLOCK)
    chosen = [scenario for scenario in SCENARIOS if options.only in scenario.fault]
    with tempfile.TemporaryDirectory() as folder, open_ground(Path(folder), PRODUCTION) as ground:
        found = {scenario: played(scenario, ground, options.rounds) for scenario in chosen}
    if not options.only:
        text = section(found, options.rounds, machine.stamp())
        write_section("measured/faults.md", "guarantees.py", text)
    kept = all(scenario.is_kept(outcome) for scenario, many in found.items() for outcome in many)
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
