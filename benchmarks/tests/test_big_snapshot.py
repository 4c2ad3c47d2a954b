"""A snapshot too big for a message, through the programs that users start."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.big_snapshot import PROGRAMS, measure
from testbed.brokers import Broker

INLINE = 128 * 1024


@pytest.mark.brokers("kafka")
@pytest.mark.timeout(280)
def test_a_big_snapshot_comes_through_and_memory_stays_bounded(
    broker: Broker, tmp_path: Path
) -> None:
    found = measure(broker.bootstrap_servers, 300_000, tmp_path, INLINE)
    assert (found.n_nodes, found.n_edges) == (60_000, 300_576)
    assert found.nmi > 0.94
    assert min(found.object_bytes) > INLINE
    assert len(found.object_bytes) == 2  # the snapshot, and its communities
    assert found.inline_bytes == (0, 0)
    assert found.moved_on == 0
    assert set(found.peak_mib) == set(PROGRAMS)
    # Most of that is Python and its libraries; bytes a pair are what a larger graph multiplies.
    assert max(found.peak_mib.values()) < 450
