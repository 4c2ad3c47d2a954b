"""The levels of communities as a table, with the columns of graspologic's hierarchical Leiden."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.arrays import Labels
from stream_icd.core.node_ids import id_array
from stream_icd.methods.bp.level_graph import compact
from stream_icd.methods.bp.levels import Levels


def hierarchy_table(nodes: NDArray[Any], labels: Labels, levels: Levels) -> pa.Table:
    """Return a row for each node and each level, the coarsest first.

    The columns are `node`; `cluster` (int32), numbered over all levels, where 0..K-1 are the
    communities of `labels`; `parent_cluster` (int32), null on level 0; `level` (int32), from 0;
    and `is_final`, whether it is the last level of this node: a community that is not divided has
    no rows on the next levels.

    nodes: names, `(n,)`; as text if they are not all integers or all texts. labels: `(n,)`.
    """
    of_level, n_clusters = [labels], int(labels.max(initial=-1)) + 1
    for into in levels.above:
        of_level.insert(0, into[of_level[0]])
    for number in range(len(levels.above)):
        of_level[number] = of_level[number] + n_clusters
        n_clusters = int(of_level[number].max()) + 1
    last = np.full(len(labels), len(levels.above))
    for number, level in enumerate(levels.below, start=len(levels.above) + 1):
        divided = _is_divided(level, of_level[-1])
        following = of_level[-1].copy()
        following[divided] = compact(level[divided])[0] + n_clusters
        last[divided], n_clusters = number, int(following.max()) + 1
        of_level.append(following)
    return _table(nodes, of_level, last)


def _is_divided(level: Labels, before: Labels) -> NDArray[np.bool_]:
    """Return whether the community before of each node is several on this level, `(n,)`."""
    of_a_node = np.zeros(int(before.max(initial=-1)) + 1, np.int32)
    of_a_node[before] = level  # of any of its nodes
    several = np.zeros(len(of_a_node), np.bool_)
    several[before[level != of_a_node[before]]] = True
    divided: NDArray[np.bool_] = several[before]
    return divided


def _table(nodes: NDArray[Any], levels: list[Labels], last: NDArray[np.int64]) -> pa.Table:
    try:
        ids = id_array(nodes)
    except pa.ArrowException:  # such as tuples, or integers and texts
        ids = pa.array(list(map(str, nodes.tolist())))
    rows = []
    for number, level in enumerate(levels):
        at = np.flatnonzero(last >= number)
        first = np.full(len(at), number == 0)
        columns = {
            "node": ids.take(pa.array(at)),
            "cluster": pa.array(level[at], pa.int32()),
            "parent_cluster": pa.array(levels[max(number - 1, 0)][at], pa.int32(), mask=first),
            "level": pa.array(np.full(len(at), number), pa.int32()),
            "is_final": pa.array(last[at] == number),
        }
        rows.append(pa.table(columns))
    return pa.concat_tables(rows).combine_chunks()
