"""Every registered encoder keeps the contract; a new one is found here by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import (
    ENCODERS,
    Differentiable,
    Encoder,
    Weights,
    digest,
    encoder,
    initial_weight,
    initial_weights,
    projection,
)
from stream_icd.methods.icd.features import (
    SparsePlusRankOne,
    model_features,
    propagation_matrix,
)
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe, Variant

torch = pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")

from stream_icd.methods.icd.encoder.neighbourhood import (  # noqa: E402 - imports torch
    FeatureTensors,
    GraphNeighbourhood,
)

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


def z(adjacency: csr_array, size: int, variant: Variant = "ICD-M") -> SparsePlusRankOne:
    encoder = EncoderSettings(widths=(size, 2))
    return model_features(adjacency, Recipe(name="z", variant=variant, encoder=encoder))


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
def test_weights_have_the_declared_shapes_and_depend_on_the_seed_alone(kind: str) -> None:
    settings = settings_of(kind)
    (chosen, first), (_, again), (_, other) = (initial(settings, seed) for seed in (1, 1, 2))
    assert {name: w.shape for name, w in first.items()} == chosen.weight_shapes()
    assert all(w.dtype == np.float32 for w in first.values())
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(
    ("kind", "sha256"),
    [
        ("gcn", "cdcf2361c45e31632db2c5a82337306344dc4924a329253bd5e0c7226f5e2238"),
        ("gat", "911e56e9526530421afedfd9fff5bd9b1086e3ffde7e35ba510a952b69934ac9"),
        ("gin", "c0c85ae0622d78a4726d92e82f371eb07a09ebbde836e45b3b72f6c47d446d3b"),
        ("hops", "93a03a7b8faf0f62058506094ebeb8dd66fd47b52de3617e6597a3c110c3b251"),
        ("edges", "9f5c7d846de4288891537e0dc524e5ab8c38c6208aecdbd4324a4b58731a4768"),
    ],
)
def test_a_seed_makes_the_same_bits_on_every_machine(kind: str, sha256: str) -> None:
    assert set(ENCODERS) == {"gcn", "gat", "gin", "hops", "edges"}
    recipe = Recipe(
        name="pinned",
        encoder={"kind": kind, "widths": (3000, 512, 100), "initialisation": "hadamard"},
        discriminator_widths=(100, 1),
        seed=7,
    )
    assert digest(initial_weights(recipe)) == sha256


@pytest.mark.parametrize("shape", [(64, 16), (16, 64), (32, 32)])
def test_orthogonal_columns_are_orthonormal_or_rows_where_there_are_fewer(
    shape: tuple[int, int],
) -> None:
    matrix = initial_weight(np.random.default_rng(0), shape, "orthogonal")
    tall = matrix if shape[0] >= shape[1] else matrix.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(min(shape)), atol=1e-6)


@every_differentiable
@both_normalisations
def test_frozen_and_trainable_forms_agree(
    kind: str, normalise_rows: bool, graph: LabelledGraph
) -> None:
    settings = settings_of(kind, normalise_rows)
    chosen, weights = initial(settings)
    for variant in ("ICD-M", "ICD-C"):
        features = z(graph.adjacency, 64, variant)
        frozen = chosen.embed(weights, features, graph.adjacency)
        tensors = {name: torch.from_numpy(w) for name, w in weights.items()}
        trainable = forward(settings, tensors, graph, features).numpy()
        assert frozen.shape == (300, 16)
        assert frozen.dtype == np.float32
        np.testing.assert_allclose(frozen, trainable, atol=1e-5)


def dense_layer(
    kind: str, weights: Weights, adjacency: np.ndarray, hidden: np.ndarray
) -> np.ndarray:
    """One layer as its paper writes it, with dense matrices; biases and rows left alone."""
    with_loops, degrees = adjacency + np.eye(len(adjacency)), adjacency.sum(axis=1)
    if kind == "hops":
        a, b, c = weights["exponents"]
        step = degrees[:, None] ** -a * adjacency * degrees**-b
        first = degrees[:, None] ** -c * hidden @ projection(hidden.shape[1], 16)
        powers = (np.linalg.matrix_power(step, k) for k in range(len(weights["hops"])))
        return sum(w * power @ first for w, power in zip(weights["hops"], powers, strict=True))
    mixed = hidden @ weights["layer.0"]
    if kind == "gcn":
        root = 1 / np.sqrt(with_loops.sum(axis=1))
        return np.tanh(root[:, None] * with_loops * root @ mixed)
    if kind == "gin":
        return np.tanh(np.tanh(with_loops @ mixed) @ weights["second.0"])
    score = np.add.outer(mixed @ weights["source.0"], mixed @ weights["target.0"])
    attention = np.exp(np.where(score > 0, score, 0.2 * score)) * (with_loops > 0)
    return np.tanh(attention / attention.sum(axis=1, keepdims=True) @ mixed)


@pytest.mark.parametrize("kind", sorted(set(ENCODERS) - {"edges"}))  # see test_edges.py
def test_a_layer_is_the_formula_of_its_paper(kind: str, graph: LabelledGraph) -> None:
    settings = EncoderSettings(kind=kind, widths=(64, 16), normalise_rows=False)
    chosen, weights = initial(settings)
    features = z(graph.adjacency, 64)
    found = chosen.embed(weights, features, graph.adjacency)
    expected = dense_layer(kind, weights, graph.adjacency.toarray(), features.toarray())
    np.testing.assert_allclose(found, expected, atol=1e-5)


@every_encoder
@both_normalisations
def test_permuting_the_nodes_permutes_the_rows_and_nothing_that_is_given_changes(
    kind: str, normalise_rows: bool, graph: LabelledGraph
) -> None:
    chosen, weights = initial(settings_of(kind, normalise_rows))
    features, before = z(graph.adjacency, 64), {name: w.copy() for name, w in weights.items()}
    order = np.random.default_rng(3).permutation(300)
    u, v = features.outer
    permuted = SparsePlusRankOne(features.sparse[order], (u[order], v))
    adjacency = graph.adjacency[order][:, order].tocsr()
    adjacency.sort_indices()
    arrays = features.sparse.data, graph.adjacency.data, u, v
    kept = [array.copy() for array in arrays]
    expected = chosen.embed(weights, features, graph.adjacency)[order]
    assert all(map(np.array_equal, arrays, kept))
    assert all(np.array_equal(weights[name], w) for name, w in before.items())
    if normalise_rows:
        np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(chosen.embed(weights, permuted, adjacency), expected, atol=1e-5)


@every_encoder
def test_smoothing_averages_the_finished_embedding(kind: str, graph: LabelledGraph) -> None:
    features = z(graph.adjacency, 64)
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
    features = z(adjacency, 256)
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):  # the machine's BLAS may use as many, too
            answers.append(chosen.embed(weights, features, adjacency, threads))
    assert np.array_equal(*answers)


@every_differentiable
def test_gradients_are_those_of_finite_differences(kind: str, graph: LabelledGraph) -> None:
    settings = settings_of(kind)
    _, weights = initial(settings)
    features = z(graph.adjacency, 64)
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
