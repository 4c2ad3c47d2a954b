"""How far back a graph looks: two hypotheses at a time are compared by edges that both are to see.

The communities of each hypothesis predict the edges of the next window that are new
(`nats_saved`). Beside the present hypothesis there is at most one trial, of another horizon, and
the differences of what they save are added up. docs/method.md, "The horizon", says how a trial
begins and ends, which comes next, and why there are pauses between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from stream_icd.core.errors import BadSettings
from stream_icd.methods.memory.changes import ids_for
from stream_icd.methods.memory.memory import DECAYS, LONGEST, Hypothesis, Memory, Trial

DECIDED = 20.0
"""Nats by which a trial must be ahead to be taken, or behind to end."""

LONGEST_TRIAL = 16
"""An undecided trial ends after this many windows; no pause between searches is longer."""

MOST_ROUNDS = LONGEST_TRIAL.bit_length()
"""Rounds without success that are counted, of trials and of searches: pauses double with each."""

MOST_WINDOWS = 1000
"""The longest horizon that can be given."""

CHOICES = f"give auto, off, or a number of windows from 1 to {MOST_WINDOWS}"

Horizon = float | Literal["auto", "off"]
"""How far back a graph looks, in windows; auto: found for each graph; off: no evidence is kept
beyond the last window, only beliefs."""


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
    if isinstance(horizon, str) or not (is_number and 1 <= horizon <= MOST_WINDOWS):
        raise BadSettings(f"horizon {horizon!r}: {CHOICES}")
    return horizon


def first_decay(horizon: Horizon) -> float:
    """Return λ for a graph that begins.

    >>> [first_decay(one) for one in ("auto", "off", 1, 20)]
    [0.5, 0.0, 0.0, 0.95]
    """
    if horizon == "auto":
        return DECAYS[1]
    return 0.0 if horizon == "off" else 1 - 1 / float(horizon)


def judged(memory: Memory, ahead: float, horizon: Horizon) -> Memory:
    """Return the memory after its trial was compared with the present hypothesis.

    ahead: nats that the trial has saved more on the new edges of a window.
    horizon: unless it is auto, no other horizon is tried.
    """
    present, trial = memory.present, memory.trial
    decay = present.decay if horizon == "auto" else first_decay(horizon)
    if decay != present.decay:
        return begun(memory, replace(present, decay=decay))
    if trial is None:
        return memory
    trial = replace(trial, windows=trial.windows + 1, ahead=trial.ahead + ahead)
    if trial.ahead >= DECIDED:
        return begun(memory, trial.hypothesis)
    if trial.ahead > -DECIDED and trial.windows < LONGEST_TRIAL:
        return replace(memory, trial=trial)
    n_others = len(set(DECAYS) - {present.decay})
    rounds, longest = memory.n_failed // n_others, memory.longest
    if trial.hypothesis.decay == LONGEST and not rounds:
        longest = trial.hypothesis.evidence
    wait = min(trial.windows, LONGEST_TRIAL) * pause(rounds)
    n_failed = memory.n_failed + 1
    if n_failed >= n_others * MOST_ROUNDS:
        n_failed -= n_others
    return replace(memory, trial=None, longest=longest, n_failed=n_failed, wait=wait)


def with_trial(memory: Memory) -> Memory:
    """Return the memory with the trial that is due, the shortest horizon first."""
    if memory.trial is not None:
        return memory
    if memory.wait:
        return replace(memory, wait=memory.wait - 1)
    others = [one for one in DECAYS if one != memory.present.decay]
    decay = others[memory.n_failed % len(others)]
    begins = replace(memory.present, decay=decay)
    if decay == LONGEST and memory.longest is not None:
        begins = replace(begins, evidence=memory.longest)
        memory = replace(memory, longest=None)
    return replace(memory, trial=Trial(begins))


def pause(n_failed: int) -> int:
    """Return how long to wait after so many failures one after the other, in windows or trials.

    >>> [pause(one) for one in (0, 1, 2, 3, 10)]
    [0, 1, 2, 4, 16]
    """
    return (1 << min(n_failed, MOST_ROUNDS)) >> 1


def begun(memory: Memory, present: Hypothesis) -> Memory:
    """Return the memory with this present hypothesis, beside which nothing has been tried."""
    labels, before = present.known.likeliest, memory.present.known.likeliest
    ids, next_id = ids_for(labels, before, memory.community_ids, memory.next_id)
    longest = memory.present.evidence if memory.longest is None else memory.longest
    return replace(
        memory,
        present=present,
        community_ids=ids,
        next_id=next_id,
        trial=None,
        longest=None if present.decay == LONGEST else longest,
        n_failed=0,
        wait=0,
        n_vain_searches=0,
        search_wait=0,
    )
