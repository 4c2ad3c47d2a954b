"""Detection on a stream: the memory of a graph's last window improves the result for the next.

A pure function from a window and the memory before it to communities and the memory after it.
The rules for each case:

- *The first window, or one unrelated to the last*: detected without memory; all ids are new.
- *A gap*: each missing window multiplies the weight of the memory by η.
- *New nodes*: they have no memory; their edges alone decide their communities.
- *Absent nodes*: remembered, with a factor η for each window, until less than `FORGOTTEN` is left.
- *K given*: exactly K communities result; ids go to those that hold most of the nodes.
- *A window that is not after the last one*: detected with the present memory, which stays
  unchanged.
- *A different model*: continues with the memory, which does not depend on the model.
- *Node ids of a different type*: these are different nodes; the graph starts again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.bp.recalled import NO_ID, Identified, Recalled, nothing_recalled, tidy
from stream_icd.bp.remember import find_remembering
from stream_icd.memory import Memory
from stream_icd.registry.model import Model
from stream_icd.snapshot import Snapshot, Window

FORGOTTEN = 0.25
"""An absent node is forgotten when its beliefs add up to less than this."""

LONGEST_STAY = 0.98
"""Upper limit of η for absent nodes, so that each is forgotten eventually."""


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """Communities of one window, and the memory after it.

    Attributes:
        communities: community of each node, `(n,)` int32, in 0..K-1.
        community_ids: the stable id of each community, `(K,)` int64.
        memory: memory for the graph's next window.
        n_continued: number of communities that continue one of the last window.
        milliseconds: how long detection took.
    """

    communities: NDArray[np.int32]
    community_ids: NDArray[np.int64]
    memory: Memory
    n_continued: int
    milliseconds: float


def detect_remembering(
    snapshot: Snapshot,
    model: Model,
    memory: Memory | None = None,
    n_communities: int | None = None,
    *,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> Remembered:
    """Find the communities of a window, with the memory of the same graph's last window.

    The result depends only on the arguments. Without memory, or if the model's `stay` is 0, the
    communities are those of `detection.detect`.

    Args:
        memory: None for the first window.
        n_communities: K, or None to determine it.

    Raises:
        BadInput: the graph cannot be used.
        BadSettings: K is not from 1 to n.
    """
    started = clock()
    recalled = recall(memory, snapshot.nodes, snapshot.window, model.bp.stay)
    found = find_remembering(snapshot.adjacency(), model.bp, recalled, n_communities, seed=seed)
    remembered = remember(memory, snapshot.nodes, snapshot.window, found)
    return Remembered(
        found.labels,
        found.community_ids,
        remembered,
        found.n_continued,
        1000 * (clock() - started),
    )


def recall(memory: Memory | None, nodes: pa.Array, window: Window, stay: float) -> Recalled:
    """Return what the memory holds about these nodes in this window.

    stay: η to use with a memory of a single window.
    """
    if memory is None:
        return nothing_recalled(len(nodes))
    place = _places(nodes, memory.nodes)
    known = place >= 0
    recalled = nothing_recalled(len(nodes), memory.next_id)
    recalled.ids[known] = memory.communities[place[known]]
    kept = _kept_a_window(memory.stay or stay) ** missed_windows(memory.window, window)
    recalled.shares[known] = memory.beliefs[place[known]] * np.float32(kept)
    return replace(recalled, mixing=memory.mixing, stay=memory.stay, believed=memory.believed)


def remember(memory: Memory | None, nodes: pa.Array, window: Window, found: Identified) -> Memory:
    """Return the memory after a window with these communities."""
    believed = found.believed
    if memory is not None and window.end <= memory.window.end:
        return memory
    new = Memory(
        window=window,
        nodes=nodes,
        communities=believed.ids,
        beliefs=believed.shares,
        mixing=believed.mixing,
        stay=believed.stay,
        next_id=believed.next_id,
        believed=believed.believed,
    )
    if memory is None or memory.nodes.type != nodes.type:
        return new
    return _with_absent(new, memory, found)


def missed_windows(last: Window, window: Window) -> int:
    """Return how many windows of the length of `window` lie between `last` and `window`."""
    length = window.end - window.start
    return max(round((window.start - last.end) / length), 0) if length else 0


def _kept_a_window(stay: float) -> float:
    return min(stay, LONGEST_STAY)


def _places(nodes: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Return the position of each node in `among`; -1 if absent."""
    import pyarrow.compute as pc

    if nodes.type != among.type:
        return np.full(len(nodes), -1)
    found = pc.index_in(nodes, value_set=among)
    places: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return places


def _with_absent(new: Memory, old: Memory, found: Identified) -> Memory:
    """Return `new` with the absent nodes of `old` that are not forgotten yet."""
    import pyarrow.compute as pc

    kept = _kept_a_window(new.stay) ** (1 + missed_windows(old.window, new.window))
    beliefs = old.beliefs * np.float32(kept)
    away = (_places(old.nodes, new.nodes) < 0) & (beliefs.sum(axis=1) >= FORGOTTEN)
    if not away.any():
        return new
    communities = _replaced(old.communities[away], found)
    lost = communities[:, 0] == NO_ID
    away[away], communities, beliefs = ~lost, communities[~lost], beliefs[away][~lost]
    communities, beliefs = tidy(communities, beliefs)
    nodes = pa.concat_arrays([new.nodes, old.nodes.filter(pa.array(away))])
    order = pc.sort_indices(nodes).to_numpy()
    return replace(
        new,
        nodes=nodes.take(pa.array(order)),
        communities=np.concatenate([new.communities, communities])[order],
        beliefs=np.concatenate([new.beliefs, beliefs])[order],
    )


def _replaced(ids: NDArray[np.int64], found: Identified) -> NDArray[np.int64]:
    """Return the ids after the window, `NO_ID` for communities that were forgotten."""
    if not len(found.replaced):
        return ids.copy()
    before, after = found.replaced.T
    place = np.minimum(np.searchsorted(before, ids), len(before) - 1)
    now: NDArray[np.int64] = np.where(before[place] == ids, after[place], ids)
    return now
