"""A frozen model: what training produces, and all that detection needs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from stream_icd.bp.parameters import BpParameters
from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.encoder.registry import encoder
from stream_icd.icd.recipe import Recipe


def initial_weights(recipe: Recipe) -> Weights:
    """The encoder's weights before training, from the recipe's seed.

    The bit generator is explicit: numpy guarantees the bits of PCG64, but not that it stays the
    default.
    """
    rng = np.random.Generator(np.random.PCG64(recipe.seed))
    return encoder(recipe.encoder).initial_weights(rng)


def can_be_made_again(recipe: Recipe, weights: Weights) -> bool:
    """Whether the recipe's seed reproduces these weights, bit for bit, on every machine.

    This holds for untrained Hadamard weights. Orthogonal weights come from a matrix factorisation,
    whose last bits depend on the linear algebra library.
    """
    if recipe.encoder.initialisation != "hadamard":
        return False
    initial = initial_weights(recipe)
    return all(np.array_equal(initial[name], weights[name]) for name in initial)


def digest(weights: Weights) -> str:
    """SHA-256 of names and values, sorted by name, with values as little-endian float32."""
    sha256 = hashlib.sha256()
    for name in sorted(weights):
        sha256.update(name.encode())
        sha256.update(np.ascontiguousarray(weights[name], "<f4").data)
    return sha256.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """How a model was trained, and what was learned.

    Attributes:
        weights: the encoder's parameters, float32, by name.
        bp: the learned parameters of the method bp, or its defaults.
    """

    recipe: Recipe
    weights: Weights
    bp: BpParameters = field(default_factory=BpParameters)


def initial_model(recipe: Recipe, bp: BpParameters = BpParameters()) -> Model:
    """A model with an untrained encoder: all that bp needs, and the control of trained ones."""
    return Model(recipe, initial_weights(recipe), bp)
