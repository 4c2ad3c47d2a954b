"""What a training by the paper's losses gives: a model, and its history by epoch."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.methods.icd.encoder.contract import Weights
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of training; epoch 0 is the untrained model and has no losses."""

    number: int
    validation: float  # mean score on the validation graphs after the epoch, 0 to 1
    losses: dict[str, float]  # mean of each loss over the steps, before weighting (`train_encoder`)
    seconds: float  # with the validation


History = tuple[Epoch, ...]


def best_epoch(history: History) -> Epoch:
    """The epoch with the highest validation score; of equal ones, the first."""
    return max(history, key=lambda epoch: (epoch.validation, -epoch.number))


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A finished training: the model after the best epoch, and after the last one, for reports."""

    model: Model
    last: Model
    history: History

    @property
    def improved(self) -> Weights | None:
        """The weights of the best epoch; None if it is epoch 0, the untrained encoder."""
        return self.model.trained if best_epoch(self.history).number else None

    def is_whole(self, recipe: Recipe) -> bool:
        """Whether all epochs of the recipe were done."""
        return self.history[-1].number >= recipe.schedule.epochs
