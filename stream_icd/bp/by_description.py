"""Choose between modularity and belief propagation for an unknown graph.

Modularity never fails by much, but joins communities that have few links for the size of the graph
(its resolution limit: Fortunato and Barthélemy, "Resolution limit in community detection", 2007).
Belief propagation finds them in a graph that follows the planted model. On others, such as the
topology of the Internet, it can put nearly all nodes into one community. So its partition is taken
instead of that of modularity only if it

- describes the graph in fewer bits: `BITS_FOR_MODULARITY` fewer for each unit of modularity lost;
- has as many communities or more, and each additional one costs few links: then modularity joined
  communities because of its resolution limit, not because they have many links.

Belief propagation starts with communities of about `scale` nodes or fewer. Afterwards they are
merged while this shortens the description (`shorter_description`). It takes several times as long
as modularity, so it is left out if a few sweeps of likely moves (`likely_moves`), which take
little time, show that the planted model does not explain the graph.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stream_icd.bp.described import Described, described
from stream_icd.bp.exact_k import exactly
from stream_icd.bp.found import Found, most_believed
from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.likely_moves import move_to_likeliest
from stream_icd.bp.multilevel import maximise_modularity
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.shorter_description import merge_to_shorter_description

BITS_FOR_MODULARITY = 5.0
"""Bits per edge that one unit of modularity is worth. On validation graphs of the planted model,
belief propagation saves 5 (communities of 3 to 40 nodes) to 100 bits for each unit it loses; on
real graphs without such structure mostly 0 to 5."""

LINKS_LOST = 10.0
"""Links that each additional community may cost: modularity lost, times the number of edges. On
validation graphs of the planted model it is 0 to 4, on taxis linked to their neighbours 240."""

FINEST_START = 4.0
"""Minimum resolution of the start, as a multiple of the resolution of modularity: small graphs can
have small communities too."""

MORE_SWEEPS = 3
"""Sweeps of likely moves after the first one."""

STILL_MOVING = 0.03
"""Fraction of nodes that move in the last of these sweeps if belief propagation may still improve
much. On validation graphs that it improves, 0.03 to 0.15; on most other real graphs, less."""

IMPROVED = 0.75
"""Fraction of the distance to modularity that is left after these sweeps if belief propagation will
improve on them. Otherwise `EARLY_SWEEPS` of belief propagation must improve."""

EARLY_SWEEPS = 2
"""Sweeps of belief propagation after which it must have improved; on the Internet it has not."""

STRONG = 0.5
"""Maximum mixing at which likely moves can show that the planted model does not explain a graph.
Above, the communities are too weak for these moves to find."""

WEAK, COARSER = 0.7, 3.0
"""From this mixing on, the start is coarser by this factor: small pieces of weak communities are
mostly chance."""

NEARLY, NEARLY_LOST = 0.1, 30.0
"""Bits per edge, and links per additional community, by which a start may be worse than
modularity: belief propagation improves it by more."""

FEW_ROUNDS = 12
"""Rounds of merging: pieces of communities need 3 to 12. On the Internet, where all communities
join one hub, it would take 100."""

UNFINISHED, MANY_MORE = 0.005, 1.5
"""Modularity that further iterations may add to the first one. A partition that is better even
then, and has this many times as many communities, is taken without these iterations."""


def found_by_description(
    graph: LevelGraph,
    parameters: BpParameters,
    n_communities: int | None,
    start: Labels | None,
    rng: np.random.Generator,
) -> Found:
    """The better of the two partitions; with exactly K communities if K is given.

    If modularity finds K communities or more, its communities are merged (`exactly`): a smaller K
    is no reason to look for smaller communities.
    """
    own = rng.spawn(1)[0]  # so that the result of modularity does not depend on these draws
    resolution = _start_resolution(graph, parameters)
    labels = maximise_modularity(graph, parameters.resolution, rng, start)
    first, fine = described(graph, labels), None
    if n_communities is None or n_communities > first.n_communities:
        fine = _believed(graph, parameters, resolution, start, first, own)
    if fine is not None and n_communities is None:
        fine = _merged(graph, fine)
    if fine is not None and _is_better_in_the_end(fine, first):
        return _exactly(graph, Found(fine.labels, resolution, True), n_communities, rng)
    if parameters.iterations > 1:
        further = parameters.iterations - 1
        labels = maximise_modularity(graph, parameters.resolution, rng, labels, further)
    plain = _exactly(graph, Found(labels, parameters.resolution, False), n_communities, rng)
    if fine is None:
        return plain
    believed = _exactly(graph, Found(fine.labels, resolution, True), n_communities, rng)
    one, other = described(graph, believed.labels), described(graph, plain.labels)
    better = _is_better(one, other) if n_communities is None else _cost(one) < _cost(other)
    return believed if better else plain


def _exactly(
    graph: LevelGraph, found: Found, n_communities: int | None, rng: np.random.Generator
) -> Found:
    return found if n_communities is None else exactly(graph, found, n_communities, rng)


def _start_resolution(graph: LevelGraph, parameters: BpParameters) -> float:
    assert parameters.scale is not None
    n_linked = int(np.count_nonzero(np.diff(graph.indptr)))
    return max(n_linked / parameters.scale, FINEST_START * parameters.resolution)


def _believed(
    graph: LevelGraph,
    parameters: BpParameters,
    resolution: float,
    start: Labels | None,
    plain: Described,
    rng: np.random.Generator,
) -> Described | None:
    """The partition of belief propagation; None if it will not be better than modularity's."""
    assert parameters.mixing is not None
    pieces = maximise_modularity(graph, resolution, rng, start)
    once = move_to_likeliest(graph, pieces, parameters.mixing, 1)
    settled = move_to_likeliest(graph, once.labels, once.mixing, MORE_SWEEPS)
    if settled.moving > STILL_MOVING and settled.mixing > WEAK:
        pieces = maximise_modularity(graph, resolution / COARSER, rng, start)
        settled = move_to_likeliest(graph, pieces, settled.mixing, 1 + MORE_SWEEPS)
    own = replace(parameters, mixing=settled.mixing)
    before = described(graph, settled.labels)
    if settled.mixing <= STRONG and settled.moving <= STILL_MOVING:
        near = _near(graph, before, plain)
    elif settled.mixing <= STRONG:
        near = _improving(graph, described(graph, once.labels), before, own, plain)
    else:
        near = before
    if near is None:
        return None
    return described(graph, most_believed(graph, near.labels, own, None, own.sweeps))


