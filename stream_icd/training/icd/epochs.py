"""The history of a training run, by epoch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of training; epoch 0 is the untrained model and has no losses.

    Attributes:
        number: 0, 1, 2, ...
        validation: mean score on the validation graphs after the epoch, 0 to 1.
        losses: mean of each loss over the epoch's steps, before weighting: "discriminator",
            "adversarial", "reconstruction" and "regularisation".
        seconds: duration of the epoch, with its validation.
    """

    number: int
    validation: float
    losses: dict[str, float]
    seconds: float


History = tuple[Epoch, ...]


def best_epoch(history: History) -> Epoch:
    """Return the epoch with the highest validation score; of equal ones, the first."""
    return max(history, key=lambda epoch: (epoch.validation, -epoch.number))


def history_to_json(history: History) -> str:
    """Return the history as a JSON array."""
    return json.dumps([asdict(epoch) for epoch in history])


def history_from_json(text: str) -> History:
    """Read what `history_to_json` wrote."""
    return tuple(Epoch(**epoch) for epoch in json.loads(text))
