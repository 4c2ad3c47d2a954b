"""One step of adversarial training: encoder G and discriminator D (paper, algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stream_icd.core.errors import BadSettings
from stream_icd.learning.training.icd.training_graph import TrainingGraph
from stream_icd.methods.icd.encoder.contract import (
    Differentiable,
    Weights,
    encoder,
    initial_weight,
    initial_weights,
)
from stream_icd.methods.icd.presets import PRESETS
from stream_icd.methods.icd.recipe import Recipe

_EPSILON = 1e-15
"""Added to each probability before the logarithm, as in the authors' scripts."""


def _initial_discriminator(widths: tuple[int, ...], rng: np.random.Generator) -> Weights:
    """The weights of a multi-layer perceptron: matrices drawn as Xavier, and biases of zero."""
    weights: Weights = {}
    for k, step in enumerate(pairwise(widths)):
        weights[f"layer.{k}"] = initial_weight(rng, step, "xavier")
        weights[f"bias.{k}"] = np.zeros(step[1], np.float32)
    return weights


def _discriminate(weights: Mapping[str, Tensor], embedding: Tensor) -> Tensor:
    """D(U), `(n,)`: the probability that each row of U, `(n, d)`, is label-induced (eq. 7)."""
    hidden = embedding
    n_layers = len(weights) // 2
    for k in range(n_layers):
        hidden = hidden @ weights[f"layer.{k}"] + weights[f"bias.{k}"]
        hidden = hidden.relu() if k < n_layers - 1 else hidden.sigmoid()
    return hidden[:, 0]


def discriminator_loss(
    label_induced: Tensor, embedded: Tensor, form: Literal["paper", "scripts"]
) -> Tensor:
    """The loss of D, given D(Uᵍ) and D(U), `(n,)` each; see `Recipe.losses`."""
    truth = (label_induced + _EPSILON).log().mean()
    if form == "paper":
        return -truth - (1 - embedded + _EPSILON).log().mean()
    return (embedded + _EPSILON).log().mean() - truth


def adversarial_loss(embedded: Tensor) -> Tensor:
    """AL = −mean log D(U): low if D takes the rows of U for label-induced ones."""
    return -(embedded + _EPSILON).log().mean()


Parameters = dict[str, Tensor]


class Adversaries:
    """The encoder G and the discriminator D, which are trained against each other.

    Raises:
        BadSettings: the recipe has no discriminator, or an encoder that only labels can train.
    """

    def __init__(self, recipe: Recipe, device: str = "cpu") -> None:
        if recipe.discriminator_widths is None:
            raise BadSettings(
                f"the recipe {recipe.name!r} trains no encoder, since it has no "
                f"discriminator_widths: take one of the paper's, {', '.join(PRESETS)}"
            )
        trained = encoder(recipe.encoder)
        if not isinstance(trained, Differentiable):
            raise BadSettings(
                f"the recipe {recipe.name!r} has the encoder {recipe.encoder.kind}, which learns "
                "from labels and needs no discriminator: leave out discriminator_widths, or take "
                "another encoder"
            )
        rng = np.random.default_rng([recipe.seed, 1])
        self._recipe, self._encoder = recipe, trained
        self.generator = _parameters(initial_weights(recipe), device)
        self.discriminator = _parameters(
            _initial_discriminator(recipe.discriminator_widths, rng), device
        )
        self._players = {"G": self.generator, "D": self.discriminator}
        self._optimisers = {
            player: _optimiser(parameters, recipe) for player, parameters in self._players.items()
        }

    def step(
        self, graph: TrainingGraph, rows: NDArray[np.int64] | None, update: bool = True
    ) -> dict[str, float]:
        """Update D, then G, on one graph; return each loss by name, as it was before the update.

        FR and CR are computed from these rows of X; None: all. Without `update`, nothing changes.
        """
        encode = partial(self._encoder.forward, self.generator, graph.features)
        embedded = encode(graph.neighbourhood)  # D's update does not change it
        with torch.no_grad():  # no gradients for G: this step updates D only
            induced = encode(graph.label_induced)
        losses = {"discriminator": self._step_discriminator(induced, embedded.detach(), update)}
        return losses | self._step_generator(graph, embedded, rows, update)

    def generator_weights(self) -> Weights:
        """The parameters of G, in the form of `Model.weights`."""
        return {
            name: weight.detach().cpu().numpy().copy() for name, weight in self.generator.items()
        }

    def state(self) -> Parameters:
        """Parameters and optimiser states by name: all that is needed to resume."""
        flat: Parameters = {}
        for player, parameters in self._players.items():
            flat |= {f"{player}.{name}": weight.detach() for name, weight in parameters.items()}
        for player, optimiser in self._optimisers.items():
            for index, moments in optimiser.state_dict()["state"].items():
                flat |= {f"{player}.moment.{index}.{key}": m for key, m in moments.items()}
        return flat

    def restore(self, flat: Parameters) -> None:
        """Resume from what `state` returned."""
        with torch.no_grad():
            for player, parameters in self._players.items():
                for name, weight in parameters.items():
                    weight.copy_(flat[f"{player}.{name}"])
        for player, optimiser in self._optimisers.items():
            state: dict[int, Parameters] = {}
            for name, moment in flat.items():
                if name.startswith(f"{player}.moment."):
                    index, key = name.split(".")[2:]
                    state.setdefault(int(index), {})[key] = moment
            groups = optimiser.state_dict()["param_groups"]
            optimiser.load_state_dict({"state": state, "param_groups": groups})

    def _step_discriminator(self, induced: Tensor, embedded: Tensor, update: bool) -> float:
        loss = discriminator_loss(
            _discriminate(self.discriminator, induced),
            _discriminate(self.discriminator, embedded),
            self._recipe.losses.discriminator,
        )
        if update:
            _descend(self._optimisers["D"], loss)
        return loss.item()

    def _step_generator(
        self, graph: TrainingGraph, embedded: Tensor, rows: NDArray[np.int64] | None, update: bool
    ) -> dict[str, float]:
        settings = self._recipe.losses
        adversarial = adversarial_loss(_discriminate(self.discriminator, embedded))
        reconstruction, regularisation = graph.reconstruction.losses(embedded, rows)
        loss = settings.alpha * reconstruction + settings.beta * regularisation
        if settings.adversarial:
            loss = loss + adversarial
        if update:
            _descend(self._optimisers["G"], loss)
        return {
            "adversarial": adversarial.item(),
            "reconstruction": reconstruction.item(),
            "regularisation": regularisation.item(),
        }


def _parameters(weights: Weights, device: str) -> Parameters:
    return {
        name: torch.as_tensor(weight.copy(), device=device).requires_grad_()
        for name, weight in weights.items()
    }


def _optimiser(parameters: Parameters, recipe: Recipe) -> torch.optim.Optimizer:
    settings = recipe.optimiser
    kind = torch.optim.Adam if settings.kind == "adam" else torch.optim.RMSprop
    return kind(parameters.values(), lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
