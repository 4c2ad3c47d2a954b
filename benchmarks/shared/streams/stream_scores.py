"""How well a method follows a stream whose classes are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_mutual_info_score

from benchmarks.shared.streams.known_streams import KnownWindow
from stream_icd.methods.quality.agreement import nmi, of_known

Labels = NDArray[np.int32]
Measure = Callable[[NDArray[np.int64], Labels], float]

LAST = 3
"""The last windows, when a method knows all that it can know of a stream."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a method found in a window.

    Attributes:
        communities: of each node of the window, `(n_nodes,)`, from 0 on.
        ids: the stable id of each community; None if the method has none.
        milliseconds: of processor time.
        horizon: how many windows it looked back, if the method says so.
    """

    communities: Labels
    ids: NDArray[np.int64] | None
    milliseconds: float
    horizon: float | None = None


@dataclass(frozen=True, slots=True)
class StreamScores:
    """The scores of a method on a stream, in the units of a table: percent, and milliseconds.

    AMI, NMI and churn are means over the windows from the second quarter on, after which a method
    has had time to learn; `ami_last` is of the last three. The others are medians over the same
    windows.

    Attributes:
        windows: AMI of each window.
        classes: number of classes.
    """

    windows: tuple[float, ...]
    ami: float
    ami_last: float
    nmi: float
    churn: float
    communities: float
    classes: float
    milliseconds: float
    horizon: float | None


def scores_of(windows: Sequence[KnownWindow], found: Sequence[Found]) -> StreamScores:
    """Compare what was found in each window with its classes."""
    first = len(windows) // 4
    ami = [
        agreement(adjusted_mutual_info_score, *pair) for pair in zip(windows, found, strict=True)
    ]
    late = list(zip(windows[first:], found[first:], strict=True))
    horizons = [one.horizon for _, one in late if one.horizon is not None]
    return StreamScores(
        windows=tuple(ami),
        ami=float(np.mean(ami[first:])),
        ami_last=float(np.mean(ami[-LAST:])),
        nmi=float(np.mean([agreement(nmi, *pair) for pair in late])),
        churn=_mean([_churn(*before, *after) for before, after in pairwise(late)]),
        communities=float(np.median([len(np.unique(one.communities)) for _, one in late])),
        classes=float(np.median([window.n_classes for window, _ in late])),
        milliseconds=float(np.median([one.milliseconds for _, one in late])),
        horizon=float(np.median(horizons)) if horizons else None,
    )


def agreement(measure: Measure, window: KnownWindow, found: Found) -> float:
    """The agreement of communities with classes, in percent, on the nodes whose class is known."""
    return 100 * measure(*of_known(window.classes, found.communities))


def _churn(before: KnownWindow, old: Found, after: KnownWindow, new: Found) -> float:
    nodes = before.snapshot.nodes, after.snapshot.nodes
    if old.ids is None or new.ids is None:
        return 100 * renamed_churn(nodes[0], old.communities, nodes[1], new.communities)
    ids = _shared(nodes[0], old.ids[old.communities], nodes[1], new.ids[new.communities])
    return 100 * float(np.mean(ids[0] != ids[1])) if ids.size else 0.0


def renamed_churn(old_nodes: pa.Array, old: Labels, nodes: pa.Array, new: Labels) -> float:
    """Share of the nodes of both windows that change community, under the best renaming."""
    before, after = _shared(old_nodes, old, nodes, new)
    if not len(before):
        return 0.0
    together = np.zeros((before.max() + 1, after.max() + 1))
    np.add.at(together, (before, after), 1)
    return float(1 - together[linear_sum_assignment(-together)].sum() / len(before))


def _shared(
    old_nodes: pa.Array, old: NDArray[np.int64], nodes: pa.Array, new: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The labels of the nodes of both windows, `(2, n)`."""
    place = pd.Index(old_nodes.to_numpy(zero_copy_only=False)).get_indexer(
        nodes.to_numpy(zero_copy_only=False)
    )
    return np.stack([old[place[place >= 0]], new[place >= 0]])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
