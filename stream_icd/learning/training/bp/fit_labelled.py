"""Learn bp's parameters from graphs with known communities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats
from stream_icd.learning.training.bp.fitted import (
    SIZE_SPREADS,
    Fit,
    FitOptions,
    Tried,
    as_good,
    candidate,
)
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_of
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.graphs.weights import EXPONENT, comparable
from stream_icd.methods.quality.agreement import ami, of_known

_Labelled = Sequence[tuple[NDArray[np.int32], LabelledGraph]]

_RESOLUTIONS = tuple(2.0 ** (half_octave / 2) for half_octave in range(-2, 11))
"""Candidate resolutions: 0.5 to 32 in steps of √2. Finer ones gained at most 0.02 NMI points on LFR
graphs of 5,000 nodes, and lost 0.2 to 0.6 on those of 2,000."""

_OTHER_EXPONENTS = (0.0, 1.0)
"""Candidates besides `EXPONENT`: ignore the weights, and keep their proportions."""


def fit_labelled(graphs: Sequence[LabelledGraph], work: FitOptions = FitOptions()) -> Fit:
    """The parameters with the best mean AMI of `find_communities` on these graphs.

    K is not given, as in detection: the best parameters with K join many communities without it.
    AMI is adjusted for chance, so splitting communities does not raise it, as it does NMI.

    The mixing is that of the labels. The search covers resolution, size spread, and whether to use
    belief propagation. The score of a resolution includes its neighbours on both sides, since a
    peak that they do not share is chance. Of the resolutions as good as the best, within the
    standard error of the difference, the coarsest is selected (Breiman, Friedman, Olshen and
    Stone, 1984): the finest ones fail first on graphs of other sizes. If the weights differ, other
    exponents are tried last. Graphs without labels are ignored; at least one must have labels.
    The search needs 52 to 54 runs of `find_communities` per graph.
    """
    labelled = [(g.labels, g) for g in graphs if g.labels is not None]
    weighted = any(np.ptp(graph.adjacency.data) for _, graph in labelled)
    mixing = _mean_mixing(labelled, EXPONENT)
    families = [[candidate(r, spread, mixing) for r in _RESOLUTIONS] for spread in SIZE_SPREADS]
    choices = [choice for family in families for choice in family]
    n_runs = len(choices) + (1 + len(_OTHER_EXPONENTS)) * weighted
    steps = work.steps("learn from labels", n_runs * len(labelled))

    def scores_of(choices: Sequence[BpParameters]) -> Floats:
        """AMI of each choice on each graph, (choices, graphs)."""
        runs = [(*graph, choice) for choice in choices for graph in labelled]
        found = work.each(lambda run: _ami(*run, work.seed), runs, lambda _: steps.done())
        return np.reshape(found, (len(choices), len(labelled)))

    scores = _smoothed(scores_of(choices).reshape(len(families), -1, len(labelled)))
    best_family, best = np.unravel_index(np.argmax(_mean(scores)), scores.shape[:2])
    family, of_family = families[int(best_family)], scores[int(best_family)]
    found = int(np.argmax(as_good(of_family, int(best))))
    return Fit(
        _with_best_exponent(family[found], scores_of, labelled) if weighted else family[found],
        "labels",
        len(labelled),
        tuple(
            Tried(parameters, ami=float(mean))
            for parameters, mean in zip(family, _mean(of_family), strict=True)
        ),
    )


def _with_best_exponent(
    parameters: BpParameters,
    scores_of: Callable[[Sequence[BpParameters]], Floats],
    labelled: _Labelled,
) -> BpParameters:
    """Change the exponent of the weights if that is better by more than the standard error."""
    candidates = [parameters]
    for exponent in _OTHER_EXPONENTS:
        mixing = None if parameters.mixing is None else _mean_mixing(labelled, exponent)
        candidates.append(replace(parameters, weight_exponent=exponent, mixing=mixing))
    scores = scores_of(candidates)
    best = int(np.argmax(_mean(scores)))
    return candidates[0 if as_good(scores, best)[0] else best]


def _smoothed(scores: Floats) -> Floats:
    """Average each score (families, resolutions, graphs) with its neighbours; ends count twice."""
    padded = np.pad(scores, ((0, 0), (1, 1), (0, 0)), mode="edge")
    smoothed: Floats = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    return smoothed


def _mean(scores: Floats) -> Floats:
    """Over graphs; rounded, so that equal scores stay equal whatever the order of a sum."""
    means: Floats = np.round(scores.mean(axis=-1), 12)
    return means


def _mean_mixing(labelled: _Labelled, exponent: float) -> float:
    """Mean fraction of the weight between communities, limited for belief propagation."""
    shares = [
        mixing_of(comparable(graph.adjacency, exponent), labels) for labels, graph in labelled
    ]
    return bounded_mixing(float(np.mean(shares)))


def _ami(
    labels: NDArray[np.int32], graph: LabelledGraph, parameters: BpParameters, seed: int
) -> float:
    return ami(*of_known(labels, find_communities(graph.adjacency, parameters, seed=seed)))
