"""Initial weights."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Initialisation = Literal["xavier", "orthogonal", "hadamard"]

_BLOCK = 1024
"""Rows of a Hadamard matrix to compute at a time."""


def initial_weight(
    rng: np.random.Generator, shape: tuple[int, ...], kind: Initialisation
) -> NDArray[np.float32]:
    """An initial weight matrix of shape `(n_in, n_out)`, float32; or a vector, as one column.

    "xavier": uniform in ±√(6 / (n_in + n_out)) (Glorot and Bengio, AISTATS 2010).
    "orthogonal": orthonormal columns (rows, if there are fewer), so distances are preserved; a
    vector is as with "xavier".
    "hadamard": the same if the larger width is a power of 2, otherwise close to it; see
    `hadamard_matrix`. One seed gives the same bits on every machine.
    """
    n_in, n_out = shape if len(shape) == 2 else (*shape, 1)
    if kind == "hadamard":
        return hadamard_matrix(rng.bit_generator, (n_in, n_out)).reshape(shape)
    if kind == "xavier" or len(shape) == 1:
        bound = np.sqrt(6 / (n_in + n_out))
        return rng.uniform(-bound, bound, shape).astype(np.float32)
    tall = rng.standard_normal((max(n_in, n_out), min(n_in, n_out)))
    basis, _ = np.linalg.qr(tall)
    return np.ascontiguousarray(basis if n_in >= n_out else basis.T, dtype=np.float32)


def hadamard_matrix(bits: np.random.BitGenerator, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Rows and columns of a Walsh–Hadamard matrix, drawn at random, each row with a random sign.

    Every entry is ±1/√max(n_in, n_out): element (i, j) of Sylvester's matrix of order 2^p is
    (−1)^(number of bits that i and j share). It is the subsampled randomised Hadamard transform
    (Ailon and Chazelle, STOC 2006; Tropp, 2011). It uses only raw output of the bit generator,
    integers and one square root, which are the same on every platform and numpy version.

    Args:
        bits: the generator; its next 3 · 2^p numbers are used.
        shape: `(n_in, n_out)`, widths from 1 to 2^16.

    >>> abs(hadamard_matrix(np.random.PCG64(0), (4, 2))).tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
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
