"""Every registered encoder keeps the contract; a new one is found here by itself."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from stream_icd.core.errors import BadSettings
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import Differentiable, Encoder, Weights
from stream_icd.methods.icd.encoder.edges import ROUNDS, round_projection
from stream_icd.methods.icd.encoder.hops import projection
from stream_icd.methods.icd.encoder.registry import ENCODERS, encoder
from stream_icd.methods.icd.features import reduced_features
from stream_icd.methods.icd.recipe import EncoderSettings
from stream_icd.methods.icd.structure import SparsePlusRankOne, propagation_matrix

torch = pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")

from stream_icd.methods.icd.encoder.neighbourhood import (  # noqa: E402 - imports torch
    FeatureTensors,
    GraphNeighbourhood,
)

LAST_HOPS = 10
every_encoder = pytest.mark.parametrize("kind", sorted(ENCODERS))
every_differentiable = pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in sorted(ENCODERS)
        if isinstance(encoder(EncoderSettings(kind=kind, widths=(8, 4))), Differentiable)
    ],
)
both_normalisations = pytest.mark.parametrize("normalise_rows", [True, False])


def settings_of(kind: str, normalise_rows: bool = True) -> EncoderSettings:
    return EncoderSettings(
        kind=kind, widths=(64, 32, 16), normalise_rows=normalise_rows, smoothing=1
    )


def initial(settings: EncoderSettings, seed: int = 0) -> tuple[Encoder, Weights]:
    chosen = encoder(settings)
    return chosen, chosen.initial_weights(np.random.default_rng(seed))


def forward(
    settings: EncoderSettings,
    weights: dict[str, torch.Tensor],  # type: ignore[name-defined]
    graph: LabelledGraph,
    features: SparsePlusRankOne,
) -> torch.Tensor:  # type: ignore[name-defined]
    chosen = encoder(settings)
    assert isinstance(chosen, Differentiable)
    return chosen.forward(weights, FeatureTensors(features), GraphNeighbourhood(graph.adjacency))


@every_encoder
def test_weights_have_the_declared_shapes(kind: str) -> None:
    settings = settings_of(kind)
    chosen, weights = initial(settings)
    assert {name: w.shape for name, w in weights.items()} == chosen.weight_shapes()
    assert all(w.dtype == np.float32 for w in weights.values())


@every_encoder
def test_weights_depend_on_the_seed_alone(kind: str) -> None:
    settings = settings_of(kind)
    first, again, other = (initial(settings, seed)[1] for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


@every_differentiable
@both_normalisations
def test_frozen_and_trainable_forms_agree(
    kind: str, normalise_rows: bool, graph: LabelledGraph
) -> None:
    settings = settings_of(kind, normalise_rows)
    chosen, weights = initial(settings)
    for variant in ("ICD-M", "ICD-C"):
        features = reduced_features(graph.adjacency, variant, 64)
        frozen = chosen.embed(weights, features, graph.adjacency)
        tensors = {name: torch.from_numpy(w) for name, w in weights.items()}
        trainable = forward(settings, tensors, graph, features).numpy()
        assert frozen.shape == (300, 16)
        assert frozen.dtype == np.float32
        np.testing.assert_allclose(frozen, trainable, atol=1e-5)


def dense_hops(weights: Weights, adjacency: np.ndarray, features: np.ndarray) -> np.ndarray:
    (a, b, c), degrees = weights["exponents"], adjacency.sum(axis=1)
    step = degrees[:, None] ** -a * adjacency * degrees**-b
    first = degrees[:, None] ** -c * features @ projection(features.shape[1], 16)
    powers = (np.linalg.matrix_power(step, k) for k in range(len(weights["hops"])))
    return sum(w * power @ first for w, power in zip(weights["hops"], powers, strict=True))


def dense_edges(adjacency: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Without training, no edge's weight changes."""
    hidden, hops = features @ round_projection(features.shape[1], 16, ROUNDS), []
    hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
    for _ in range(LAST_HOPS):
        hidden = adjacency * adjacency.sum(axis=1) ** -0.1 @ hidden
        hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
        hops.append(hidden)
    return np.mean(hops[LAST_HOPS // 2 :], axis=0)


def dense_layer(
    kind: str, weights: Weights, adjacency: np.ndarray, hidden: np.ndarray
) -> np.ndarray:
    """One layer as its paper writes it, with dense matrices; biases and rows left alone."""
    with_loops = adjacency + np.eye(len(adjacency))
    if kind == "hops":
        return dense_hops(weights, adjacency, hidden)
    if kind == "edges":
        return dense_edges(adjacency, hidden)
    mixed = hidden @ weights["layer.0"]
    if kind == "gcn":
        root = 1 / np.sqrt(with_loops.sum(axis=1))
        return np.tanh(root[:, None] * with_loops * root @ mixed)
    if kind == "gin":
        return np.tanh(np.tanh(with_loops @ mixed) @ weights["second.0"])
    score = np.add.outer(mixed @ weights["source.0"], mixed @ weights["target.0"])
    attention = np.exp(np.where(score > 0, score, 0.2 * score)) * (with_loops > 0)
    return np.tanh(attention / attention.sum(axis=1, keepdims=True) @ mixed)


@every_encoder
def test_a_layer_is_the_formula_of_its_paper(kind: str, graph: LabelledGraph) -> None:
    settings = EncoderSettings(kind=kind, widths=(64, 16), normalise_rows=False)
    chosen, weights = initial(settings)
    features = reduced_features(graph.adjacency, "ICD-M", 64)
    found = chosen.embed(weights, features, graph.adjacency)
    expected = dense_layer(kind, weights, graph.adjacency.toarray(), features.toarray())
    np.testing.assert_allclose(found, expected, atol=1e-5)


@every_encoder
def test_rows_have_length_one_where_the_recipe_says_so(kind: str, graph: LabelledGraph) -> None:
    settings = settings_of(kind)
    chosen, weights = initial(settings)
    features = reduced_features(graph.adjacency, "ICD-M", 64)
    embedding = chosen.embed(weights, features, graph.adjacency)
    np.testing.assert_allclose(np.linalg.norm(embedding, axis=1), 1, rtol=1e-5)


@every_encoder
@both_normalisations
def test_permuting_the_nodes_permutes_the_rows(
    kind: str, normalise_rows: bool, graph: LabelledGraph
) -> None:
    settings = settings_of(kind, normalise_rows)
    chosen, weights = initial(settings)
    features = reduced_features(graph.adjacency, "ICD-M", 64)
    order = np.random.default_rng(3).permutation(300)
    u, v = features.outer
    permuted = SparsePlusRankOne(features.sparse[order], (u[order], v))
    adjacency = graph.adjacency[order][:, order].tocsr()
    adjacency.sort_indices()
    expected = chosen.embed(weights, features, graph.adjacency)[order]
    np.testing.assert_allclose(chosen.embed(weights, permuted, adjacency), expected, atol=1e-5)


@every_encoder
def test_smoothing_averages_the_finished_embedding(kind: str, graph: LabelledGraph) -> None:
    features = reduced_features(graph.adjacency, "ICD-M", 64)
    plain, smooth = (
        EncoderSettings(kind=kind, widths=(64, 32, 16), smoothing=times) for times in (0, 2)
    )
    chosen, weights = initial(plain)
    expected = chosen.embed(weights, features, graph.adjacency)
    for _ in range(2):
        expected = propagation_matrix(graph.adjacency) @ expected
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = encoder(smooth).embed(weights, features, graph.adjacency)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@every_encoder
def test_one_thread_and_two_give_the_same_bits(kind: str) -> None:
    from stream_icd.methods.synthetic.gn import generate_gn

    adjacency = generate_gn(np.random.default_rng(0), 2500, 50, 0.3, 0.002).adjacency()
    settings = EncoderSettings(kind=kind, widths=(256, 128, 64))
    chosen, weights = initial(settings)
    features = reduced_features(adjacency, "ICD-M", 256)
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):  # the machine's BLAS may use as many, too
            answers.append(chosen.embed(weights, features, adjacency, threads))
    assert np.array_equal(*answers)


@every_differentiable
def test_gradients_are_those_of_finite_differences(kind: str, graph: LabelledGraph) -> None:
    settings = settings_of(kind)
    _, weights = initial(settings)
    features = reduced_features(graph.adjacency, "ICD-M", 64)
    aim = torch.from_numpy(np.random.default_rng(4).standard_normal((300, 16))).float()
    tensors = {name: torch.from_numpy(w).requires_grad_() for name, w in weights.items()}
    (forward(settings, tensors, graph, features) * aim).sum().backward()
    for name in weights:
        gradient = tensors[name].grad
        # Where the slope is slight, far enough that rounding the sum to float32 does not count.
        step = max(0.02, 6e-4 / gradient.norm()) / gradient.norm()
        values = []
        for sign in (1, -1):
            moved = {n: t.detach() for n, t in tensors.items()}
            moved[name] = moved[name] + sign * step * gradient
            values.append((forward(settings, moved, graph, features) * aim).sum().item())
        slope = (values[0] - values[1]) / (2 * step.item())
        assert slope == pytest.approx(gradient.square().sum().item(), rel=0.05)


def test_an_unknown_encoder_is_told_which_there_are() -> None:
    with pytest.raises(BadSettings, match="gcn"):
        encoder(EncoderSettings(kind="transformer", widths=(4, 2)))
