"""Find the communities of one window of a stream, with memory of the window before.

`find_communities` uses one graph only. Here the beliefs of the last window are the prior of this
one: local moves start with ghosts, belief propagation with the remembered beliefs
(`belief_propagation`). Then communities merge and split if the current edges support it. With
modularity, only ghosts are used, as strongly as the graph allows (`pull`). A community without
evidence in the current graph is forgotten (`breaks`). If the whole graph has broken with its past,
the result equals that of `find_communities`, to the byte. What the last window could not decide,
the edges of this one do: which remembered communities are several (`finer`), and whether modularity
or beliefs know more of a graph that says little (`rivals`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.belief_propagation import (
    Believed,
    Model,
    Recollection,
    believe,
    certainly,
    nothing_remembered,
)
from stream_icd.bp.believed_exactly import believed_exactly
from stream_icd.bp.births import born_communities
from stream_icd.bp.breaks import living_communities, mixing_beyond_chance
from stream_icd.bp.find import found_exactly
from stream_icd.bp.finer import finer_communities
from stream_icd.bp.found import Found, found_by_model
from stream_icd.bp.ghosts import move_with_ghosts
from stream_icd.bp.level_graph import Labels, LevelGraph, compact, finest_level
from stream_icd.bp.merges import merged_communities
from stream_icd.bp.mixing import MIXING_RANGE
from stream_icd.bp.naming import NOBODY, names_by_most, renamed, successors
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.parted import parted_communities
from stream_icd.bp.pull import first_pull, next_pull
from stream_icd.bp.recalled import NO_ID, Identified, Ids, Recalled, tidy
from stream_icd.bp.rivals import is_weak, rival_wins
from stream_icd.bp.splits import split_communities
from stream_icd.graphs.n_communities import check_n_communities
from stream_icd.graphs.weights import comparable

NODES_PER_RESOLUTION = 250.0
"""With beliefs, new communities are looked for at the resolution n divided by this, where the model
holds none."""

ANY_MIXING = 0.3
"""Initial mixing where the model holds none; each window corrects it."""

GHOST_WEIGHT = 1.0
"""Weight of a ghost's edges with belief propagation, in mean edge weights."""


class _Remembered(NamedTuple):
    """The remembered communities that continue, 0..len(ids)-1; nodes may have none."""

    ids: Ids
    likeliest: Labels  # (n,)
    beliefs: Recollection
    forgotten: Ids


NOTHING = _Remembered(
    np.empty(0, np.int64), np.empty(0, np.int32), nothing_remembered(0), np.empty(0, np.int64)
)
NONE_REPLACED = np.empty((0, 2), np.int64)


def find_remembering(
    adjacency: csr_array,
    parameters: BpParameters,
    recalled: Recalled,
    n_communities: int | None = None,
    seed: int = 0,
    learn_stay: bool = True,
) -> Identified:
    """The communities of a graph and their ids; see `find_communities` for the arguments.

    learn_stay: whether each window corrects η; else it is `parameters.stay` (for comparison).

    If nothing is remembered, or `parameters.stay` is 0, the labels equal those of that function.

    Raises `BadSettings` and `BadInput` as `find_communities` does.
    """
    n_nodes = adjacency.shape[0]
    check_n_communities(n_communities, n_nodes)
    if n_nodes == 0:
        return Identified(np.empty(0, np.int32), np.empty(0, np.int64), recalled, 0, NONE_REPLACED)
    graph = finest_level(comparable(adjacency, parameters.weight_exponent))
    rng = np.random.default_rng(seed)
    remembered = _living(graph, recalled) if parameters.stay else NOTHING
    if not len(remembered.ids):
        found = found_exactly(graph, parameters, n_communities, None, rng)
        believed = _beliefs_about(graph, parameters, found, n_communities)
        return _identified(believed, remembered, recalled.next_id, found.believed)
    kind, pull, rival = _kind(graph, parameters, recalled), recalled.pull, None
    if recalled.rival is not None:
        kind, remembered = _revised(graph, parameters, kind, remembered, recalled)
    if kind.believed:
        stay = (recalled.stay if learn_stay else 0.0) or parameters.stay
        model = Model(_mixing(recalled), kind.size_spread, n_communities or 0)
        believed = _by_beliefs(graph, kind, remembered, model, stay, rng, learn_stay)
        believed, rival = _merged_and_split(graph, kind.resolution, believed, remembered, rng)
    else:
        if parameters.search and recalled.rival is None:
            rival = _rival(graph, parameters, remembered.likeliest, n_communities, rng.spawn(1)[0])
        pull = pull or first_pull(parameters.stay)
        believed = _by_modularity(graph, kind, remembered, pull, rng)
        pull = next_pull(graph, believed.communities[:, 0], kind.resolution, pull, rng)
    if n_communities is not None:
        believed = believed_exactly(
            graph, believed, n_communities, kind.resolution, kind.believed, rng
        )
    now = _identified(believed, remembered, recalled.next_id, kind.believed)
    return replace(now, believed=replace(now.believed, pull=pull, rival=rival))


