"""The network between the detector and the broker fails; producers and readers have another."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.testbed.faults.ground import Ground
from tests.testbed.faults.outcome import Outcome
from tests.testbed.faults.play import Play
from tests.testbed.faults.proxy import Proxy

CutBy = Callable[[Proxy], AbstractContextManager[None]]


def cut(ground: Ground, by: CutBy) -> Outcome:
    """For so long that the group has moved on."""
    with Play(ground) as play:
        play.detector(bootstrap_servers=ground.proxied)
        with play.sending(80, every_s=0.04):
            play.wait_seen(10)
            assert ground.proxy is not None
            with by(ground.proxy):
                time.sleep(ground.outage_s)
            play.healed()
        play.wait_seen()
        return play.outcome()
