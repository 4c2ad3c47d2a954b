"""Checkpoints: an interrupted training run resumes after its last completed epoch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from stream_icd.errors import BadSettings, ModelDamaged
from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.recipe import Recipe, recipe_digest
from stream_icd.store.store import Store
from stream_icd.training.icd.adversaries import Parameters
from stream_icd.training.icd.epochs import Epoch, History

CHECKPOINT_FILE = "checkpoint.safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A training run after an epoch: the best weights so far, and `Adversaries.state`."""

    history: History
    best: Weights
    state: Parameters


def save_checkpoint(run: Checkpoint, recipe: Recipe, folder: Store) -> None:
    """Replace the folder's checkpoint atomically."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in run.state.items()}
    tensors |= {f"best.{name}": torch.from_numpy(weight) for name, weight in run.best.items()}
    history = json.dumps([asdict(epoch) for epoch in run.history])
    head = {"recipe": recipe_digest(recipe), "history": history}
    folder.put(CHECKPOINT_FILE, pa.py_buffer(save(tensors, metadata=head)))


def load_checkpoint(recipe: Recipe, folder: Store) -> Checkpoint | None:
    """The folder's checkpoint; None if there is none.

    Raises:
        BadSettings: it belongs to another recipe.
        ModelDamaged: it cannot be read.
    """
    if not folder.exists(CHECKPOINT_FILE):
        return None
    path = f"{folder.place}/{CHECKPOINT_FILE}"
    with folder.open(CHECKPOINT_FILE) as file:
        content: bytes = file.read()
    try:
        tensors = load(content)
        head = _metadata(content)
        if head.get("recipe") != recipe_digest(recipe):
            raise BadSettings(f"{path} belongs to another recipe: give this run its own folder")
        history = tuple(Epoch(**epoch) for epoch in json.loads(head["history"]))
    except (SafetensorError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelDamaged(f"{path} cannot be read ({error}): delete it to start again") from error
    names = [name for name in tensors if name.startswith("best.")]
    best = {name.removeprefix("best."): np.asarray(tensors.pop(name)) for name in names}
    return Checkpoint(history, best, tensors)


def _metadata(content: bytes) -> dict[str, str]:
    """The metadata in a file's JSON header, whose length is in the first 8 bytes."""
    length = int.from_bytes(content[:8], "little")
    found: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return found