class _Kind(NamedTuple):
    """The method and resolution for a graph; see `BpParameters`."""

    believed: bool
    resolution: float
    size_spread: float
    iterations: int
    sweeps: int
    stay: float


def _kind(graph: LevelGraph, parameters: BpParameters, recalled: Recalled) -> _Kind:
    """As in the last window if each graph decides for itself, else as the parameters say."""
    if not parameters.search:
        return _kind_of(parameters, parameters.mixing is not None, parameters.resolution)
    if recalled.believed:
        return _kind_by_beliefs(graph, parameters)
    return _kind_of(parameters, False, parameters.resolution)


def _kind_by_beliefs(graph: LevelGraph, parameters: BpParameters) -> _Kind:
    """Belief propagation, for a graph that decides for itself."""
    n_linked = int(np.count_nonzero(np.diff(graph.indptr)))
    return _kind_of(parameters, True, max(n_linked / NODES_PER_RESOLUTION, parameters.resolution))


def _kind_of(parameters: BpParameters, believed: bool, resolution: float) -> _Kind:
    return _Kind(
        believed,
        resolution,
        parameters.size_spread,
        parameters.iterations,
        parameters.sweeps,
        parameters.stay,
    )


def _mixing(recalled: Recalled) -> float:
    return float(np.clip(recalled.mixing, *MIXING_RANGE))


def _rival(
    graph: LevelGraph,
    parameters: BpParameters,
    remembered: Labels,
    n_communities: int | None,
    rng: np.random.Generator,
) -> Labels | None:
    """Communities of this window by beliefs; None if those remembered say much about its edges."""
    if not is_weak(graph, remembered):
        return None
    kind = _kind_by_beliefs(graph, parameters)
    own = replace(parameters, search=False, resolution=kind.resolution, mixing=ANY_MIXING)
    return compact(found_by_model(graph, own, n_communities, None, rng).labels)[0]


def _revised(
    graph: LevelGraph,
    parameters: BpParameters,
    kind: _Kind,
    remembered: _Remembered,
    recalled: Recalled,
) -> tuple[_Kind, _Remembered]:
    """What this window's edges make of the last one's rival, or of the parts that it named."""
    assert recalled.rival is not None
    if kind.believed:
        return kind, _finer(graph, remembered, recalled.rival, recalled.next_id)
    if rival_wins(graph, recalled.rival, remembered.likeliest):
        remembered = _instead(remembered, recalled.rival, recalled.next_id)
        kind = _kind_by_beliefs(graph, parameters)
    return kind, remembered


def _beliefs_about(
    graph: LevelGraph, parameters: BpParameters, found: Found, n_communities: int | None
) -> Believed:
    """Beliefs in communities found without memory; the most probable ones are those found."""
    labels = compact(found.labels)[0]
    k = int(labels.max()) + 1
    beyond_chance = mixing_beyond_chance(graph, labels, k)
    if not found.believed:
        return certainly(labels)._replace(mixing=beyond_chance)
    mixing = parameters.mixing or float(np.clip(beyond_chance, *MIXING_RANGE))
    model = Model(mixing, parameters.size_spread, n_communities or k)
    believed = believe(graph, labels, k, model, parameters.sweeps)
    communities = believed.communities.copy()
    communities[:, 0] = labels
    communities, shares = tidy(communities, believed.shares)
    return believed._replace(communities=communities, shares=shares)


def _living(graph: LevelGraph, recalled: Recalled) -> _Remembered:
    """What is remembered, without communities that have no evidence in the current graph.

    A node whose most probable community is one of those counts as never seen.
    """
    known = recalled.ids >= 0
    ids = np.unique(recalled.ids[known])
    table = np.full(recalled.ids.shape, NOBODY, np.int32)
    table[known] = np.searchsorted(ids, recalled.ids[known])
    mixing = float(np.clip(recalled.mixing, *MIXING_RANGE))
    living = np.append(living_communities(graph, table[:, 0].copy(), len(ids), mixing), False)
    number = np.where(living, np.cumsum(living) - 1, NOBODY).astype(np.int32)  # [-1] is NOBODY's
    table = np.where(living[table[:, :1]], number[table], NOBODY)
    beliefs = Recollection(*tidy(table, recalled.shares))
    kept = living[:-1]
    return _Remembered(ids[kept], beliefs.communities[:, 0].copy(), beliefs, ids[~kept])


