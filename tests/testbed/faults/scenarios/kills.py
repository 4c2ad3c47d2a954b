"""A detector is killed with -9."""

from __future__ import annotations

import os
import signal

from tests.testbed.faults.ground import Ground
from tests.testbed.faults.injected import Fault
from tests.testbed.faults.outcome import Outcome
from tests.testbed.faults.play import Play

KILLED = -signal.SIGKILL
Options = tuple[str, ...]


def at_crash_point(
    ground: Ground, crash_point: str, options: Options = (), **settings: object
) -> Outcome:
    """It kills itself while it publishes its third batch; then another one is started."""
    with Play(ground) as play:
        play.send(40)
        first = play.detector(*options, fault=Fault(crash_point, batch=3), **settings)
        assert first.wait(60) == KILLED, play.log(first)
        play.healed()
        play.detector(*options, **settings)
        play.wait_seen()
        return play.outcome()


def mid_snapshot(ground: Ground, options: Options = ()) -> Outcome:
    """It is killed while it works on one; then another one is started."""
    with Play(ground) as play:
        play.send(40)
        first = play.detector(*options, fault=play.long("g1/7", 60))
        play.in_hand()
        first.kill()
        first.wait()
        play.healed()
        play.detector(*options)
        play.wait_seen()
        return play.outcome()


def worker_process(ground: Ground) -> Outcome:
    """Of a detector with several processes, the one that works on a snapshot; it goes on."""
    with Play(ground) as play:
        play.send(40)
        detector = play.detector("--processes", "2", fault=play.long("g1/7", 60))
        worker = play.in_hand()
        assert worker != detector.pid
        os.kill(worker, signal.SIGKILL)
        play.healed()
        play.wait_seen()
        return play.outcome()
