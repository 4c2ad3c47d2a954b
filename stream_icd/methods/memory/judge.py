"""The judge: which hypothesis leads, by what each saves on the edges of the windows after it.

All edges of a window count, and the null is the same for all: each end by its strength in this
window (`nats_saved`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stream_icd.core.arrays import NOBODY
from stream_icd.methods.bp.level_graph import LevelGraph
from stream_icd.methods.bp.likelihood import nats_saved
from stream_icd.methods.memory.memory import Hypothesis

_FORGETS = 0.9
"""By which the nats that a sum has saved fade a window."""

HANDICAP = 0.05
"""Fraction of its nats by which a shorter sum must be ahead."""

MARGIN = 100.0
"""Nats by which the filter must be ahead, and by which it can be behind at most."""

_FADES = 0.7
"""By which the lead of the filter fades a window."""

SHAKEN = 0.5
"""The others are followed at once if the leader saves less than this share of what is usual."""


def judged(hypotheses: Sequence[Hypothesis], leader: int, window: LevelGraph) -> list[Hypothesis]:
    """Return the hypotheses after their communities were compared on a window.

    One that saves more than the leader is followed at once.
    """
    gains = [nats_saved(window, hypothesis.labels)[0] for hypothesis in hypotheses]
    best = best_sum(hypotheses)
    usual = (1 - _FORGETS) * hypotheses[leader].saved  # the mean gain, of a sum that fades
    shaken = hypotheses[leader].kind.by != "filter" and gains[leader] < SHAKEN * usual
    after = []
    for at, (hypothesis, gain) in enumerate(zip(hypotheses, gains, strict=True)):
        if hypothesis.kind.by == "filter":
            has_labels = hypothesis.labels.max(initial=NOBODY) >= 0
            lead = has_labels * (gain - gains[best])
            saved = max(_FADES * hypothesis.saved + lead, -MARGIN)
            is_ahead = saved > 0
        else:
            saved = _FORGETS * hypothesis.saved + gain
            is_ahead = gain > gains[leader] > 0
        rises = at != leader and is_ahead
        n_vain = 0 if rises else hypothesis.n_vain
        wait = 0 if rises or shaken else max(hypothesis.wait - 1, 0)
        after.append(replace(hypothesis, saved=saved, n_vain=n_vain, wait=wait))
    return after


def best_sum(hypotheses: Sequence[Hypothesis]) -> int:
    """Return the sum that has saved most; shorter ones must be ahead by a fraction.

    Of equal ones, as after the first window, the one that the encoder weights.
    """

    def worth(at: int) -> tuple[float, bool]:
        kind, saved = hypotheses[at].kind, hypotheses[at].saved
        if kind.by == "filter":
            return float("-inf"), False
        return saved * (1 - HANDICAP * kind.is_handicapped), kind.by == "weighted"

    return max(range(len(hypotheses)), key=worth)


def leader_of(hypotheses: Sequence[Hypothesis], *, by_labels: bool = False) -> int:
    """Return which hypothesis leads: the filter if it is far ahead, else the best sum.

    by_labels: whether labels have shown that it is the one that the encoder weights.
    """
    by = [hypothesis.kind.by for hypothesis in hypotheses]
    if by_labels and "weighted" in by:
        return by.index("weighted")
    if "filter" in by:
        at = by.index("filter")
        if hypotheses[at].saved > MARGIN or len(hypotheses) == 1:
            return at
    return best_sum(hypotheses)
