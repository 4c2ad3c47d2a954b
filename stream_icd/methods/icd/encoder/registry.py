"""All encoders by their kind, and their weights before training."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import import_module

import numpy as np

from stream_icd.methods.icd.encoder.contract import Encoder, Weights
from stream_icd.methods.icd.recipe import EncoderKind, EncoderSettings, Recipe

ENCODERS: Mapping[EncoderKind, tuple[str, str]] = {
    "gcn": ("gcn", "Gcn"),
    "gat": ("on_torch", "Gat"),
    "gin": ("on_torch", "Gin"),
    "hops": ("hops", "Hops"),
    "edges": ("edges", "Edges"),
}
"""The module and the class of every encoder; a contract test runs on each."""


def _encoder_class(kind: EncoderKind) -> type[Encoder]:
    """The class of an encoder, imported on first use.

    `edges` imports numba, a third of the start of a detector's main process, which encodes nothing.
    """
    module, name = ENCODERS[kind]
    found: type[Encoder] = getattr(import_module(f"{__package__}.{module}"), name)
    return found


def encoder(settings: EncoderSettings) -> Encoder:
    """The encoder of these settings."""
    return _encoder_class(settings.kind)(settings)


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
