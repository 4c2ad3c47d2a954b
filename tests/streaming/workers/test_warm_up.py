"""A process that is ready has compiled all that detection needs."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from numba.core.dispatcher import Dispatcher

from stream_icd.core.snapshot import Window, snapshot_from_pairs
from stream_icd.kafka.messages.records import Outcome, Processed
from stream_icd.kafka.record import Record
from stream_icd.methods.bp.known import Known
from stream_icd.methods.model import Method
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import Relay
from tests.streaming.workers.remembered import records as read

DAY = Window(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


def kernels() -> dict[str, int]:
    """For how many types each loop is compiled in this process."""
    return {
        f"{name}.{var.__name__}": len(var.signatures)  # type: ignore[attr-defined]
        for name, module in list(sys.modules.items())
        if name.startswith("stream_icd")
        for var in vars(module).values()
        if isinstance(var, Dispatcher)
    }


@dataclass(frozen=True, slots=True)
class Compiling(RecordDetection):
    """Tells what was compiled before a snapshot, and what for it."""

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        before = kernels()
        RecordDetection.__call__(self, record, relay)
        new = [name for name, count in kernels().items() if count > before.get(name, 0)]
        return Processed("compiled", {"new": new, "before": sum(before.values())})


def records() -> list[Record]:
    """A graph with weights and without, with K given and to be found out; and a small one.

    Then windows of a graph, each with nodes that the one before did not have.
    """
    graph = generate_lfr(np.random.default_rng(0), LfrSettings(1000))
    weights = np.random.default_rng(0).random(graph.edges.shape[1])
    snapshots = [
        snapshot_from_pairs(
            *graph.edges, graph="g", id="g/0", window=DAY, weights=weight, n_communities=k
        )
        for weight in (None, weights)
        for k in (None, 20, 200)
    ]
    ring = np.arange(20)
    small = snapshot_from_pairs(ring, (ring + 1) % 20, graph="small", id="small/0", window=DAY)
    later = []
    for day, n_nodes in enumerate((700, 800, 1000)):
        edges = graph.edges[:, graph.edges.max(axis=0) < n_nodes]
        window = Window(DAY.start + day * timedelta(1), DAY.end + day * timedelta(1))
        one = snapshot_from_pairs(*edges, graph="later", id=f"later/{day}", window=window)
        later.append(one)
    return read([*snapshots, small, *later])


@pytest.mark.parametrize(
    ("model", "method", "memory", "more"),
    [
        ("lfr", "bp", "off", False),
        ("lfr", "icd", "off", True),
        ("default", "bp", "off", False),
        ("default", "bp", "auto", False),
        ("default", "bp", "auto", True),
    ],
)
def test_nothing_is_compiled_for_the_first_snapshots(
    model: str, method: Method, memory: Literal["auto", "off"], *, more: bool
) -> None:
    """With `more`, the communities of some nodes are known, and levels are wanted."""
    known = Known(pa.array([1, 2, 8, 15]), np.array([0, 0, 1, 1], np.int32), fixed=False)
    settings = DetectSettings(
        method=method,
        memory=memory,
        threads=1,
        levels=more,
        known=dict.fromkeys(("g", "small", "later"), known) if more else {},
    )
    work = Compiling(open_model(model), settings)
    with Processes(work, model, 1) as engine:
        engine.wait_until_warm(threading.Event())
        outcomes = [outcome for _, outcome in engine(records())]
    facts = [outcome.facts for outcome in outcomes if isinstance(outcome, Processed)]
    assert [fact["new"] for fact in facts] == [[]] * 10
    assert int(str(facts[0]["before"])) > 0
