"""The memory after a window: beliefs about its nodes, and about absent ones for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from stream_icd.bp.recalled import NO_ID, Identified, Ids, Recalled, tidy
from stream_icd.memory.bounds import cut, room_for
from stream_icd.memory.memory import NO_COMMUNITY, Memory
from stream_icd.memory.recall import kept_a_window, missed_windows
from stream_icd.node_ids import common_type, places
from stream_icd.snapshot import Window

FORGOTTEN = 0.25
"""An absent node is forgotten when its beliefs add up to less than this."""


def remember(memory: Memory | None, nodes: pa.Array, window: Window, found: Identified) -> Memory:
    """Return the memory after a window with these communities."""
    if memory is not None and window.end <= memory.window.end:
        return memory
    new = memory_of(nodes, window, found.believed)
    if memory is None:
        return new
    kept = kept_a_window(new.stay) ** (1 + missed_windows(memory.window, window))
    both = with_absent(new, memory, kept, lambda ids: _replaced(ids, found))
    return cut(both, room_for(len(nodes), memory.n_nodes))


def memory_of(nodes: pa.Array, window: Window, believed: Recalled) -> Memory:
    """Return beliefs about the nodes of a window as a memory."""
    return Memory(
        window=window,
        nodes=nodes,
        communities=believed.ids,
        beliefs=believed.shares,
        mixing=believed.mixing,
        stay=believed.stay,
        next_id=believed.next_id,
        believed=believed.believed,
        pull=believed.pull,
        rival=believed.rival,
        n_present=len(nodes),
    )


def with_absent(
    new: Memory,
    old: Memory,
    kept: float,
    replaced: Callable[[Ids], Ids] = lambda ids: ids,
) -> Memory:
    """Return `new` with the nodes of `old` that it lacks, unless they are forgotten.

    They are if no type holds the ids of both, such as numbers and texts.

    kept: factor of their beliefs, in 0..1.
    replaced: returns ids for the ids of `old`, `NO_ID` for communities that were forgotten.
    """
    import pyarrow.compute as pc

    kind = common_type(old.nodes, new.nodes)
    if kind is None or old.nodes.equals(new.nodes):
        return new
    beliefs = old.beliefs * np.float32(kept)
    away = (places(old.nodes, new.nodes) < 0) & (beliefs.sum(axis=1) >= FORGOTTEN)
    if not away.any():
        return new
    communities = replaced(old.communities[away])
    lost = communities[:, 0] == NO_ID
    away[away], communities, beliefs = ~lost, communities[~lost], beliefs[away][~lost]
    communities, beliefs = tidy(communities, beliefs)
    gone = old.nodes.filter(pa.array(away))
    nodes = pa.concat_arrays([new.nodes.cast(kind), gone.cast(kind)])
    order = pc.sort_indices(nodes).to_numpy()
    rival = new.rival
    if rival is not None:
        rival = np.append(rival, np.full(away.sum(), NO_COMMUNITY, np.int32))[order]
    return replace(
        new,
        rival=rival,
        nodes=nodes.take(pa.array(order)),
        communities=np.concatenate([new.communities, communities])[order],
        beliefs=np.concatenate([new.beliefs, beliefs])[order],
    )


def _replaced(ids: Ids, found: Identified) -> Ids:
    """Return the ids after the window, `NO_ID` for communities that were forgotten."""
    if not len(found.replaced):
        return ids.copy()
    before, after = found.replaced.T
    place = np.minimum(np.searchsorted(before, ids), len(before) - 1)
    now: Ids = np.where(before[place] == ids, after[place], ids)
    return now
