"""The grounds of all scenarios: a Kafka of their own, since it is killed, paused and cut off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.brokers import or_skip
from tests.testbed.faults.ground import QUICK_WAITS, Ground, open_cluster_ground, open_ground
from tests.testbed.starting import start_forked


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Shared by all; every scenario begins with empty topics."""
    folder = tmp_path_factory.mktemp("faults")
    with or_skip(open_ground(folder, QUICK_WAITS, start_forked)) as opened:
        yield opened


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Ground]:
    """Three brokers, which notice sooner than others that one of them is lost."""
    quick = {"broker_session_timeout_ms": "2000", "broker_heartbeat_interval_ms": "500"}
    with or_skip(open_cluster_ground(tmp_path, QUICK_WAITS, start_forked, **quick)) as opened:
        yield opened
