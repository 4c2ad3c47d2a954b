"""Weights before training."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray


def initial_matrix(
    rng: np.random.Generator, shape: tuple[int, int], kind: Literal["xavier", "orthogonal"]
) -> NDArray[np.float32]:
    """A weight matrix of that shape, `(n_in, n_out)`, float32.

    "xavier": uniform in ±√(6 / (n_in + n_out)) (Glorot and Bengio, AISTATS 2010).
    "orthogonal": orthonormal columns (rows, where there are fewer), so distances survive.
    """
    n_in, n_out = shape
    if kind == "xavier":
        bound = np.sqrt(6 / (n_in + n_out))
        return rng.uniform(-bound, bound, shape).astype(np.float32)
    tall = rng.standard_normal((max(n_in, n_out), min(n_in, n_out)))
    basis, _ = np.linalg.qr(tall)
    return np.ascontiguousarray(basis if n_in >= n_out else basis.T, dtype=np.float32)
