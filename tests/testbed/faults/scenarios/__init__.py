"""All that can go wrong, as functions from a ground to an outcome; tests and docs use the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.testbed.faults.ground import Ground
from tests.testbed.faults.play import Outcome
from tests.testbed.faults.proxy import Proxy
from tests.testbed.faults.scenarios import detectors
from tests.testbed.faults.scenarios.surroundings import (
    clocks_backwards,
    cut,
    disk_full,
    killed,
    offsets_gone,
    outage,
    paused,
    stopped,
    the_same_twice,
    topic_deleted,
)

TWO_PROCESSES = ("--processes", "2")
AT_LEAST_ONCE = ("--delivery", "at-least-once")


@dataclass(frozen=True)
class Scenario:
    """What goes wrong, and what is to come of it.

    Attributes:
        fault: in the words of the table in docs/measured/faults.md.
        play: does it.
        stops_with: exit status and error with which the program is to stop, if it is to.
        may_repeat: the promise is at least once only.
    """

    fault: str
    play: Callable[[Ground], Outcome]
    stops_with: str = ""
    may_repeat: bool = False

    def is_kept(self, outcome: Outcome) -> bool:
        """Whether what was promised is what happened."""
        is_seen = outcome.at_least_once if self.may_repeat else outcome.exactly_once
        return is_seen and outcome.stopped_with == self.stops_with


def _kill(when: str, *options: str, **promise: bool) -> Scenario:
    shown = f", `{' '.join(options)}`" if options else ""
    play = partial(detectors.at_crash_point, crash_point=when, options=options)
    return Scenario(f"detector killed (-9) {when.split(',')[0]}{shown}", play, **promise)


KILLS = (
    _kill("before send"),
    _kill("after send"),
    _kill("before commit"),
    Scenario(
        "the same, restarted under the same name (`STREAM_ICD_INSTANCE_ID`)",
        partial(detectors.at_crash_point, crash_point="before commit", instance_id="detector-1"),
    ),
    _kill("before commit", *TWO_PROCESSES),
    _kill("before commit, at least once", *AT_LEAST_ONCE, may_repeat=True),
    Scenario("detector killed (-9) mid-snapshot", detectors.mid_snapshot),
    Scenario(
        "detector killed (-9) mid-snapshot, `--processes 2`",
        partial(detectors.mid_snapshot, options=TWO_PROCESSES),
    ),
    Scenario("one of two worker processes killed (-9) mid-snapshot", detectors.worker_process),
)
"""Detectors, or their processes, are killed."""

SURROUNDINGS = (
    Scenario("broker killed (-9) and restarted", partial(outage, away=killed)),
    Scenario("broker shut down and restarted", partial(outage, away=stopped)),
    Scenario("broker paused for 20 s (SIGSTOP)", partial(outage, away=paused)),
    Scenario("network refuses connections", partial(cut, by=Proxy.refusing)),
    Scenario("network delays everything", partial(cut, by=Proxy.holding)),
    Scenario("network loses connections (half open)", partial(cut, by=Proxy.losing)),
    Scenario("snapshots topic deleted and created again", topic_deleted, "78 TopicMissing"),
    Scenario("committed offset removed by retention", offsets_gone, "78 OffsetGone"),
    Scenario("disk full while archiving", disk_full, "75 StoreUnwritable"),
    Scenario("two producers send the same snapshots", the_same_twice),
    Scenario("clocks go backwards, one hour per second", clocks_backwards),
)
"""Something else than a detector fails: broker, network, topics, disk, producers, clocks."""

GROUPS = (
    Scenario(
        "three detectors: one joins, one leaves, one is killed (-9) mid-snapshot",
        detectors.come_and_go,
    ),
    Scenario("a snapshot takes longer than `max_poll_interval_s`", detectors.long_work),
    Scenario(
        "SIGTERM during a snapshot that takes 2 s", partial(detectors.asked_to_end, seconds=2), "0"
    ),
    Scenario(
        "SIGTERM during a snapshot that takes 60 s",
        partial(detectors.asked_to_end, seconds=60),
        "0",
    ),
    Scenario("a second SIGTERM", detectors.asked_twice, "143"),
)
"""Detectors come and go, take long, and are asked to end."""

SCENARIOS = (*KILLS, *SURROUNDINGS, *GROUPS)
