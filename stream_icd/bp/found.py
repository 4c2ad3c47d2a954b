"""What a model finds in a graph: local moves, and belief propagation where it has a mixing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stream_icd.bp.belief_propagation import Model, likeliest_communities
from stream_icd.bp.level_graph import Labels, LevelGraph
from stream_icd.bp.multilevel import maximise_modularity
from stream_icd.bp.parameters import BpParameters


class Found(NamedTuple):
    """A partition, as many communities as were found.

    labels: (n,); some of 0..max may be empty.
    resolution: at which it was found.
    believed: whether belief propagation had the last word, or modularity.
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

    n_communities: K where it is known: the sizes that the model expects depend on it.
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
    """The communities that belief propagation ends with when it starts from `labels`."""
    n_found = int(labels.max()) + 1
    assert parameters.mixing is not None
    model = Model(parameters.mixing, parameters.size_spread, n_communities or n_found)
    return likeliest_communities(graph, labels, n_found, model, sweeps)
