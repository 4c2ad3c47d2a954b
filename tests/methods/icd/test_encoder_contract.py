"""What encoders read and compute: X and Z, the contract of every registered one, and `edges`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd import features as features_of
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
from stream_icd.methods.icd.encoder.edges import ROUNDS, Edges
from stream_icd.methods.icd.features import (
    SparsePlusRankOne,
    model_features,
    propagation_matrix,
    structure_matrix,
)
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe, Variant
from stream_icd.methods.synthetic.gn import generate_gn

both_variants = pytest.mark.parametrize("variant", ["ICD-M", "ICD-C"])


def z(
    adjacency: csr_array, size: int, variant: Variant = "ICD-M", exponent: float = -0.5
) -> SparsePlusRankOne:
    encoder = EncoderSettings(widths=(size, 2), coarsening_exponent=exponent)
    return model_features(adjacency, Recipe(name="z", variant=variant, encoder=encoder))


def merged(adjacency: csr_array, size: int) -> np.ndarray:
    """Supernode of each node under ICD-M's weights."""
    return features_of._supernodes(structure_matrix(adjacency, "ICD-M"), adjacency, size)


def star(n: int) -> csr_array:
    leaves = np.arange(1, n)
    return as_adjacency((np.stack([np.zeros_like(leaves), leaves]), n))


def dense_structure(adjacency: csr_array, variant: Variant) -> np.ndarray:
    """The paper's formula, written down with dense matrices."""
    a = adjacency.toarray()
    d = a.sum(axis=1)
    if variant == "ICD-M":
        return a - np.outer(d, d) / d.sum()
    root = np.diag(1 / np.sqrt(np.where(d > 0, d, 1)))
    return root @ a @ root


@both_variants
@pytest.mark.parametrize("exponent", [-0.5, 0.5])
def test_features_are_the_dense_product(
    graph: LabelledGraph, variant: Variant, exponent: float
) -> None:
    structure = structure_matrix(graph.adjacency, variant)
    supernode = features_of._supernodes(structure, graph.adjacency, 128)
    coarsening = (supernode[:, None] == np.arange(128)) * np.bincount(supernode) ** exponent
    found, x = z(graph.adjacency, 128, variant, exponent), dense_structure(graph.adjacency, variant)
    assert found.shape == (300, 128)
    assert found.sparse.nnz <= graph.adjacency.nnz
    np.testing.assert_allclose(found.toarray(), x @ coarsening, rtol=1e-5, atol=1e-6)
    # A graph with few nodes is padded with columns of zeros.
    padded = z(graph.adjacency, 400, variant).toarray()
    np.testing.assert_allclose(padded, np.pad(x, ((0, 0), (0, 100))), rtol=1e-5, atol=1e-6)
    isolated = csr_array(np.pad(1 - np.eye(2), (0, 1)))
    assert not z(isolated, 2, variant).toarray()[2].any()
    assert not z(csr_array((4, 4)), 2, variant).toarray().any()


def reference_supernodes(i: list, j: list, weights: list, n: int, size: int) -> list[int]:
    """Appendix A with plain dictionaries, as an independent check."""
    edges, groups = dict(zip(zip(i, j, strict=True), weights, strict=True)), np.arange(n)
    count = n
    while count > size and edges:
        mapping: dict[int, int] = {}
        for (u, v), _ in sorted(edges.items(), key=lambda e: (e[1], e[0]), reverse=True):
            if u not in mapping and v not in mapping:
                mapping[u] = mapping[v] = len(set(mapping.values()))
                count -= 1
            if count == size:
                break
        for node in range(groups.max() + 1):
            mapping.setdefault(node, len(set(mapping.values())))
        groups = np.array([mapping[g] for g in groups])
        following: dict[tuple[int, int], float] = {}
        for (u, v), weight in edges.items():
            pair = tuple(sorted((mapping[u], mapping[v])))
            if pair[0] != pair[1]:
                following[pair] = following.get(pair, 0.0) + weight
        edges = following
    return groups.tolist()


@pytest.mark.parametrize("size", [290, 150, 149, 40, 8])
def test_the_merges_are_those_of_the_plain_algorithm(graph: LabelledGraph, size: int) -> None:
    x = graph.adjacency.copy()
    x.data = np.random.default_rng(1).integers(1, 6, x.nnz).astype(float)  # many exact ties
    i, j = np.nonzero(np.triu(graph.adjacency.toarray()))
    expected = reference_supernodes(i.tolist(), j.tolist(), x[i, j].tolist(), 300, size)
    found = features_of._supernodes(SparsePlusRankOne(x), graph.adjacency, size)
    assert found.tolist() == expected


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60),
    st.integers(1, 40),
)
def test_exactly_l_supernodes_whatever_the_graph(pairs: list[tuple[int, int]], size: int) -> None:
    adjacency = as_adjacency((np.sort(np.array(pairs, np.int64).reshape(-1, 2)).T, 31))
    assert set(merged(adjacency, size).tolist()) == set(range(min(31, size)))


