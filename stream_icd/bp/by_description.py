"""Choose the resolution for an unknown graph by description length.

Two partitions are computed. The first maximises modularity. It joins small communities, but never
fails by much. The second comes from belief propagation that starts with communities of about
`scale` nodes; communities are merged while this shortens the description
(`shorter_description`). The second is far better on graphs that follow the planted model. On
others, such as the topology of the Internet, it can put nearly all nodes into one community. So the
second is chosen only if it describes the graph in fewer bits and keeps most of the modularity.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from stream_icd.bp.found import Found, found_by_model, most_believed
from stream_icd.bp.level_graph import Labels, LevelGraph, coarsen, compact
from stream_icd.bp.multilevel import maximise_modularity
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.shorter_description import merge_to_shorter_description
from stream_icd.quality.description_length import description_length
from stream_icd.quality.modularity import modularity

MODULARITY_KEPT = 0.9
"""Fraction of the first partition's modularity that the second one must keep. On validation graphs
of the planted model it keeps 0.94 or more, on topologies of the Internet 0.8 or less."""

SWEEPS_AFTER = 3
"""Sweeps of belief propagation after communities were merged."""

QUICK_ITERATIONS = 3
"""Iterations of modularity on the pieces of the fine partition, for the comparison."""


def found_by_description(
    graph: LevelGraph,
    parameters: BpParameters,
    n_communities: int | None,
    start: Labels | None,
    rng: np.random.Generator,
) -> Found:
    """The better of the two partitions above.

    If K is given, nothing is merged here: `exact_k` does that.
    """
    assert parameters.scale is not None
    n_linked = int(np.count_nonzero(np.diff(graph.indptr)))
    finer = max(n_linked / parameters.scale, parameters.resolution)
    own = rng.spawn(1)[0]  # so that the result of modularity does not depend on earlier draws
    pieces = maximise_modularity(graph, finer, own, start)
    fine = most_believed(graph, pieces, parameters, n_communities, parameters.sweeps)
    plain = _quick_modularity(graph, pieces, parameters.resolution, own)
    adjacency = csr_array((graph.weights, graph.indices, graph.indptr), (graph.n_nodes,) * 2)
    if n_communities is None:
        fine = _merged(graph, adjacency, fine, parameters)
    if _is_better(adjacency, fine, plain):
        return Found(fine, finer, believed=True)
    without_model = BpParameters(parameters.resolution, iterations=parameters.iterations)
    return found_by_model(graph, without_model, n_communities, start, rng)


def _quick_modularity(
    graph: LevelGraph, pieces: Labels, resolution: float, rng: np.random.Generator
) -> Labels:
    """Join pieces to communities of high modularity; fast."""
    coarse = coarsen(graph, pieces, int(pieces.max()) + 1)
    joined: Labels = maximise_modularity(coarse, resolution, rng, iterations=QUICK_ITERATIONS)
    return joined[pieces]


def _merged(
    graph: LevelGraph, adjacency: csr_array, believed: Labels, parameters: BpParameters
) -> Labels:
    """Merge by description length; return the input if the merged communities save no bits."""
    believed, n_believed = compact(believed)
    merged = merge_to_shorter_description(graph, believed)
    if int(merged.max()) + 1 == n_believed:
        return believed
    again = most_believed(graph, merged, parameters, None, SWEEPS_AFTER)
    merged = merge_to_shorter_description(graph, compact(again)[0])
    return merged if description_length(adjacency, merged) < 0 else believed


def _is_better(adjacency: csr_array, fine: Labels, plain: Labels) -> bool:
    if description_length(adjacency, fine) > description_length(adjacency, plain):
        return False
    return modularity(adjacency, fine) >= MODULARITY_KEPT * modularity(adjacency, plain)
