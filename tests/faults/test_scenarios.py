"""Whatever fails, readers see all that was sent, once, in order within a graph.

The scenarios are the rows of the table in docs/measured/faults.md, which
`benchmarks.guarantees` makes. They have a Kafka of their own, since it is killed, paused and cut
off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.brokers import or_skip
from tests.testbed.faults.ground import (
    QUICK_WAITS,
    CannotPlay,
    Ground,
    open_cluster_ground,
    open_ground,
)
from tests.testbed.faults.play import Play
from tests.testbed.faults.scenarios import SCENARIOS, Scenario
from tests.testbed.starting import start_forked

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Shared by all; every scenario begins with empty topics."""
    folder = tmp_path_factory.mktemp("faults")
    with or_skip(open_ground(folder, QUICK_WAITS, start_forked)) as opened:
        yield opened


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.fault)
def test_what_was_sent_is_seen_once_and_in_order(ground: Ground, scenario: Scenario) -> None:
    try:
        outcome = scenario.play(ground)
    except CannotPlay as why:
        pytest.skip(str(why))
    assert scenario.is_kept(outcome), outcome


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Ground]:
    """Three brokers, which notice sooner than others that one of them is lost."""
    quick = {"broker_session_timeout_ms": "2000", "broker_heartbeat_interval_ms": "500"}
    with or_skip(open_cluster_ground(tmp_path, QUICK_WAITS, start_forked, **quick)) as opened:
        yield opened


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
        outcome = play.outcome()
    assert outcome.exactly_once, outcome
