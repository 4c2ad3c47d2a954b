"""Of a cluster, two brokers are lost in turn; readers see all, once, in order in a graph."""

from __future__ import annotations

import pytest

from tests.testbed.faults.ground import Ground
from tests.testbed.faults.play import Play

pytestmark = pytest.mark.kafka


def test_one_broker_after_the_other_may_be_lost(cluster: Ground) -> None:
    """Whatever it led or coordinated; a detector that starts meanwhile finds the others."""
    with Play(cluster) as play:
        play.detector()
        with play.sending(60, every_s=0.1):
            play.wait_seen(20)
            cluster.node.kill()
            play.detector()
            play.wait_seen(30)
            cluster.node.start()
            play.wait_seen(40)
            cluster.others[0].kill()
            play.detector()
            play.wait_seen(50)
            play.healed()
        play.wait_seen()
        outcome = play.outcome()
    assert outcome.exactly_once, outcome
