"""Learn bp's parameters from consecutive windows of one graph, with memory between them.

A window's communities are judged by the bits that they save (`nats_saved`) on the edges of the
next window that are new. No edge has to be hidden, and with memory, later windows show what a
single one does not. Of the choices that save as many bits as the best one, within one standard
error of the difference, the one with the shortest description of the last window is selected, as in
`fit_unlabelled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from math import log

import numpy as np

from stream_icd.learning.training.bp.consecutive import (
    UNRELATED,
    PreparedWindow,
    nats_saved_by,
    prepare,
)
from stream_icd.learning.training.bp.fit_unlabelled import RESOLUTIONS
from stream_icd.learning.training.bp.fitted import (
    SIZE_SPREADS,
    Fit,
    FitOptions,
    Tried,
    as_good,
    candidate,
)
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_of
from stream_icd.methods.bp.modularity import maximise_modularity
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.quality.partition import description_length

FEWEST = 3
"""Minimum number of windows to learn from."""

_N_HALVINGS = 2
"""After each of the first windows with a forecast, this many times, the worse half is dropped."""

MOST_STAY = 0.98
"""Upper limit of the learned stay probability."""

_LEAST_SAVED = 10.0
"""Nats that communities must save on the edges of all next windows; where windows are unrelated,
the best choice saves 0 to 2 by chance."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A choice of the parameters after some windows."""

    parameters: BpParameters
    memory: Memory | None = None
    bits: tuple[float, ...] = ()  # per edge of each window but the first, by communities before it
    nats: float = 0.0  # saved on all these edges together
    stays: tuple[float, ...] = ()  # η of each window but the first; 0: unrelated to the past
    length: float = 0.0  # description length of the last window, bits per edge

    @property
    def kind(self) -> tuple[bool, float]:
        """What trials that differ only in resolution have in common."""
        return self.parameters.mixing is None, self.parameters.size_spread

    @property
    def score(self) -> float:
        """Mean bits saved; rounded, so that equal scores stay equal."""
        return round(float(np.mean(self.bits)), 9) if self.bits else 0.0

    @property
    def stay(self) -> float:
        """The median over the windows, limited; 0 for unrelated windows."""
        stay = float(np.median(self.stays))
        return min(stay, MOST_STAY) if stay >= UNRELATED else 0.0

    def learned(self) -> BpParameters:
        """The parameters with the mixing and the stay probability of the windows."""
        assert self.memory is not None
        if self.parameters.mixing is None:  # each graph finds its horizon itself
            return self.parameters
        mixing = bounded_mixing(self.memory.known.mixing)
        return replace(self.parameters, mixing=mixing, stay=self.stay)


def fit_stream(windows: Sequence[LabelledGraph], work: FitOptions = FitOptions()) -> Fit | None:
    """The parameters whose communities, with memory, save most bits on each next window's edges.

    None if the windows are unrelated. They are at least `FEWEST` consecutive ones of one graph,
    with their moments; labels are not used.
    """
    prepared = list[PreparedWindow]()
    for window in windows:
        prepared.append(prepare(window, prepared[-1] if prepared else None))
    trials = [_Trial(choice) for choice in _choices(prepared[0], work.seed)]
    halvings = [min(max(at - 1, 0), _N_HALVINGS) for at in range(len(windows))]
    n_trials = [-(-len(trials) // 2**halving) for halving in halvings]
    steps = work.steps("learn from next windows", sum(n_trials))
    for following, n_kept in zip(prepared, n_trials, strict=True):
        trials = sorted(trials, key=lambda trial: -trial.score)[:n_kept]
        judge = partial(_after, following, work.seed)
        trials = work.each(judge, trials, lambda _: steps.done())
    at = max(range(len(trials)), key=lambda at: trials[at].score)
    if not trials[at].stay or trials[at].nats < _LEAST_SAVED:
        return None
    good = as_good(np.array([trial.bits for trial in trials]), at)
    best = min(compress(trials, good), key=lambda trial: trial.length)
    curve = sorted(
        (trial for trial in trials if trial.kind == best.kind),
        key=lambda trial: trial.parameters.resolution,
    )
    tried = tuple(Tried(trial.learned(), next_window=trial.score) for trial in curve)
    return Fit(best.learned(), "the next window", len(windows), tried, len(windows))


def _choices(first: PreparedWindow, seed: int) -> Iterator[BpParameters]:
    """All choices; the mixing of each is that of the communities that local moves start with."""
    for resolution in RESOLUTIONS:
        start = maximise_modularity(first.graph, resolution, np.random.default_rng(seed))
        mixing = bounded_mixing(mixing_of(first.comparable, start))
        for size_spread in SIZE_SPREADS:
            yield candidate(resolution, size_spread, mixing)


def _after(window: PreparedWindow, seed: int, trial: _Trial) -> _Trial:
    """The trial after one more window."""
    moment, memory, parameters = window.moment, trial.memory, trial.parameters
    bits, nats, stays = trial.bits, trial.nats, trial.stays
    nodes, at = moment.nodes, moment.window
    found = detect_window(window.adjacency, nodes, at, parameters, memory, horizon="off", seed=seed)
    if memory is not None:
        saved, weight = nats_saved_by(memory.nodes, memory.known.likeliest, window)
        bits, nats = (*bits, saved / max(weight, 1e-300) / log(2)), nats + saved
        stays = (*stays, found.memory.known.stay if found.n_continued else 0.0)
    length = round(description_length(window.comparable, found.communities), 4)
    return replace(trial, memory=found.memory, bits=bits, nats=nats, stays=stays, length=length)
