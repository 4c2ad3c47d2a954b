"""Detection on a stream: the memory of a graph's last window improves the result for the next.

A pure function from a window and the memory before it to communities and the memory after it.
The rules for each case:

- *The first window, or one unrelated to the last*: detected without memory; all ids are new.
- *A gap*: each missing window multiplies the weight of the memory by η.
- *New nodes*: they have no memory; their edges alone decide their communities.
- *Absent nodes*: remembered, with a factor η for each window, until less than
  `remember.FORGOTTEN` is left.
- *K given*: exactly K communities result; ids go to those that hold most of the nodes.
- *A window that is not after the last one*: detected with the present memory, which stays
  unchanged.
- *A window that lacks most of the last one's nodes* (`damage`): the same, and no id ends.
- *A different model*: continues with the memory, which does not depend on the model.
- *Numbers, then texts, as node ids*: these are different nodes; the graph starts again. Of the
  integer types, every width is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.remember import find_remembering
from stream_icd.memory.damage import is_damaged
from stream_icd.memory.memory import Memory
from stream_icd.memory.recall import recall
from stream_icd.memory.remember import remember
from stream_icd.registry.model import Model
from stream_icd.snapshot import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Remembered:
    """Communities of one window, and the memory after it.

    Attributes:
        communities: community of each node, `(n,)` int32, in 0..K-1.
        community_ids: the stable id of each community, `(K,)` int64.
        replaced: remembered ids that ended; see `Communities.replaced`.
        memory: memory for the graph's next window.
        n_continued: number of communities that continue one of the last window.
        milliseconds: how long detection took.
        damaged: whether the window lacks most of its nodes, and is not remembered (`damage`).
    """

    communities: NDArray[np.int32]
    community_ids: NDArray[np.int64]
    replaced: NDArray[np.int64]
    memory: Memory
    n_continued: int
    milliseconds: float
    damaged: bool = False


def detect_remembering(
    snapshot: Snapshot,
    model: Model,
    memory: Memory | None = None,
    n_communities: int | None = None,
    *,
    seed: int = 0,
    adjacency: csr_array | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Remembered:
    """Find the communities of a window, with the memory of the same graph's last window.

    The result depends only on the arguments. Without memory, or if the model's `stay` is 0, the
    communities are those of `detection.detect`.

    Args:
        memory: None for the first window.
        n_communities: K, or None to determine it.
        adjacency: that of the snapshot, if it was computed before.

    Raises:
        BadInput: the graph cannot be used.
        BadSettings: K is not from 1 to n.
    """
    started = clock()
    recalled = recall(memory, snapshot.nodes, snapshot.window, model.bp.stay)
    graph = snapshot.adjacency() if adjacency is None else adjacency
    found = find_remembering(graph, model.bp, recalled, n_communities, seed=seed)
    damaged = is_damaged(memory, snapshot.nodes, snapshot.window)
    if memory is not None and damaged:
        remembered = replace(memory, next_id=found.believed.next_id)
    else:
        remembered = remember(memory, snapshot.nodes, snapshot.window, found)
    return Remembered(
        found.labels,
        found.community_ids,
        found.replaced[:0] if damaged else found.replaced,
        remembered,
        found.n_continued,
        1000 * (clock() - started),
        damaged,
    )
