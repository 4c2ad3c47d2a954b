"""Which horizon a graph has: hypotheses are compared by the edges that they have not seen.

The communities of each hypothesis predict the edges of the next window that are new
(`prequential`). The nats that they save are a predictive code for the stream (Dawid,
"Statistical theory: the prequential approach", 1984), so the difference between two hypotheses is
evidence for one of them. A trial replaces the present hypothesis when it has saved `DECIDED` nats
more, and ends when it has saved `LOST` nats less. After `LONGEST_TRIAL` windows, the one that is
ahead stays.

A graph begins with `FIRST_DECAY`, and tries all kinds of trials at once in its first windows. Later
there is one trial at a time, and after each round without success a longer pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from stream_icd.bp.dynamic.posterior import uninformed
from stream_icd.errors import BadSettings
from stream_icd.memory.ids import ids_for
from stream_icd.memory.memory import TRIALS, Hypothesis, Memory, Trial, TrialKind

DECAYS = (0.0, 0.5, 0.8, 0.95)
"""The values of λ that are tried: horizons of 1, 2, 5 and 20 windows."""

FIRST_DECAY = 0.5

DECIDED = 10.0
"""Nats by which one hypothesis must be ahead of another."""

LOST = 30.0
"""Nats by which a trial must be behind to end early: one with a longer horizon needs some windows
before it is better."""

LONGEST_TRIAL = 8
"""After this many windows, the hypothesis that is ahead wins."""

YOUNG = 8
"""Windows in which a new graph runs all kinds of trials at once."""

MOST_ROUNDS = 4
"""Rounds without success that are counted: pauses double with each."""

LONGEST_PAUSE = 2**MOST_ROUNDS
"""Maximum number of windows between two rounds of trials."""

MOST_WINDOWS = 1000
"""The longest horizon that can be given."""

CHOICES = f"give auto, off, or a number of windows from 1 to {MOST_WINDOWS}"

Horizon = float | Literal["auto", "off"]
"""How far back a graph looks, in windows; auto: found for each graph; off: no evidence is kept
beyond the last window, only beliefs."""


def read_horizon(text: str) -> Horizon:
    """Return the horizon that a user gave.

    Raises:
        BadSettings: it is none.

    >>> [read_horizon(one) for one in ("auto", "off", "20")]
    ['auto', 'off', 20.0]
    """
    if text == "auto":
        return "auto"
    if text == "off":
        return "off"
    try:
        return check_horizon(float(text))
    except ValueError:
        raise BadSettings(f"horizon {text!r}: {CHOICES}") from None


def check_horizon(horizon: Horizon) -> Horizon:
    """Return the horizon if it is one.

    Raises:
        BadSettings: it is not.
    """
    if horizon in ("auto", "off"):
        return horizon
    if isinstance(horizon, str) or not 1 <= horizon <= MOST_WINDOWS:
        raise BadSettings(f"horizon {horizon!r}: {CHOICES}")
    return horizon


def first_decay(horizon: Horizon) -> float:
    """Return λ for a graph that begins.

    >>> [first_decay(one) for one in ("auto", "off", 1, 20)]
    [0.5, 0.0, 0.0, 0.95]
    """
    if horizon == "auto":
        return FIRST_DECAY
    return 0.0 if horizon == "off" else 1 - 1 / float(horizon)


def judged(memory: Memory, ahead: Mapping[TrialKind, float], horizon: Horizon) -> Memory:
    """Return the memory after its trials were compared with the present hypothesis.

    Args:
        ahead: nats that each trial has saved more on the new edges of a window.
        horizon: unless it is auto, no other horizon is tried.
    """
    decay = memory.present.decay if horizon == "auto" else first_decay(horizon)
    if decay != memory.present.decay:
        memory = _begun(memory, replace(memory.present, decay=decay))
    trials = [
        replace(one, nats=one.nats + ahead[one.kind], windows=one.windows + 1)
        for one in memory.trials
    ]
    best = max(trials, key=lambda one: one.nats, default=None)
    if best is not None and best.nats > (DECIDED if best.windows < LONGEST_TRIAL else 0):
        return _begun(memory, best.hypothesis)
    left = [one for one in trials if one.nats >= -LOST and one.windows < LONGEST_TRIAL]
    return replace(memory, trials=tuple(left))


def with_trials(memory: Memory, kinds: tuple[TrialKind, ...]) -> Memory:
    """Return the memory with the trials that are due.

    Args:
        kinds: those that make sense for the method.
    """
    possible = [one for one in kinds if _decay(memory.present.decay, one) is not None]
    untried = tuple(one for one in memory.untried if one in possible)
    if not memory.trials and not untried:
        n_rounds = min(memory.n_rounds + 1, MOST_ROUNDS)
        untried = tuple(possible)
        memory = replace(memory, n_rounds=n_rounds, wait=2**n_rounds)
    memory = replace(memory, untried=untried)
    if memory.wait:
        return replace(memory, wait=memory.wait - 1)
    n_due = len(untried) if memory.n_windows <= YOUNG else int(not memory.trials)
    due = untried[:n_due]
    begun = [Trial(one, _tried(memory.present, one)) for one in due]
    return replace(
        memory,
        trials=(*memory.trials, *begun),
        untried=tuple(one for one in untried if one not in due),
    )


def _begun(memory: Memory, present: Hypothesis) -> Memory:
    """Return the memory with another present hypothesis, and everything to be tried again."""
    labels, before = present.known.likeliest, memory.present.known.likeliest
    ids, next_id = ids_for(labels, before, memory.community_ids, memory.next_id)
    return replace(
        memory,
        present=present,
        community_ids=ids,
        next_id=next_id,
        trials=(),
        untried=TRIALS,
        n_rounds=0,
        wait=0,
    )


def _tried(present: Hypothesis, kind: TrialKind) -> Hypothesis:
    decay = _decay(present.decay, kind)
    assert decay is not None
    if kind == "anew":
        return replace(present, known=uninformed(len(present.known.shares)))
    return replace(present, decay=decay)


def _decay(present: float, kind: TrialKind) -> float | None:
    """Return λ of a trial; None if there is no such value."""
    if kind == "anew":
        return present
    if kind == "longer":
        return min((one for one in DECAYS if one > present), default=None)
    return max((one for one in DECAYS if one < present), default=None)
