"""What a detector reads from goes away, and comes back: the broker, or the network to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.testbed.faults.ground import Ground
from tests.testbed.faults.play import Outcome, Play
from tests.testbed.faults.proxy import Proxy


def outage(ground: Ground, away: Callable[[Ground], None], **settings: object) -> Outcome:
    """A detector is at work, and snapshots are sent, while `away` takes something away."""
    with Play(ground) as play:
        play.detector(**settings)
        with play.sending(80, every_s=0.04):
            play.wait_seen(10)
            away(ground)
            play.healed()
        play.wait_seen()
        return play.outcome()


def cut(ground: Ground, by: Callable[[Proxy], AbstractContextManager[None]]) -> Outcome:
    """The network fails for so long that the group has moved on; producers and readers have
    another."""

    def away(ground: Ground) -> None:
        assert ground.proxy is not None
        with by(ground.proxy):
            time.sleep(ground.outage_s)

    return outage(ground, away, bootstrap_servers=ground.proxied)


def killed(ground: Ground) -> None:
    """The broker is killed with -9, and started again on the same data."""
    ground.node.kill()
    ground.node.start()


def stopped(ground: Ground) -> None:
    """The broker is stopped in order, and started again."""
    ground.node.stop()
    ground.node.start()


def paused(ground: Ground, seconds: float = 20.0) -> None:
    """The broker neither answers nor hangs up (SIGSTOP)."""
    with ground.node.paused():
        time.sleep(seconds)
