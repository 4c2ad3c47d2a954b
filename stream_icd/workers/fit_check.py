"""Whether a model fits a graph: its communities against those found without a model."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import structlog
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.graphs.weights import comparable
from stream_icd.quality.description_length import description_length
from stream_icd.quality.modularity import modularity
from stream_icd.registry.shipped import VersionedModel

BITS_WORSE = 0.1
"""A model is said not to fit when its description of a graph is longer by this, in bits an edge."""

MOST_GRAPHS = 100
"""Graphs that are checked; where there are more, their kinds have been seen by then."""


def misfit(
    adjacency: csr_array,
    communities: NDArray[np.int32],
    n_communities: int | None = None,
    seed: int = 0,
) -> str | None:
    """Why these communities are worse than those that the defaults find; None if they are not.

    Description length decides (`quality.description_length`), since modularity prefers its own
    communities also where a model's are right.

    Args:
        n_communities: K, where the communities were told it.
    """
    plain = find_communities(adjacency, BpParameters(), n_communities, seed=seed)
    weighed = comparable(adjacency)
    found, instead = (description_length(weighed, one) for one in (communities, plain))
    if found <= instead + BITS_WORSE:
        return None
    return (
        f"its communities need {found - instead:.2f} bits an edge more to describe this graph than "
        f"those found without a model (modularity {modularity(adjacency, communities):.2f}; "
        f"without a model {modularity(adjacency, plain):.2f})"
    )


@dataclass(frozen=True, slots=True)
class FitCheck:
    """Warns in the log where a model does not fit: once a graph, at its first snapshot."""

    _checked: set[tuple[str, str]] = field(default_factory=set)

    def check(
        self,
        graph: str,
        model: VersionedModel,
        adjacency: csr_array,
        communities: NDArray[np.int32],
        n_communities: int | None,
        seed: int,
    ) -> None:
        """Look at a graph that was not seen before; takes as long as detecting it once more."""
        if (graph, model.version) in self._checked or len(self._checked) >= MOST_GRAPHS:
            return
        self._checked.add((graph, model.version))
        if model.model.bp == BpParameters() or model.model.bp.scale is not None:
            return  # no model, or one that has made the comparison itself
        reason = misfit(adjacency, communities, n_communities, seed)
        if reason is not None:
            structlog.get_logger().warning(
                "model does not fit",
                graph=graph,
                model=model.version,
                reason=reason,
                advice="stream-icd models list shows others; stream-icd train learns one for it",
            )
