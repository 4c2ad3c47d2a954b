"""Detectors are killed, come and go, take long, and are asked to end."""

from __future__ import annotations

import os
import signal

from tests.testbed.brokers import wait_until
from tests.testbed.faults.ground import Ground
from tests.testbed.faults.injected import Fault
from tests.testbed.faults.play import Outcome, Play, Program

KILLED = -signal.SIGKILL
SHUTDOWN_S = 10.0
Options = tuple[str, ...]


def at_crash_point(
    ground: Ground, crash_point: str, options: Options = (), **settings: object
) -> Outcome:
    """It kills itself while it publishes its third batch; then another one is started."""
    with Play(ground) as play:
        play.send(40)
        first = play.detector(*options, fault=Fault(crash_point, batch=3), **settings)
        assert first.wait(60) == KILLED, play.log(first)
        return play.recovered(*options, **settings)


def mid_snapshot(ground: Ground, options: Options = ()) -> Outcome:
    """It is killed while it works on one; then another one is started."""
    with Play(ground) as play:
        play.send(40)
        first = play.detector(*options, fault=play.long("g1/7", 60))
        play.in_hand()
        first.kill()
        first.wait()
        return play.recovered(*options)


def worker_process(ground: Ground) -> Outcome:
    """Of a detector with several processes, the one that works on a snapshot; it goes on."""
    with Play(ground) as play:
        play.send(40)
        detector = play.detector("--processes", "2", fault=play.long("g1/7", 60))
        worker = play.in_hand()
        assert worker != detector.pid
        os.kill(worker, signal.SIGKILL)
        play.healed()
        return play.outcome()


def come_and_go(ground: Ground) -> Outcome:
    """Three over six partitions: they join one by one, one leaves, one is killed mid-snapshot."""
    with Play(ground, graphs=12) as play:
        first = play.detector()
        play.send(60)
        play.wait_seen(20)
        second = play.detector(fault=play.long("*/[2-9]?", 60))  # of those that are sent last
        joined(play, second)
        third = play.detector()
        with play.sending(180, every_s=0.03):
            joined(play, third)
            end(first, play)
        play.send_until_in_hand()
        with play.sending(60, every_s=0.03):
            second.kill()
            second.wait()
            play.healed()
        return play.outcome()


def joined(play: Play, program: Program) -> None:
    wait_until(lambda: "assigned: icd" in play.log(program))


def end(program: Program, play: Play) -> None:
    """SIGTERM, after which it must end soon and in order."""
    program.send_signal(signal.SIGTERM)
    assert program.wait(SHUTDOWN_S) == 0, play.log(program)


def long_work(ground: Ground) -> Outcome:
    """A snapshot takes longer than the session and the poll interval, beside an idle detector.

    Both outlast a standstill of the machine, in which a detector loses its place and rightly so.
    """
    with Play(ground) as play:
        limits = {"max_poll_interval_s": 12, "session_timeout_s": 12}
        slow = play.detector(fault=play.long("g1/3", 15), **limits)
        joined(play, slow)
        play.send(20)
        play.healed()
        play.wait_seen()
        assert "moved on" not in play.log(slow)
        return play.outcome()


def asked_to_end(ground: Ground, seconds: float) -> Outcome:
    """SIGTERM while a snapshot is in hand that takes so long; then another one is started."""
    with Play(ground) as play:
        play.send(20)
        first = play.detector(fault=play.long("g1/3", seconds))
        play.in_hand()
        play.healed()
        end(first, play)
        play.stopped_with = "0"
        play.detector()
        return play.outcome()


def asked_twice(ground: Ground) -> Outcome:
    """SIGTERM, and another: it ends at once, as if it was killed; after one it would still work.

    It works on the very first batch: one that was begun ahead, while the batch before was still
    delivered, would be given back after the first signal.
    """
    with Play(ground) as play:
        play.send(20)
        first = play.detector(fault=play.long("*/0", 60), shutdown_timeout_s=60)
        play.in_hand()
        first.send_signal(signal.SIGTERM)
        play.asked()
        first.send_signal(signal.SIGTERM)
        play.stopped_with = str(first.wait(30))
        return play.recovered()
