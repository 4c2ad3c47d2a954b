"""A snapshot too big for a message, through the programs that users start."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.big_snapshot import PROGRAMS, measure
from tests.testbed.brokers import Broker

INLINE = 128 * 1024


@pytest.mark.brokers("kafka")
@pytest.mark.timeout(280)
def test_a_big_snapshot_comes_through_and_memory_stays_bounded(
    broker: Broker, tmp_path: Path
) -> None:
    run = measure(broker.bootstrap_servers, 300_000, tmp_path, INLINE)
    assert (run.n_nodes, run.n_edges) == (60_000, 300_576)
    assert run.nmi > 0.94
    assert min(run.object_bytes) > INLINE
    assert len(run.object_bytes) == 2  # the snapshot, and its communities
    assert run.inline_bytes == (0, 0)
    assert run.moved_on == 0
    assert set(run.peak_mib) == set(PROGRAMS)
    # Most of that is Python and its libraries; bytes a pair are what a larger graph multiplies.
    assert max(run.peak_mib.values()) < 450
