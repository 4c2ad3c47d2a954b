"""Encoders: what each of them promises, which there are, and their weights before training.

An encoder maps any graph to one row per node, in any order of the nodes.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.methods.icd.recipe import EncoderSettings, Initialisation, Recipe
from stream_icd.methods.icd.row_blocks import Floats32, for_blocks

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood
    from stream_icd.methods.icd.features import SparsePlusRankOne

Weights = dict[str, NDArray[np.float32]]
"""An encoder's parameters by name: what a model file holds."""

ENCODERS = {"gcn": "layers", "gat": "layers", "gin": "layers", "hops": "hops", "edges": "edges"}
"""The module whose `KINDS` has the class of every encoder; a contract test runs on each."""

_BLOCK = 1024
"""Rows of a Hadamard matrix to compute at a time."""


class Encoder(ABC):
    """An inductive encoder: `embed` runs it frozen and returns the embedding U, `(n, d)`.

    Permuting the nodes and their features permutes the rows of U. The shapes of the weights do not
    depend on the number of nodes.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self.settings = settings

    @abstractmethod
    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter."""

    def initial_weights(self, rng: np.random.Generator) -> Weights:
        """Weights before any training, float32: each by the recipe's initialisation."""
        kind, shapes = self.settings.initialisation, self.weight_shapes()
        return {name: initial_weight(rng, shape, kind) for name, shape in shapes.items()}

    @abstractmethod
    def embed(
        self, weights: Weights, features: SparsePlusRankOne, adjacency: csr_array, threads: int = 1
    ) -> Floats32:
        """U of a graph `(n, n)` with reduced features Z, `(n, L)`."""

    @staticmethod
    def _uniform(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """Numbers from -1 to 1, from raw output of the bit generator."""
        # Versions of NumPy share raw bits, but not what distributions make of them.
        raw = np.asarray(rng.bit_generator.random_raw(n))
        return (raw >> np.uint64(11)).astype(np.float64) / 2**52 - 1

    def _scaled_rows(self, hidden: Floats32) -> Floats32:
        """The rows in place, to length 1 if the recipe says so; a row of zeros stays zero."""
        if self.settings.normalise_rows:
            lengths = np.sqrt(np.einsum("ij,ij->i", hidden, hidden))
            hidden /= np.maximum(lengths, 1e-12)[:, None]
        return hidden

    def _propagated(
        self, propagation: csr_array, mixed: Floats32, threads: int, squash: bool = False
    ) -> Floats32:
        """P H, or tanh(P H), rows optionally to length 1; one block of rows at a time."""
        result = np.empty_like(mixed)

        def fill(rows: slice) -> None:
            block = propagation[rows] @ mixed
            if squash:
                np.tanh(block, out=block)
            result[rows] = self._scaled_rows(block)

        for_blocks(fill, len(mixed), threads)
        return result

    def _averaged(self, propagation: csr_array, hidden: Floats32, threads: int) -> Floats32:
        """The embedding after the recipe's `smoothing`, as `Differentiable.smoothed`."""
        for _ in range(self.settings.smoothing):
            hidden = self._propagated(propagation, hidden, threads)
        return hidden


class Differentiable(Encoder):
    """An encoder that the paper's losses can train, on torch.

    `forward` returns the same embedding as `embed` for the same weights.
    """

    @abstractmethod
    def forward(
        self, weights: Mapping[str, Tensor], features: FeatureTensors, neighbourhood: Neighbourhood
    ) -> Tensor:
        """U, differentiable in the weights, over the neighbourhood of any graph."""

    def scaled(self, hidden: Tensor) -> Tensor:
        """Each row scaled to length 1 if the recipe says so; a row of zeros stays zero."""
        if not self.settings.normalise_rows:
            return hidden
        length: Tensor = hidden.norm(dim=1, keepdim=True)
        return hidden / length.clamp_min(1e-12)

    def smoothed(self, hidden: Tensor, neighbourhood: Neighbourhood) -> Tensor:
        """The embedding after the recipe's `smoothing`."""
        for _ in range(self.settings.smoothing):
            hidden = self.scaled(neighbourhood.convolve(hidden))
        return hidden


def encoder(settings: EncoderSettings) -> Encoder:
    """The encoder of these settings."""
    # Imported here: `edges` loads numba, a third of the start of a detector's main process, which
    # encodes nothing.
    module = import_module(f"{__package__}.{ENCODERS[settings.kind]}")
    kinds: Mapping[str, type[Encoder]] = module.KINDS
    return kinds[settings.kind](settings)


def initial_weights(recipe: Recipe) -> Weights:
    """The encoder's weights before training, from the recipe's seed.

    The bit generator is explicit: numpy guarantees the bits of PCG64, but not that it stays the
    default.
    """
    rng = np.random.Generator(np.random.PCG64(recipe.seed))
    return encoder(recipe.encoder).initial_weights(rng)


def digest(weights: Weights) -> str:
    """SHA-256 of names and values, sorted by name, with values as little-endian float32."""
    sha256 = hashlib.sha256()
    for name in sorted(weights):
        # Names too: weights of other names in the same order would have the same digest.
        sha256.update(name.encode())
        sha256.update(np.ascontiguousarray(weights[name], "<f4").data)
    return sha256.hexdigest()


def initial_weight(
    rng: np.random.Generator, shape: tuple[int, ...], kind: Initialisation
) -> NDArray[np.float32]:
    """An initial weight matrix of shape `(n_in, n_out)`, float32; or a vector, as one column.

    "xavier": uniform in ±√(6 / (n_in + n_out)) (Glorot and Bengio, AISTATS 2010).
    "orthogonal": orthonormal columns (rows, if there are fewer), so distances are preserved; a
    vector is as with "xavier".
    "hadamard": the same if the larger width is a power of 2, otherwise close to it: rows and
    columns of a Walsh–Hadamard matrix. One seed gives the same bits on every machine.
    """
    n_in, n_out = shape if len(shape) == 2 else (*shape, 1)
    if kind == "hadamard":
        return _hadamard_matrix(rng.bit_generator, (n_in, n_out)).reshape(shape)
    if kind == "xavier" or len(shape) == 1:
        bound = np.sqrt(6 / (n_in + n_out))
        return rng.uniform(-bound, bound, shape).astype(np.float32)
    tall = rng.standard_normal((max(n_in, n_out), min(n_in, n_out)))
    basis, _ = np.linalg.qr(tall)
    return np.ascontiguousarray(basis if n_in >= n_out else basis.T, dtype=np.float32)


@lru_cache(maxsize=16)
def projection(n_features: int, width: int, number: int = 0) -> Floats32:
    """R, `(n_features, width)`, random: each number's is the same in every model and machine."""
    return _hadamard_matrix(np.random.PCG64(number), (n_features, width))


def _hadamard_matrix(bits: np.random.BitGenerator, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Rows and columns of a Walsh–Hadamard matrix, drawn at random, each row with a random sign.

    Every entry is ±1/√max(n_in, n_out): element (i, j) of Sylvester's matrix of order 2^p is
    (−1)^(number of bits that i and j share). It is the subsampled randomised Hadamard transform
    (Ailon and Chazelle, STOC 2006; Tropp, 2011). It uses only raw output of the bit generator,
    integers and one square root, which are the same on every platform and numpy version.

    Args:
        bits: the generator; its next 3 · 2^p numbers are used.
        shape: `(n_in, n_out)`, widths from 1 to 2^16.
    """
    n_in, n_out = shape
    order = 1 << (max(shape) - 1).bit_length()
    rows, columns, signs = (np.asarray(bits.random_raw(order)) for _ in range(3))
    row = np.argsort(rows, kind="stable")[:n_in].astype(np.uint16)
    column = np.argsort(columns, kind="stable")[:n_out].astype(np.uint16)
    flipped = (signs[:n_in] >> np.uint64(63)).astype(np.uint16)
    size = np.float32(1 / np.sqrt(max(shape)))
    matrix = np.empty(shape, np.float32)
    for start in range(0, n_in, _BLOCK):
        block = slice(start, start + _BLOCK)
        odd = _parity(row[block, None] & column) ^ flipped[block, None]
        matrix[block] = np.where(odd == 1, -size, size)
    return matrix


def _parity(numbers: NDArray[Any]) -> NDArray[Any]:
    """1 if a 16-bit number has an odd count of ones, else 0."""
    for shift in (8, 4, 2, 1):
        numbers = numbers ^ (numbers >> shift)
    return numbers & 1