def test_isolated_nodes_are_merged_before_anything_is_lost() -> None:
    adjacency = as_adjacency((np.array([[0, 2], [1, 3]]), 8))  # nodes 4..7 are alone
    supernode = merged(adjacency, 3)
    assert len(set(supernode[[0, 2]])) == 2
    assert len(set(supernode[4:])) == 1


def test_a_star_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    merged(star(20_000), 19_999)
    started = time.process_time()
    supernode = merged(star(20_000), 1024)
    assert time.process_time() - started < 5
    assert len(set(supernode.tolist())) == 1024
    assert np.bincount(supernode).max() < 200
    calls, match = [], features_of._match
    monkeypatch.setattr(features_of, "_match", lambda *a: calls.append(1) or match(*a))
    for work, n_passes in ((10**7, features_of._MAX_PASSES), (0, features_of._FEWEST_PASSES)):
        monkeypatch.setattr(features_of, "_WORK", work)
        calls.clear()
        assert set(merged(star(500), 100).tolist()) == set(range(100))
        assert len(calls) == n_passes


def settings_of(kind: str, normalise_rows: bool = True) -> EncoderSettings:
    return EncoderSettings(
        kind=kind, widths=(64, 32, 16), normalise_rows=normalise_rows, smoothing=1
    )


every_encoder = pytest.mark.parametrize("kind", sorted(ENCODERS))
every_differentiable = pytest.mark.parametrize(
    "kind",
    [kind for kind in sorted(ENCODERS) if isinstance(encoder(settings_of(kind)), Differentiable)],
)
both_normalisations = pytest.mark.parametrize("normalise_rows", [True, False])


def initial(settings: EncoderSettings, seed: int = 0) -> tuple[Encoder, Weights]:
    chosen = encoder(settings)
    return chosen, chosen.initial_weights(np.random.default_rng(seed))


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")


def forward(
    settings: EncoderSettings,
    weights: dict[str, Any],
    graph: LabelledGraph,
    features: SparsePlusRankOne,
) -> Any:
    from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood

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
def test_orthogonal_columns_or_rows_are_orthonormal(shape: tuple[int, int]) -> None:
    matrix = initial_weight(np.random.default_rng(0), shape, "orthogonal")
    tall = matrix if shape[0] >= shape[1] else matrix.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(min(shape)), atol=1e-6)


