"""The grounds of all scenarios: a Kafka of their own, since it is killed, paused and cut off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.testbed import brokers
from tests.testbed.faults.ground import QUICK_WAITS, Ground, open_cluster_ground, open_ground
from tests.testbed.starting import start_forked


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Shared by all; every scenario begins with empty topics."""
    yield from _opened(open_ground(tmp_path_factory.mktemp("faults"), QUICK_WAITS, start_forked))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Ground]:
    """Three brokers, which notice sooner than others that one of them is lost."""
    quick = {"broker_session_timeout_ms": "2000", "broker_heartbeat_interval_ms": "500"}
    yield from _opened(open_cluster_ground(tmp_path, QUICK_WAITS, start_forked, **quick))


def _opened(ground: AbstractContextManager[Ground]) -> Iterator[Ground]:
    try:
        with ground as opened:
            yield opened
    except brokers.NoKafka as error:
        if brokers.kafka_is_required():
            pytest.fail(str(error))
        pytest.skip(str(error))
