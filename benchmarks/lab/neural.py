"""What the neural methods share: a graph's matrices as tensors, first weights, and training.

Torch is imported when it is used, so that the methods can be listed without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array

from stream_icd.interfaces.evaluation.method import module

if TYPE_CHECKING:
    from torch import Tensor

Weights = dict[str, "Tensor"]
Learned = dict[str, NDArray[np.float32]]
"""Weights that can be pickled."""

needs_torch = module("torch", "pip install 'stream-icd[lab]'")


@contextmanager
def torch_alone(seed: int) -> Iterator[None]:
    """Torch on one thread, with its draws from this seed; both are put back afterwards. Denormal
    numbers are 0 in here: the softmax of a trained network has many, and they are slow.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)


def row_normalised(adjacency: csr_array) -> csr_array:
    """D⁻¹A: the mean over the neighbours, weighted by the edges."""
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    return csr_array(diags_array(1 / np.where(degrees > 0, degrees, 1.0)) @ adjacency)


def renormalised(adjacency: csr_array) -> csr_array:
    """D̃^-½(A + I)D̃^-½, the propagation of a graph convolution (Kipf, Welling 2017, equation 2)."""
    with_loops = csr_array(adjacency + eye_array(adjacency.shape[0]))
    scale = diags_array(1 / np.sqrt(np.asarray(with_loops.sum(axis=1)).ravel()))
    return csr_array(scale @ with_loops @ scale)


def tensor_of(matrix: csr_array) -> Tensor:
    """The same matrix as a sparse tensor of 32-bit numbers."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.tensor(matrix.indptr, dtype=torch.int64),
            torch.tensor(matrix.indices, dtype=torch.int64),
            torch.tensor(matrix.data, dtype=torch.float32),
            size=matrix.shape,
            check_invariants=False,
        )


def first_weights(shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    """Matrices by Glorot's uniform distribution, vectors of zeros; all to be trained."""
    import torch

    weights = {name: torch.zeros(shape) for name, shape in shapes.items()}
    for weight in weights.values():
        if weight.ndim > 1:
            torch.nn.init.xavier_uniform_(weight)
        weight.requires_grad_()
    return weights


def train(weights: Weights, loss: Callable[[int], Tensor], steps: int, rate: float) -> None:
    """Change the weights in place: steps of Adam on the loss, which is given the step's number."""
    import torch

    optimiser = torch.optim.Adam(list(weights.values()), rate)
    for step in range(steps):
        optimiser.zero_grad()
        loss(step).backward()
        optimiser.step()


def frozen(weights: Weights) -> Learned:
    """The weights as arrays."""
    return {name: weight.detach().numpy().copy() for name, weight in weights.items()}


def thawed(learned: Learned) -> Weights:
    """The weights of arrays, not to be trained."""
    import torch

    return {name: torch.tensor(weight) for name, weight in learned.items()}
