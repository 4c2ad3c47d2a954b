"""Labels in hindsight: communities of past windows, found with the windows before and after each.

A single window shows its communities less well than a stream does, and what is known later says
more of the windows before. So windows without labels get better ones than they had when they came,
and the encoder learns from these to see in one window what otherwise takes several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from stream_icd.core.arrays import Labels
from stream_icd.learning.training.yardstick import DEFAULT
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.registry.find import open_model


def in_hindsight(windows: Sequence[LabelledGraph], seed: int = 0) -> list[Labels | None]:
    """The communities of each window, `(n,)`; None if the evidence for them is not strong.

    The shipped model `default` finds them, so that what a champion believes is not taught to the
    next one.

    Args:
        windows: with moments; those of a graph in time order. Their labels are not used.
    """
    found = list[Labels | None]([None] * len(windows))
    for run in _runs(windows):
        snapshots = [windows[place].snapshot() for place in run]
        ks = [snapshot.n_communities for snapshot in snapshots]
        model = open_model(DEFAULT).model
        smoothed = detect_smoothed(snapshots, model, n_communities=ks, seed=seed)
        for place, remembered in zip(run, smoothed, strict=True):
            labels = remembered.communities
            if evidence_for(windows[place].adjacency, labels).strength == "strong":
                found[place] = labels
    return found


def _runs(windows: Sequence[LabelledGraph]) -> Iterator[list[int]]:
    """The places of the windows of each graph, each after the one before; if not, another run."""
    runs = dict[str, list[int]]()
    for place, window in enumerate(windows):
        assert window.moment is not None
        if not window.adjacency.nnz:
            continue
        run = runs.setdefault(window.moment.graph, [])
        if run and _end(windows[run[-1]]) >= window.moment.window.end:
            yield runs.pop(window.moment.graph)
            run = runs.setdefault(window.moment.graph, [])
        run.append(place)
    yield from runs.values()


def _end(window: LabelledGraph) -> datetime:
    assert window.moment is not None
    return window.moment.window.end
