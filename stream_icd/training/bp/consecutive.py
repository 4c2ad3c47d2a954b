"""Consecutive windows of one graph, among the graphs to learn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from stream_icd.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.node_ids import common_type, places
from stream_icd.tracking.gaps import missed_windows

MOST_WINDOWS = 5
"""Maximum number of windows to learn from with memory; more hardly change the parameters."""

UNRELATED = 0.1
"""A stay probability below this counts as 0: such windows are no use to each other."""


def newest_run(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    """The last consecutive windows of one graph, in order, at most `MOST_WINDOWS`.

    Windows that overlap share edges, and are not consecutive. Of several graphs, the one with most
    such windows; of equal ones, the first by name. Graphs without a moment are ignored.
    """
    by_graph = defaultdict(list)
    for graph in graphs:
        if graph.moment is not None:
            by_graph[graph.moment.graph].append(graph)
    runs = [_run(by_graph[name]) for name in sorted(by_graph)]
    return max(runs, key=len, default=[])


def stay_of_labels(windows: Sequence[LabelledGraph]) -> float:
    """Mean share of the nodes that stay in their known community, beyond chance; 0 if unrelated.

    Communities may be numbered anew in each window: they are matched so that most nodes stay.
    Chance is the share that stays if the nodes exchange labels.

    windows: consecutive, with moments and labels; at least two.
    """
    stays = [_stay(one, other) for one, other in pairwise(windows)]
    stay = float(np.mean(stays))
    return stay if stay >= UNRELATED else 0.0


def _run(graphs: list[LabelledGraph]) -> list[LabelledGraph]:
    ordered = sorted(graphs, key=lambda one: _moment(one).window.end)
    run = ordered[-1:]
    for graph in reversed(ordered[:-1]):
        earlier, later = _moment(graph), _moment(run[0])
        if (
            len(run) == MOST_WINDOWS
            or later.window.start < earlier.window.end
            or missed_windows(earlier.window, later.window)
            or common_type(earlier.nodes, later.nodes) is None
        ):
            break
        run.insert(0, graph)
    return run


def _stay(one: LabelledGraph, other: LabelledGraph) -> float:
    assert one.labels is not None
    assert other.labels is not None
    place = places(_moment(other).nodes, _moment(one).nodes)
    before, after = one.labels[place[place >= 0]], other.labels[place >= 0]
    if not len(before):
        return 0.0
    stayed = _most_staying(before, after)
    by_chance = _most_staying(np.random.default_rng(0).permutation(before), after)
    return max((stayed - by_chance) / max(1 - by_chance, 1e-9), 0.0)


def _most_staying(before: NDArray[np.int32], after: NDArray[np.int32]) -> float:
    together = np.zeros((before.max() + 1, after.max() + 1))
    np.add.at(together, (before, after), 1)
    return float(together[linear_sum_assignment(-together)].sum() / len(before))


def _moment(graph: LabelledGraph) -> Moment:
    assert graph.moment is not None
    return graph.moment
