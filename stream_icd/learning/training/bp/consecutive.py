"""Consecutive windows of one graph: who stays in a community, and which edges are new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Labels
from stream_icd.core.node_ids import common_type, places
from stream_icd.core.times import missed_windows
from stream_icd.methods.bp.level_graph import LevelGraph, finest_level
from stream_icd.methods.bp.likelihood import nats_saved
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.quality.agreement import accuracy

_MOST_WINDOWS = 5
"""Maximum number of windows to learn from with memory; more hardly change the parameters."""

UNRELATED = 0.1
"""A stay probability below this counts as 0: such windows are no use to each other."""


def newest_run(graphs: Sequence[LabelledGraph]) -> list[LabelledGraph]:
    """The last consecutive windows of one graph, in order, at most `_MOST_WINDOWS`.

    Windows that overlap share edges, and are not consecutive. Of several graphs, the one with most
    such windows; of equal ones, the first by name. Graphs without a moment are ignored.
    """
    by_graph = defaultdict(list)
    for graph in graphs:
        if graph.moment is not None:
            by_graph[graph.moment.graph].append(graph)
    runs = [_run(by_graph[name]) for name in sorted(by_graph)]
    return max(runs, key=len, default=[])


def _run(graphs: list[LabelledGraph]) -> list[LabelledGraph]:
    ordered = sorted(graphs, key=lambda one: _moment(one).window.end)
    run = ordered[-1:]
    for graph in reversed(ordered[:-1]):
        earlier, later = _moment(graph), _moment(run[0])
        if (
            len(run) == _MOST_WINDOWS
            or later.window.start < earlier.window.end
            or missed_windows(earlier.window, later.window)
            or common_type(earlier.nodes, later.nodes) is None
        ):
            break
        run.insert(0, graph)
    return run


def stay_of_labels(windows: Sequence[LabelledGraph]) -> float | None:
    """Mean share of the nodes that stay in their known community, beyond chance; 0 if unrelated.

    Communities may be numbered anew in each window: they are matched so that most nodes stay.
    Chance is the share that stays if the nodes exchange labels. None if no node is labelled in two
    consecutive windows that both have it.

    windows: consecutive, with moments and labels; at least two.
    """
    each = [_stay(graph, other) for graph, other in pairwise(windows)]
    known = [stay for stay in each if stay is not None]
    if not known:
        return None
    stay = float(np.mean(known))
    return stay if stay >= UNRELATED else 0.0


def _stay(graph: LabelledGraph, other: LabelledGraph) -> float | None:
    assert graph.labels is not None
    assert other.labels is not None
    place = places(_moment(other).nodes, _moment(graph).nodes)
    if not (place >= 0).any():
        return 0.0
    before, after = graph.labels[place[place >= 0]], other.labels[place >= 0]
    known = (before >= 0) & (after >= 0)
    if not known.any():
        return None
    before, after = before[known], after[known]
    stayed = accuracy(before, after)
    by_chance = accuracy(np.random.default_rng(0).permutation(before), after)
    return max((stayed - by_chance) / max(1 - by_chance, 1e-9), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedWindow:
    """A window, prepared once for all parameters that are tried on it.

    `unseen` has the edges that the window before lacks, which judge the communities found before,
    or all edges if it lacks none.
    """

    adjacency: csr_array
    comparable: csr_array  # with comparable weights, as in `graph`
    graph: LevelGraph
    unseen: LevelGraph
    moment: Moment


def prepare(window: LabelledGraph, before: PreparedWindow | None) -> PreparedWindow:
    """Prepare a window that has a moment; `before` is the same graph's window before it, if any."""
    rescaled, moment = comparable(window.adjacency), _moment(window)
    graph = finest_level(rescaled)
    unseen = graph
    if before is not None:
        unseen = finest_level(_without(rescaled, moment, before))
        unseen = unseen if unseen.total else graph
    return PreparedWindow(window.adjacency, rescaled, graph, unseen, moment)


def _without(adjacency: csr_array, moment: Moment, before: PreparedWindow) -> csr_array:
    """The adjacency without the edges of the window before."""
    place = places(moment.nodes, before.moment.nodes)
    both = np.flatnonzero(place >= 0)
    old = before.comparable[place[both]][:, place[both]].tocoo()
    n_nodes = adjacency.shape[0]
    known = both[old.row] * n_nodes + both[old.col]
    entries = adjacency.tocoo()
    new = ~np.isin(entries.row.astype(np.int64) * n_nodes + entries.col, known)
    unseen = csr_array(
        (entries.data[new], (entries.row[new], entries.col[new])), shape=adjacency.shape
    )
    unseen.sort_indices()
    return unseen


def nats_saved_by(nodes: pa.Array, labels: Labels, window: PreparedWindow) -> tuple[float, float]:
    """Nats that communities of the window before save on the unseen edges, and their weight."""
    place = places(window.moment.nodes, nodes)
    before = np.append(labels, NOBODY)[place]  # [-1] for new nodes
    return nats_saved(window.graph, before.astype(np.int32), window.unseen)


def _moment(graph: LabelledGraph) -> Moment:
    assert graph.moment is not None
    return graph.moment
