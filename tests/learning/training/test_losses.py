"""The losses have the paper's values, in blocks and from sampled rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from stream_icd.learning.training.icd import training_graph
from stream_icd.learning.training.icd.adversaries import adversarial_loss, discriminator_loss
from stream_icd.learning.training.icd.training_graph import Reconstruction
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.features import structure_matrix
from stream_icd.methods.icd.recipe import Variant


@pytest.fixture(scope="module")
def embedding() -> torch.Tensor:
    rows = np.random.default_rng(0).standard_normal((300, 8)) / 3
    return torch.from_numpy(rows).float().requires_grad_()


def dense_losses(
    graph: LabelledGraph, embedding: torch.Tensor, variant: Variant, scaled: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The paper's formulae, written down with dense matrices."""
    x = structure_matrix(graph.adjacency, variant).toarray()
    if scaled:
        x = 2 * (x - x.min()) / (x.max() - x.min()) - 1
    members = np.eye(graph.n_communities)[graph.labels]
    if variant == "ICD-C":
        degrees = graph.adjacency.sum(axis=1)
        members = np.sqrt(degrees)[:, None] * members / np.sqrt(members.T @ degrees)
    rebuilt = torch.tanh(embedding @ embedding.T)
    h = torch.from_numpy(members).float()
    return (rebuilt - torch.from_numpy(x).float()).square().sum(), -torch.trace(h.T @ rebuilt @ h)


@pytest.mark.parametrize(
    ("variant", "scaled", "block"),
    [("ICD-M", False, 128), ("ICD-M", True, 1024), ("ICD-C", True, 128)],
)
def test_reconstruction_and_regularisation_equal_the_dense_formulae(
    graph: LabelledGraph,
    embedding: torch.Tensor,
    variant: Variant,
    scaled: bool,
    block: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_graph, "_BLOCK_ROWS", block)
    found = Reconstruction(graph.adjacency, graph.labels, variant, scaled).losses(embedding)
    expected = dense_losses(graph, embedding, variant, scaled)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
    gradients = [torch.autograd.grad(sum(pair), embedding)[0] for pair in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


def test_sampled_rows_are_right_on_average(graph: LabelledGraph, embedding: torch.Tensor) -> None:
    reconstruction = Reconstruction(graph.adjacency, graph.labels, "ICD-M")
    order = np.random.default_rng(1).permutation(300)
    parts = [reconstruction.losses(embedding, rows) for rows in np.split(order, 10)]
    mean = torch.stack([torch.stack(part) for part in parts]).detach().mean(dim=0)
    torch.testing.assert_close(mean, torch.stack(reconstruction.losses(embedding)).detach())


def test_the_discriminator_is_rewarded_for_telling_the_two_apart() -> None:
    high, low = torch.full((4,), 0.9), torch.full((4,), 0.1)
    for form in ("paper", "scripts"):
        right, wrong = discriminator_loss(high, low, form), discriminator_loss(low, high, form)
        assert right < wrong
    paper = -np.log(0.9) - np.log(1 - 0.1)
    assert discriminator_loss(high, low, "paper").item() == pytest.approx(paper)
    scripts = np.log(0.1) - np.log(0.9)
    assert discriminator_loss(high, low, "scripts").item() == pytest.approx(scripts)


def test_the_generator_is_rewarded_for_fooling() -> None:
    assert adversarial_loss(torch.tensor([0.5, 0.25])).item() == pytest.approx(
        -(np.log(0.5) + np.log(0.25)) / 2
    )


def test_a_probability_of_zero_is_no_infinity() -> None:
    zero, one = torch.zeros(3), torch.ones(3)
    assert torch.isfinite(adversarial_loss(zero))
    assert torch.isfinite(discriminator_loss(zero, one, "scripts"))
