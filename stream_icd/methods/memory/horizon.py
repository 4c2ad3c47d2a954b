"""How far back a graph looks: the setting, and the hypotheses that it stands for."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from stream_icd.core.errors import BadSettings

LONGEST_HORIZON = 1000
"""The longest horizon that can be given."""

CHOICES = f"give auto, off, or a number of windows from 1 to {LONGEST_HORIZON}"

Horizon = float | Literal["auto", "off"]
"""How far back a graph looks, in windows. auto: chosen for each graph while it runs. off: no edges
of earlier windows, only the last communities as a prior."""

By = Literal["sum", "filter", "weighted"]


class HypothesisKind(NamedTuple):
    """A way to look back.

    by: "sum": communities of the decayed sum of the windows; "weighted": of the sum of the first
        hypothesis, with the weights of an encoder; "filter": of the window alone, by what was
        believed before it.
    """

    by: By
    decay: float = 0.0  # λ of the sum
    within: float = 0.5  # exponent of the weights in a window before it is added
    between: float = 1.0  # exponent of the weights of the sum when it is searched

    @property
    def is_handicapped(self) -> bool:
        """Whether it must be ahead of the longest sum: it forgets faster, or is weighted."""
        return self.by == "weighted" or (self.by == "sum" and self.decay < LONGEST_DECAY)


LONGEST_DECAY = 0.95
FILTER, WEIGHTED = HypothesisKind("filter"), HypothesisKind("weighted")
PRESENCE = HypothesisKind("sum", LONGEST_DECAY, 0.0, 0.75)
SIDE_BY_SIDE = (
    HypothesisKind("sum", LONGEST_DECAY, 0.5, 0.75),
    FILTER,
    PRESENCE,
    HypothesisKind("sum", 0.8),
    HypothesisKind("sum", 0.5),
)
_BY_METHOD = (
    HypothesisKind("sum", LONGEST_DECAY, 0.5, 0.75),
    HypothesisKind("sum", 0.0),
    HypothesisKind("sum", 0.5),
)
"""What other methods than bp follow; they have no beliefs."""


def kinds_of(horizon: Horizon, *, by_method: bool, weighted: bool) -> tuple[HypothesisKind, ...]:
    """Return the hypotheses that a setting stands for; the first one leads at first."""
    further = (WEIGHTED,) if weighted else ()
    if horizon == "auto":
        return (*(_BY_METHOD if by_method else SIDE_BY_SIDE), *further)
    decay = 0.0 if horizon == "off" else 1 - 1 / float(horizon)
    if not decay and not by_method:
        return (FILTER,)
    return (HypothesisKind("sum", decay, 0.5, 1.0 if decay < 0.9 else 0.75),)


def read_horizon(text: str) -> Horizon:
    """Return the horizon that a user gave; raises `BadSettings` if it is none.

    >>> [read_horizon(one) for one in ("auto", "off", "20")]
    ['auto', 'off', 20.0]
    """
    named: dict[str, Horizon] = {"auto": "auto", "off": "off"}
    try:
        return named[text] if text in named else check_horizon(float(text))
    except ValueError:
        raise BadSettings(f"horizon {text!r}: {CHOICES}") from None


def check_horizon(horizon: Horizon) -> Horizon:
    """Return the horizon; raises `BadSettings` if it is none."""
    if horizon in ("auto", "off"):
        return horizon
    is_number = hasattr(horizon, "__float__") and np.ndim(horizon) == 0  # of NumPy, too
    if isinstance(horizon, str) or not (is_number and 1 <= horizon <= LONGEST_HORIZON):
        raise BadSettings(f"horizon {horizon!r}: {CHOICES}")
    return horizon
