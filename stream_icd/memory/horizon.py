"""How far back a graph looks: two hypotheses at a time are compared by edges that both are to see.

The communities of each hypothesis predict the edges of the next window that are new
(`prequential`). The nats that they save are a predictive code for the stream (Dawid,
"Statistical theory: the prequential approach", 1984), so the difference between two hypotheses is
evidence for one of them.

Beside the present hypothesis there is at most one trial, of the next longer or the next shorter
horizon. The differences between two horizons add up over all their comparisons, each counting less
with the next one (forgetting: Raftery, Kárný and Ettler, Technometrics 52, 2010): a noisy window
does not outweigh many, and evidence of long ago does not hold up a change. The trial becomes the
present hypothesis as soon as the sum favours it, and ends when it is `DECIDED` nats behind. After
each round of trials without success, the pause doubles.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import Literal

from stream_icd.errors import BadSettings
from stream_icd.memory.ids import ids_for
from stream_icd.memory.memory import DECAYS, Hypothesis, Memory, Trial

FIRST_DECAY = 0.5

DECIDED = 10.0
"""Nats by which a trial must be behind to end."""

FADING = 0.9
"""What a comparison still counts at the next one of the same two horizons."""

LONGEST_TRIAL = 8
"""A trial ends after this many windows, also if it is undecided."""

MOST_ROUNDS = 5
"""Rounds without success that are counted, of trials and of searches: pauses double with each."""

LONGEST_PAUSE = 2 ** (MOST_ROUNDS - 1)
"""Maximum number of windows between two rounds of trials, and between two searches."""

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


def judged(memory: Memory, ahead: float, horizon: Horizon) -> Memory:
    """Return the memory after its trial was compared with the present hypothesis.

    Args:
        ahead: nats that the trial has saved more on the new edges of a window.
        horizon: unless it is auto, no other horizon is tried.
    """
    present, trial = memory.present, memory.trial
    decay = present.decay if horizon == "auto" else first_decay(horizon)
    if decay != present.decay:
        return _begun(memory, replace(present, decay=decay))
    if trial is None:
        return memory
    towards = 1 if trial.hypothesis.decay > present.decay else -1
    shorter = min(trial.hypothesis.decay, present.decay)
    gap = min(bisect_right(DECAYS, shorter), len(memory.leads)) - 1
    lead = FADING * memory.leads[gap] + towards * ahead
    leads = (*memory.leads[:gap], lead, *memory.leads[gap + 1 :])
    memory, lead = replace(memory, leads=leads), towards * lead
    if lead > 0:
        return _begun(memory, trial.hypothesis)
    trial = replace(trial, windows=trial.windows + 1)
    if lead <= -DECIDED or trial.windows >= LONGEST_TRIAL:
        n_neighbours = len(_neighbours(present.decay))
        n_failed = memory.n_failed + 1
        if n_failed > n_neighbours * MOST_ROUNDS:
            n_failed -= n_neighbours
        rounds, others = divmod(n_failed, n_neighbours)
        wait = 0 if others else pause(rounds)
        return replace(memory, trial=None, n_failed=n_failed, wait=wait)
    return replace(memory, trial=trial)


def with_trial(memory: Memory) -> Memory:
    """Return the memory with the trial that is due."""
    if memory.trial is not None:
        return memory
    if memory.wait:
        return replace(memory, wait=memory.wait - 1)
    decays = _neighbours(memory.present.decay)
    decay = decays[memory.n_failed % len(decays)]
    return replace(memory, trial=Trial(replace(memory.present, decay=decay)))


def pause(n_failed: int) -> int:
    """Return how many windows to wait after so many failures one after the other.

    >>> [pause(one) for one in (1, 2, 3, 10)]
    [1, 2, 4, 16]
    """
    return 1 << (min(n_failed, MOST_ROUNDS) - 1)


def _begun(memory: Memory, present: Hypothesis) -> Memory:
    """Return the memory with another present hypothesis, of which nothing has been tried."""
    labels, before = present.known.likeliest, memory.present.known.likeliest
    ids, next_id = ids_for(labels, before, memory.community_ids, memory.next_id)
    return replace(
        memory,
        present=present,
        community_ids=ids,
        next_id=next_id,
        trial=None,
        n_failed=0,
        wait=0,
        n_vain_searches=0,
        search_wait=0,
    )


def _neighbours(decay: float) -> list[float]:
    """Return the next longer and the next shorter of the values of λ, those there are."""
    longer = [one for one in DECAYS if one > decay][:1]
    return longer + [one for one in DECAYS if one < decay][-1:]
