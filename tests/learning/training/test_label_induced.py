"""The implicit label-induced graph gives what the dense matrix R Rᵀ would."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from stream_icd.learning.training.icd.training_graph import LabelInducedNeighbourhood
from stream_icd.methods.icd.encoder.neighbourhood import GraphNeighbourhood

LABELS = np.array([0, 1, 0, 2, 1, 0, 1], dtype=np.int32)
HIDDEN = torch.from_numpy(np.random.default_rng(0).standard_normal((7, 3))).float()


def dense() -> torch.Tensor:
    one_hot = torch.from_numpy(np.eye(3, dtype=np.float32)[LABELS])
    return one_hot @ one_hot.T


def test_convolution_equals_the_dense_normalised_matrix() -> None:
    with_loops = dense() + torch.eye(7)
    root = with_loops.sum(dim=1).rsqrt()
    expected = (root[:, None] * with_loops * root) @ HIDDEN
    torch.testing.assert_close(LabelInducedNeighbourhood(LABELS).convolve(HIDDEN), expected)


def test_total_equals_the_dense_product() -> None:
    torch.testing.assert_close(LabelInducedNeighbourhood(LABELS).total(HIDDEN), dense() @ HIDDEN)


@pytest.mark.parametrize("which", ["label-induced", "graph"])
def test_attention_equals_a_masked_dense_softmax(which: str) -> None:
    source, target = torch.linspace(-1, 1, 7), torch.linspace(2, -2, 7).roll(2)
    if which == "graph":
        graph = GraphNeighbourhood(csr_array((dense() - torch.eye(7)).numpy().astype(float)))
        found = graph.attend(source, target, HIDDEN)
    else:
        found = LabelInducedNeighbourhood(LABELS).attend(source, target, HIDDEN)
    score = torch.nn.functional.leaky_relu(source[:, None] + target, 0.2)
    score = score.masked_fill(dense() == 0, -torch.inf)
    torch.testing.assert_close(found, score.softmax(dim=1) @ HIDDEN)
