"""The broker goes away, and comes back."""

from __future__ import annotations

import time

from tests.testbed.faults.ground import Ground
from tests.testbed.faults.outcome import Outcome
from tests.testbed.faults.play import Play


def killed(ground: Ground) -> Outcome:
    """kill -9, and started again on the same data."""
    with Play(ground) as play:
        play.detector()
        with play.sending(80, every_s=0.04):
            play.wait_seen(10)
            ground.node.kill()
            ground.node.start()
            play.healed()
        play.wait_seen()
        return play.outcome()


def stopped(ground: Ground) -> Outcome:
    """Stopped in order, and started again."""
    with Play(ground) as play:
        play.detector()
        with play.sending(80, every_s=0.04):
            play.wait_seen(10)
            ground.node.stop()
            ground.node.start()
            play.healed()
        play.wait_seen()
        return play.outcome()


def paused(ground: Ground, seconds: float = 20.0) -> Outcome:
    """It neither answers nor hangs up (SIGSTOP)."""
    with Play(ground) as play:
        play.detector()
        with play.sending(80, every_s=0.04):
            play.wait_seen(10)
            with ground.node.paused():
                time.sleep(seconds)
            play.healed()
        play.wait_seen()
        return play.outcome()