def _finer(graph: LevelGraph, remembered: _Remembered, parts: Labels, next_id: int) -> _Remembered:
    """Remember those parts that predict better; they get new ids, from next_id on."""
    n_old = len(remembered.ids)
    likeliest = finer_communities(graph, remembered.likeliest, parts, n_old)
    n_new = int(likeliest.max(initial=-1)) + 1 - n_old
    if n_new <= 0:
        return remembered
    communities = remembered.beliefs.communities.copy()
    communities[:, 0] = likeliest
    ids = np.concatenate([remembered.ids, next_id + np.arange(n_new)])
    beliefs = Recollection(communities, remembered.beliefs.shares)
    return remembered._replace(ids=ids, likeliest=likeliest, beliefs=beliefs)


def _instead(remembered: _Remembered, rival: Labels, next_id: int) -> _Remembered:
    """Remember the rival: its communities continue those that most of their nodes were in.

    Where there is none, they get new ids, from next_id on.
    """
    n_old, n_rivals = len(remembered.ids), int(rival.max()) + 1
    names = names_by_most(rival, remembered.likeliest, n_rivals, n_old)
    new = np.flatnonzero(names == NOBODY)
    names[new] = n_old + np.arange(len(new))
    ids = np.concatenate([remembered.ids, next_id + np.arange(len(new))])
    likeliest = np.append(names, np.int32(NOBODY))[rival]  # [-1] is NOBODY's
    beliefs = nothing_remembered(len(rival))
    beliefs.communities[:, 0], beliefs.shares[:, 0] = likeliest, likeliest >= 0
    return remembered._replace(ids=ids, likeliest=likeliest, beliefs=beliefs)


def _by_modularity(
    graph: LevelGraph,
    kind: _Kind,
    remembered: _Remembered,
    pull: float,
    rng: np.random.Generator,
) -> Believed:
    labels = _with_ghosts(graph, kind, remembered, pull, rng).astype(np.int32)
    n_labels = max(int(labels.max()) + 1, len(remembered.ids))
    mixing = mixing_beyond_chance(graph, labels, n_labels)
    labels = parted_communities(graph, labels, n_labels, kind.resolution, mixing, rng)
    known = (remembered.likeliest >= 0) & (np.diff(graph.indptr) > 0)
    stayed = (labels == remembered.likeliest)[known]
    return certainly(labels)._replace(
        mixing=mixing_beyond_chance(graph, labels, int(labels.max()) + 1),
        stay=float(stayed.mean()) if len(stayed) else kind.stay,
    )


def _with_ghosts(
    graph: LevelGraph,
    kind: _Kind,
    remembered: _Remembered,
    weight: float,
    rng: np.random.Generator,
) -> Labels:
    """Communities found with ghosts: remembered ones keep their numbers, new ones follow."""
    n_remembered = len(remembered.ids)
    labels, continues = move_with_ghosts(
        graph,
        remembered.likeliest,
        n_remembered,
        weight,
        kind.resolution,
        rng,
        kind.iterations,
    )
    new = n_remembered + np.arange(len(continues), dtype=np.int32)
    named: Labels = np.where(continues >= 0, continues, new)[labels]
    return named


def _by_beliefs(
    graph: LevelGraph,
    kind: _Kind,
    remembered: _Remembered,
    model: Model,
    stay: float,
    rng: np.random.Generator,
    learn_stay: bool,
) -> Believed:
    """Run belief propagation; nodes start in their remembered or newly born community."""
    likeliest, n_remembered = remembered.likeliest, len(remembered.ids)
    labels = _with_ghosts(graph, kind, remembered, GHOST_WEIGHT, rng)
    proposed = np.where(labels >= n_remembered, labels - n_remembered, NOBODY).astype(np.int32)
    n_proposed = int(proposed.max()) + 1
    born = born_communities(graph, proposed, n_proposed, likeliest, model.mixing)
    start = np.where(born >= 0, n_remembered + born, np.where(likeliest >= 0, likeliest, labels))
    start, n_start = _new_ones_compact(start.astype(np.int32), n_remembered)
    if not model.n_communities:
        model = model._replace(n_communities=len(np.unique(start)))
    found = believe(graph, start, n_start, model, kind.sweeps, remembered.beliefs, stay, learn_stay)
    idle = (np.diff(graph.indptr) == 0) & (likeliest >= 0)
    found.communities[idle] = remembered.beliefs.communities[idle]
    found.shares[idle] = remembered.beliefs.shares[idle] * np.float32(min(stay, 1.0))
    return found


