"""What training produces and detection needs: a frozen model."""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_icd.bp.parameters import BpParameters
from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.recipe import Recipe
from stream_icd.icd.seeded_weights import initial_weights


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A frozen model for detection: its recipe and the trained parameters.

    Attributes:
        recipe: how it was trained.
        weights: the encoder's parameters, float32, by name.
        bp: the learned parameters of the method bp, or its defaults.
    """

    recipe: Recipe
    weights: Weights
    bp: BpParameters = field(default_factory=BpParameters)


def initial_model(recipe: Recipe) -> Model:
    """The untrained model: the control for every trained one."""
    return Model(recipe, initial_weights(recipe))
