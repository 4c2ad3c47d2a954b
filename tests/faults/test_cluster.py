"""Of a cluster, one broker after the other is lost; readers see all, once, in order in a graph."""

from __future__ import annotations

import pytest

from tests.testbed.faults.ground import Ground
from tests.testbed.faults.play import Play

pytestmark = pytest.mark.kafka


def test_each_broker_of_three_may_be_lost(cluster: Ground) -> None:
    """Whatever it led or coordinated; a detector that starts meanwhile finds the others."""
    with Play(cluster) as play:
        play.detector()
        with play.sending(90, every_s=0.1):
            for count, node in enumerate((cluster.node, *cluster.others), start=1):
                play.wait_seen(20 * count)
                node.kill()
                play.detector()
                play.wait_seen(20 * count + 10)
                node.start()
            play.healed()
        play.wait_seen()
        outcome = play.outcome()
    assert outcome.exactly_once, outcome