def _new_ones_compact(labels: Labels, n_remembered: int) -> tuple[Labels, int]:
    """Renumber labels from n_remembered on without gaps; returns them and the next free label."""
    is_new = labels >= n_remembered
    labels = labels.copy()
    new, n_new = compact(labels[is_new])
    labels[is_new] = n_remembered + new
    return labels, n_remembered + n_new


def _merged_and_split(
    graph: LevelGraph,
    resolution: float,
    found: Believed,
    remembered: _Remembered,
    rng: np.random.Generator,
) -> tuple[Believed, Labels]:
    """Merge and split the communities found if the current edges support it; and name parts."""
    n_found = max(int(found.communities.max()) + 1, len(remembered.ids))
    labels = found.communities[:, 0].copy()
    into = merged_communities(
        graph, labels, n_found, remembered.likeliest, len(remembered.ids), found.mixing
    )
    of_belief = np.append(into, np.int32(NO_ID))  # the last for unused places
    communities, shares = tidy(of_belief[found.communities], found.shares)
    # Not `into[labels]`: a merger of two others may have become the likeliest community of a node.
    likeliest = communities[:, 0].copy()
    split = split_communities(graph, likeliest, n_found, resolution, found.mixing, rng)
    communities[:, 0] = split.labels
    return found._replace(communities=communities, shares=shares), split.parts


def _identified(
    found: Believed, remembered: _Remembered, next_id: int, believed: bool
) -> Identified:
    """Replace labels by ids."""
    old_ids, n_remembered = remembered.ids, len(remembered.ids)
    communities = found.communities
    if n_remembered:
        n_labels = max(int(communities.max()) + 1, n_remembered)
        names = renamed(communities[:, 0].copy(), remembered.likeliest, n_remembered, n_labels)
        communities = np.append(names, np.int32(NO_ID))[communities]
    first_id = max(next_id, int(old_ids.max(initial=NO_ID)) + 1)
    table, last_id = _numbered(communities, old_ids, first_id)
    labels, n_found = compact(communities[:, 0].copy())
    community_ids, is_old = np.empty(n_found, np.int64), np.empty(n_found, np.bool_)
    community_ids[labels], is_old[labels] = table[:, 0], communities[:, 0] < n_remembered
    return Identified(
        labels,
        community_ids,
        Recalled(table, found.shares, found.mixing, found.stay, last_id, believed),
        int((is_old & (community_ids < next_id)).sum()),
        _replaced(communities[:, 0].copy(), table[:, 0], remembered),
    )


def _replaced(labels: Labels, ids: Ids, remembered: _Remembered) -> Ids:
    """Remembered ids that ended, and what they are now part of; see `Identified`."""
    merged = NONE_REPLACED
    if len(remembered.ids):
        now = successors(labels, remembered.likeliest, len(remembered.ids))
        id_of_label = np.full(int(labels.max()) + 2, NO_ID, np.int64)  # the last for NOBODY
        id_of_label[labels] = ids
        gone = now != np.arange(len(now))
        merged = np.stack([remembered.ids[gone], id_of_label[now[gone]]], axis=1)
    forgotten = np.stack([remembered.forgotten, np.full(len(remembered.forgotten), NO_ID)], axis=1)
    replaced = np.concatenate([merged, forgotten])
    return replaced[np.argsort(replaced[:, 0])]


def _numbered(communities: NDArray[np.int32], remembered_ids: Ids, next_id: int) -> tuple[Ids, int]:
    """Ids for labels, and the next free id; new ids are given in order of first appearance."""
    n_remembered = len(remembered_ids)
    flat = communities.T.ravel()  # the most probable communities of the nodes first
    used = flat[flat >= n_remembered]
    new, n_new = compact(used)
    table = np.full(flat.shape, NO_ID, np.int64)
    old = (flat >= 0) & (flat < n_remembered)
    table[old] = remembered_ids[flat[old]]
    table[flat >= n_remembered] = next_id + new.astype(np.int64)
    return table.reshape(communities.T.shape).T.copy(), next_id + n_new
