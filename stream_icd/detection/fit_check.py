"""Checks whether a model fits a graph: compares its communities with those of the defaults."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import structlog
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.parameters import BpParameters
from stream_icd.graphs.weights import comparable
from stream_icd.quality.cuts import modularity
from stream_icd.registry.shipped import VersionedModel

BITS_WORSE = 0.1
"""A model does not fit if its description of a graph is longer by this, in bits per edge."""

MOST_GRAPHS = 100
"""Maximum number of graphs that are checked; later graphs are rarely of a new kind."""


def misfit(
    adjacency: csr_array,
    communities: NDArray[np.int32],
    n_communities: int | None = None,
    seed: int = 0,
) -> str | None:
    """Return why these communities are worse than those of the defaults; None if they are not.

    The comparison uses description length (`quality.description_length`), since modularity prefers
    communities that maximise modularity even where a model's are right.

    Args:
        n_communities: K, if the communities were found with a given K.
    """
    from stream_icd.bp.find import find_communities  # see `detection.record.detected`
    from stream_icd.quality.description_length import description_length

    plain = find_communities(adjacency, BpParameters(), n_communities, seed=seed)
    weighed = comparable(adjacency)
    found, instead = (description_length(weighed, one) for one in (communities, plain))
    if found <= instead + BITS_WORSE:
        return None
    return (
        f"its communities need {found - instead:.2f} bits per edge more to describe this graph "
        f"than those found without a model (modularity {modularity(adjacency, communities):.2f}; "
        f"without a model {modularity(adjacency, plain):.2f})"
    )


@dataclass(frozen=True, slots=True)
class FitCheck:
    """Logs a warning where a model does not fit: once per graph, at its first snapshot.

    Graphs that the model is proved on (`VersionedModel.proved_on`) are not checked, so a champion
    that the gate promoted has no slower first snapshot.
    """

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
        """Check a graph at its first snapshot; this takes as long as detecting it once more."""
        if graph in model.proved_on:
            return
        if (graph, model.version) in self._checked or len(self._checked) >= MOST_GRAPHS:
            return
        self._checked.add((graph, model.version))
        if model.model.bp == BpParameters() or model.model.bp.search:
            return  # no model, or the model has already compared
        reason = misfit(adjacency, communities, n_communities, seed)
        if reason is not None:
            structlog.get_logger().warning(
                "model does not fit",
                graph=graph,
                model=model.version,
                reason=reason,
                advice="stream-icd models list shows others; stream-icd train learns one for it",
            )
