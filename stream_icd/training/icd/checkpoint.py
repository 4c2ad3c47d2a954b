"""Checkpoints: an interrupted training run resumes after its last completed epoch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from stream_icd.errors import BadSettings, ModelDamaged
from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.recipe import Recipe, recipe_to_toml
from stream_icd.training.icd.adversaries import Parameters
from stream_icd.training.icd.epochs import History, history_from_json, history_to_json
from stream_icd.whole_file import whole_file

CHECKPOINT_FILE = "checkpoint.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A run after a whole epoch.

    Attributes:
        history: the epochs so far.
        best: the encoder's weights at the best of them.
        state: parameters and optimisers now; see `Adversaries.state`.
    """

    history: History
    best: Weights
    state: Parameters


def save_checkpoint(run: Checkpoint, recipe: Recipe, folder: Path) -> None:
    """Replace the folder's checkpoint atomically."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in run.state.items()}
    tensors |= {f"best.{name}": torch.from_numpy(weight) for name, weight in run.best.items()}
    head = {"recipe": _digest(recipe), "history": history_to_json(run.history)}
    with whole_file(folder / CHECKPOINT_FILE) as aside:
        save_file(tensors, aside, metadata=head)


def load_checkpoint(recipe: Recipe, folder: Path) -> Checkpoint | None:
    """The folder's checkpoint; None where there is none.

    Raises:
        BadSettings: it belongs to another recipe.
        ModelDamaged: it cannot be read.
    """
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            head = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ModelDamaged(f"{path} cannot be read ({error}): delete it to start again") from error
    if head.get("recipe") != _digest(recipe):
        raise BadSettings(f"{path} belongs to another recipe: give this run its own folder")
    best = {
        name.removeprefix("best."): np.asarray(tensor)
        for name, tensor in tensors.items()
        if name.startswith("best.")
    }
    state = {name: tensor for name, tensor in tensors.items() if not name.startswith("best.")}
    return Checkpoint(history_from_json(head["history"]), best, state)


def _digest(recipe: Recipe) -> str:
    """Digest of the recipe without the number of epochs, so that a run can be extended."""
    whole = recipe_to_toml(recipe.changed(schedule={"epochs": 0}))
    return hashlib.sha256(whole.encode()).hexdigest()