@every_differentiable
@both_normalisations
def test_frozen_and_trainable_forms_agree(
    torch: Any, kind: str, normalise_rows: bool, graph: LabelledGraph
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


@pytest.mark.parametrize("kind", sorted(set(ENCODERS) - {"edges"}))  # see below
def test_a_layer_is_the_formula_of_its_paper(kind: str, graph: LabelledGraph) -> None:
    settings = EncoderSettings(kind=kind, widths=(64, 16), normalise_rows=False)
    chosen, weights = initial(settings)
    features = z(graph.adjacency, 64)
    found = chosen.embed(weights, features, graph.adjacency)
    expected = dense_layer(kind, weights, graph.adjacency.toarray(), features.toarray())
    np.testing.assert_allclose(found, expected, atol=1e-5)


@every_encoder
@both_normalisations
def test_permuting_the_nodes_permutes_the_rows_and_changes_nothing(
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
def test_gradients_are_finite_differences(torch: Any, kind: str, graph: LabelledGraph) -> None:
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


HOPS, LAST_HOPS = 4, 10
OF_EDGES = EncoderSettings(kind="edges", widths=(64, 16))


def random_weights(seed: int = 0) -> Weights:
    """Weights that correct every edge in every round."""
    rng = np.random.default_rng(seed)
    weights = Edges(OF_EDGES).initial_weights(rng)
    weights["last"] = rng.normal(0, 0.1, weights["last"].shape).astype(np.float32)
    weights["mean"] = rng.normal(0, 0.3, weights["mean"].shape).astype(np.float32)
    weights["scale"] = rng.uniform(0.8, 2, weights["scale"].shape).astype(np.float32)
    return weights


def weighed(adjacency: csr_array, weights: Weights | None = None) -> Any:
    return Edges(OF_EDGES).weigh(weights or random_weights(), z(adjacency, 64), adjacency)


def embedded(adjacency: csr_array, weights: Weights | None = None) -> np.ndarray:
    return Edges(OF_EDGES).embed(weights or random_weights(), z(adjacency, 64), adjacency)


def weighted_graph(graph: LabelledGraph) -> csr_array:
    """The graph with weights from 0.5 to 3, equal in both directions."""
    adjacency = graph.adjacency.copy()
    rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    adjacency.data = 0.5 + (rows + adjacency.indices) % 6 / 2
    return adjacency


def dense_hops(weights: np.ndarray, features: np.ndarray, number: int) -> list[np.ndarray]:
    hidden, hops = features @ projection(features.shape[1], 16, number), []
    hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
    for _ in range(LAST_HOPS if number == ROUNDS else HOPS):
        hidden = weights * weights.sum(axis=1) ** -0.1 @ hidden
        hidden /= np.linalg.norm(hidden, axis=1, keepdims=True)
        hops.append(hidden)
    return hops


def mean_row(hops: list[np.ndarray]) -> np.ndarray:
    mean = np.mean(hops[len(hops) // 2 :], axis=0)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def dense_columns(
    adjacency: np.ndarray, log_odds: np.ndarray, features: np.ndarray, number: int
) -> np.ndarray:
    """The columns of all pairs of nodes, `(n_columns, n, n)`, as `edges._COLUMNS` names them."""
    there = adjacency > 0
    probability = there / (1 + np.exp(-log_odds))
    kept = adjacency * probability
    strengths, before, degrees = kept.sum(axis=1), adjacency.sum(axis=1), there.sum(axis=1)
    hops = dense_hops(kept, features, number)
    cosines = [hidden @ hidden.T for hidden in hops]
    typical = (there * cosines[-1]).sum(axis=1) / degrees
    common = kept @ kept
    both = np.sqrt(np.outer(strengths, strengths))
    raw = np.where(there, adjacency, 1)

    def ends(of_nodes: np.ndarray) -> list[np.ndarray]:
        return [each.outer(of_nodes, of_nodes) for each in (np.minimum, np.maximum)]

    return np.array(
        [
            *cosines,
            2 * cosines[-1] - np.add.outer(typical, typical),
            abs(np.subtract.outer(typical, typical)),
            np.log1p(common),
            common / both,
            log_odds,
            *ends(strengths / before),
            *ends((probability**2).sum(axis=1) / probability.sum(axis=1)),
            *ends(np.log(degrees)),
            np.log(raw),
            np.log(raw / np.sqrt(np.outer(before, before))),
        ]
    )


def dense_probabilities(
    adjacency: np.ndarray, features: np.ndarray, weights: Weights
) -> np.ndarray:
    """The probability of each pair after all rounds, as the equations say, from dense matrices."""
    log_odds = np.zeros_like(adjacency)
    for number in range(ROUNDS):
        one = {name: weight[number] for name, weight in weights.items() if len(weight) > 1}
        columns = dense_columns(adjacency, log_odds, features, number)
        hidden = (np.moveaxis(columns, 0, -1) - one["mean"]) / one["scale"]
        for layer in ("first", "second"):
            hidden = np.maximum(hidden @ one[layer] + one[f"{layer}_bias"], 0)
        log_odds = (log_odds + hidden @ one["last"][:-1] + one["last"][-1]).clip(-12, 12)
    return 1 / (1 + np.exp(-log_odds))


@pytest.mark.parametrize("with_weights", [False, True])
def test_it_computes_what_its_equations_say(graph: LabelledGraph, with_weights: bool) -> None:
    adjacency = weighted_graph(graph) if with_weights else graph.adjacency
    weights = random_weights()
    dense = adjacency.toarray()
    features = z(adjacency, 64).toarray()
    probability = dense_probabilities(dense, features, weights)
    found = weighed(adjacency, weights)
    np.testing.assert_allclose(found.adjacency.toarray(), dense * probability, atol=2e-3)
    with_square = weights | {"power": np.array([2], np.float32)}
    squared = weighed(adjacency, with_square)
    np.testing.assert_allclose(squared.adjacency.toarray(), dense * probability**2, atol=4e-3)
    embedding = embedded(adjacency, weights)
    np.testing.assert_array_equal(embedded(adjacency, with_square), embedding)
    expected = mean_row(dense_hops(found.adjacency.toarray(), features, ROUNDS))
    np.testing.assert_allclose(embedding, expected, atol=1e-4)


def test_before_training_no_weight_changes(graph: LabelledGraph) -> None:
    untrained = Edges(OF_EDGES).initial_weights(np.random.default_rng(0))
    found = weighed(graph.adjacency, untrained)
    np.testing.assert_array_equal(found.adjacency.toarray(), graph.adjacency.toarray() / 2)
    assert not found.log_odds.any()
    expected = mean_row(
        dense_hops(found.adjacency.toarray(), z(graph.adjacency, 64).toarray(), ROUNDS)
    )
    np.testing.assert_allclose(embedded(graph.adjacency, untrained), expected, atol=1e-5)


EDGE, STAR = np.ones((2, 2)) - np.eye(2), np.zeros((41, 41))
STAR[0, 1:] = STAR[1:, 0] = 1
CLIQUE = np.ones((4, 4)) - np.eye(4)


@pytest.mark.parametrize(
    "dense",
    [np.zeros((0, 0)), np.zeros((1, 1)), np.zeros((5, 5)), EDGE, np.kron(np.diag([1, 0, 1]), EDGE),
     STAR, 1e9 * CLIQUE, 1e-9 * CLIQUE],
    ids=["no node", "one node", "no edge", "one edge", "isolated", "star", "heavy", "light"],
)  # fmt: skip
def test_any_graph_has_finite_results(dense: np.ndarray) -> None:
    adjacency = csr_array(dense)
    embedding, found = embedded(adjacency), weighed(adjacency).adjacency
    assert embedding.shape == (len(dense), 16)
    assert np.isfinite(embedding).all()
    assert np.isfinite(found.data).all()
    assert (found != found.T).nnz == 0
    assert found.data.min(initial=1) > 0
    assert (found.shape, found.nnz) == (adjacency.shape, adjacency.nnz)
