"""The ground of all scenarios: one Kafka of its own, since it is killed, paused and cut off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed import brokers
from testbed.faults.ground import QUICK_WAITS, Ground, open_ground


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Shared by all; every scenario begins with empty topics."""
    try:
        with open_ground(tmp_path_factory.mktemp("faults"), QUICK_WAITS) as opened:
            yield opened
    except brokers.NoKafka as error:
        if brokers.kafka_is_required():
            pytest.fail(str(error))
        pytest.skip(str(error))
