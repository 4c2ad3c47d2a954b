"""A frozen model: what training produces, and all that detection needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from stream_icd.core.errors import ModelDamaged
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.encoder.contract import Weights, digest, initial_weights
from stream_icd.methods.icd.recipe import Recipe

Method = Literal["bp", "icd"]
"""How communities are found: belief propagation, or K-means on the encoder's embedding."""

MethodChoice = Literal["auto", "bp", "icd"]
"""What may be asked for; auto: the model's own method."""


@dataclass(frozen=True, eq=False)
class Model:
    """A frozen model for detection: the numbers of the method bp, and an encoder for icd."""

    recipe: Recipe
    bp: BpParameters = field(default_factory=BpParameters)
    trained: Weights | None = None  # of a trained encoder; None: those that the recipe's seed makes
    sha256: str | None = None  # `digest` that the weights made by the seed must have, if known
    method: Method = "bp"  # with which the model proved best
    leads: bool = False
    """Whether on a stream bp takes what the encoder weights, since that agreed best with labels of
    past windows. Else the edges of later windows decide (`memory.judge`)."""

    def method_for(self, choice: MethodChoice) -> Method:
        """The method to detect with."""
        return self.method if choice == "auto" else choice

    def remembers(self, choice: MethodChoice = "auto") -> bool:
        """Whether memory of earlier windows changes what is found: bp learned whether it does."""
        return self.method_for(choice) == "icd" or self.bp.stay > 0

    @cached_property
    def weights(self) -> Weights:
        """The encoder's parameters, float32, by name; bp never asks for them.

        Raises `ModelDamaged` if the seed makes other weights than those of `sha256`.
        """
        if self.trained is not None:
            return self.trained
        # Not stored in models that are not trained: the seed makes the same bits on every machine.
        weights = initial_weights(self.recipe)
        if self.sha256 is not None and (own_digest := digest(weights)) != self.sha256:
            raise ModelDamaged(
                f"model {self.recipe.name}: seed {self.recipe.seed} makes weights of SHA-256 "
                f"{own_digest}, and the recipe says {self.sha256}"
            )
        return weights
