"""After a swap: whether the new champion keeps its promise, or the previous model comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stream_icd.retraining.bootstrap import paired_bootstrap
from stream_icd.retraining.gate import Rules, margin_bits
from stream_icd.retraining.measured import Paired

LEAST = 4
"""Fewest windows for a decision before the watch ends."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The state of a new champion: `watching`, `confirmed`, or `worse` (roll back)."""

    state: Literal["watching", "confirmed", "worse"]
    reason: str


def watch(paired: Sequence[Paired], windows: int, rules: Rules, seed: int = 0) -> Watched:
    """Judge a new champion by the first windows after it was promoted.

    It is worse if its score on hidden edges is below that of the previous model: with confidence
    from the fourth window on, and by more than the margin after all windows.

    Args:
        paired: the previous model as the champion, the new one as the challenger, on the first
            windows since the promotion; at most `windows`.
        windows: M, the number of windows to watch.
    """
    if len(paired) < min(LEAST, windows):
        return Watched("watching", f"{len(paired)} of {windows} windows since the swap")
    gains = [one.challenger.hidden_edges - one.champion.hidden_edges for one in paired]
    gain = paired_bootstrap(gains, rules.confidence, seed)
    compared = (
        f"hidden edges {gain.mean:+.3f} bits an edge against the previous model on "
        f"{len(paired)} of {windows} windows since the swap"
    )
    if gain.high < 0 or (len(paired) >= windows and gain.mean < -margin_bits(paired, rules)):
        return Watched("worse", compared)
    return Watched("confirmed" if len(paired) >= windows else "watching", compared)
