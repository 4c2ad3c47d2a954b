"""Find communities by a model: local moves, then belief propagation if the model has a mixing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.planted_partition.belief_propagation import Model, likeliest_communities


class Found(NamedTuple):
    """A partition, before K is enforced.

    labels: (n,); some of 0..max may be empty.
    resolution: the resolution at which it was found.
    believed: True if belief propagation decided the result, False if modularity did.
    """

    labels: Labels
    resolution: float
    believed: bool


def found_by_model(
    graph: LevelGraph,
    parameters: BpParameters,
    n_communities: int | None,
    start: Labels | None,
    rng: np.random.Generator,
) -> Found:
    """Local moves at the model's resolution, from single nodes or from `start`, then beliefs.

    n_communities: K, if known: the community sizes expected by the model depend on it.
    """
    resolution = parameters.resolution
    labels = maximise_modularity(graph, resolution, rng, start, parameters.iterations)
    if parameters.mixing is None:
        return Found(labels, resolution, believed=False)
    believed = most_believed(graph, labels, parameters, n_communities, parameters.sweeps)
    return Found(believed, resolution, believed=True)


def most_believed(
    graph: LevelGraph,
    labels: Labels,
    parameters: BpParameters,
    n_communities: int | None,
    sweeps: int,
) -> Labels:
    """The communities after belief propagation from the start partition `labels`."""
    n_found = int(labels.max()) + 1
    assert parameters.mixing is not None
    model = Model(parameters.mixing, parameters.size_spread, n_communities or n_found)
    return likeliest_communities(graph, labels, n_found, model, sweeps)