def _near(graph: LevelGraph, settled: Described, plain: Described) -> Described | None:
    """The partition, or what it becomes by merging; None if both are far from modularity's."""
    if _is_nearly_better(settled, plain):
        return settled
    labels = merge_to_shorter_description(graph, settled.labels, FEW_ROUNDS, cautious=True)
    merged = described(graph, labels)
    return merged if _is_nearly_better(merged, plain) else None


def _improving(
    graph: LevelGraph, once: Described, settled: Described, own: BpParameters, plain: Described
) -> Described | None:
    """The partition, perhaps after `EARLY_SWEEPS`; None if these do not improve on it."""
    if _cost(settled) - _cost(plain) <= IMPROVED * (_cost(once) - _cost(plain)):
        return settled
    early = described(graph, most_believed(graph, settled.labels, own, None, EARLY_SWEEPS))
    return early if _cost(early) < _cost(settled) else None


def _merged(graph: LevelGraph, fine: Described) -> Described:
    labels = merge_to_shorter_description(graph, fine.labels, cautious=True)
    return min(described(graph, labels), fine, key=_cost)


def _cost(partition: Described) -> float:
    return partition.bits - BITS_FOR_MODULARITY * partition.modularity


def _more_and_lost(fine: Described, plain: Described) -> tuple[int, float]:
    """The number of additional communities, and the links that they cost."""
    lost = (plain.modularity - fine.modularity) * fine.n_edges
    return fine.n_communities - plain.n_communities, lost


def _is_better(fine: Described, plain: Described) -> bool:
    more, lost = _more_and_lost(fine, plain)
    return _cost(fine) < _cost(plain) and more >= 0 and lost <= LINKS_LOST * more


def _is_nearly_better(fine: Described, plain: Described) -> bool:
    more, lost = _more_and_lost(fine, plain)
    return _cost(fine) < _cost(plain) + NEARLY and lost <= NEARLY_LOST * max(more, 1)


def _is_better_in_the_end(fine: Described, first: Described) -> bool:
    """Whether it stays better than modularity, given modularity's first iteration.

    If the communities of that iteration save no bits, further iterations only fit chance.
    """
    if first.bits > 0:
        return _is_better(fine, first)
    many_more = fine.n_communities >= MANY_MORE * first.n_communities
    at_best = first._replace(modularity=first.modularity + UNFINISHED)
    return many_more and _is_better(fine, at_best)
