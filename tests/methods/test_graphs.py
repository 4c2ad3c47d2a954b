"""Any graph a caller may hold becomes one canonical matrix; the unit of its weights is nothing."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import igraph
import networkx
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

from stream_icd import ICD
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency, as_named
from stream_icd.methods.graphs.weights import comparable_weights
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.streaming.detection.detect import detect, embed
from tests.methods.bp.graphs import graph_of

PAIRS = np.array([[0, 1, 3], [1, 2, 1]])
EXPECTED = np.zeros((5, 5), int)
EXPECTED[1, [0, 2, 3]] = EXPECTED[[0, 2, 3], 1] = 1
WITH_ALONE = {"a": [0, 1, 3, 4], "b": [1, 2, 1, None]}
"""Columns of a table of pairs: the last row has a node without edges."""
ALIKE = {
    "pairs": (PAIRS, 5),
    "pairs in both directions": (np.concatenate([PAIRS, PAIRS[::-1]], axis=1), 5),
    "csc_array": csc_array(EXPECTED),
    "csr_matrix": csr_matrix(np.triu(EXPECTED)),
    "networkx": networkx.from_numpy_array(EXPECTED),
    "igraph": igraph.Graph(5, PAIRS.T.tolist()),
    "pandas": pandas.DataFrame(WITH_ALONE).astype("Int64"),
    "pandas matrix": pandas.DataFrame(EXPECTED),
    "polars": polars.DataFrame(WITH_ALONE),
    "arrow table": pa.table(WITH_ALONE),
    "arrow batch": pa.record_batch(WITH_ALONE),
    "list of pairs": [(0, 1), (1, 2), (3, 1), (4, None)],
    "edge_index attribute": SimpleNamespace(edge_index=PAIRS, num_nodes=5),
    "adjacency method": SimpleNamespace(adjacency=lambda: coo_array(EXPECTED)),
    "dense": EXPECTED,
    "dense lists": EXPECTED.tolist(),
    "rows of pandas": [*map(pandas.Series, EXPECTED)],
}


@pytest.mark.parametrize("kind", ALIKE)
def test_every_kind_of_graph_gives_one_matrix(kind: str) -> None:
    adjacency = as_adjacency(ALIKE[kind])
    assert np.array_equal(adjacency.toarray(), EXPECTED)
    assert adjacency.dtype == np.float64
    assert adjacency.format == "csr"
    assert adjacency.has_canonical_format


def test_a_bare_edge_index_has_the_nodes_that_it_names() -> None:
    for edge_index in (PAIRS.astype(np.uint32), PAIRS.tolist(), [*map(pa.array, PAIRS)]):
        assert np.array_equal(as_adjacency(edge_index).toarray(), EXPECTED[:4, :4])


def test_tensors_are_read_as_arrays_are() -> None:
    torch = pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")
    pairs = torch.tensor(PAIRS)
    for graph in (torch.tensor(EXPECTED), (pairs, torch.tensor(5))):
        assert np.array_equal(as_adjacency(graph).toarray(), EXPECTED)
    assert np.array_equal(as_adjacency(pairs).toarray(), EXPECTED[:4, :4])
    with pytest.raises(BadInput, match="Tensor is not an array.*to_dense"):
        as_adjacency(torch.tensor(EXPECTED).to_sparse())
    with pytest.raises(BadInput, match="Tensor is not an array.*detach"):
        as_adjacency(torch.tensor(EXPECTED, dtype=torch.float64, requires_grad=True))


def test_small_and_planted_graphs_are_taken_as_they_are() -> None:
    for empty in (np.empty((2, 0), np.int64), networkx.Graph(), igraph.Graph()):
        assert as_adjacency(empty).shape == (0, 0)
    one_edge = [[0, 1], [1, 0]]  # as pairs and as a matrix
    assert as_adjacency(np.array(one_edge)).toarray().tolist() == one_edge
    planted = generate_gn(np.random.default_rng(0), 60, 4, p_in=0.5, p_out=0.05)
    assert (as_adjacency(planted) != planted.adjacency()).nnz == 0
    loaded = ICD.load("lfr")
    assert loaded.predict(networkx.Graph()).tolist() == []
    assert loaded.predict_next(networkx.Graph()).memory.n_nodes == 0
    with pytest.raises(BadSettings, match="at least one graph that has edges"):
        ICD().fit_predict(networkx.Graph())


@given(st.sets(st.frozensets(st.integers(0, 6), min_size=1, max_size=2), max_size=20))
def test_the_matrix_is_symmetric_and_loopless_whatever_the_pairs(pairs: set[frozenset]) -> None:
    index = np.array([(min(pair), max(pair)) for pair in pairs], np.int64).reshape(-1, 2).T
    dense = as_adjacency((index, 7)).toarray()
    assert np.array_equal(dense, dense.T)
    joined = {pair for pair in pairs if len(pair) == 2}  # loops are dropped
    assert {frozenset(pair) for pair in np.argwhere(dense).tolist()} == joined


@pytest.mark.parametrize(
    ("graph", "way_out"),
    [
        (networkx.DiGraph(), "give graph.to_undirected()"),
        (igraph.Graph(3, [(0, 1)], directed=True), 'graph.as_undirected(combine_edges="sum")'),
        (csr_matrix([[0, 5, 0], [2, 0, 0], [0, 1, 0]]), "from node 0 to 1 weighs 5, the edge back"),
        (np.array([[0, 1, 1], [1, 0, 2]]), "from node 1 to 2 weighs 1, the edge back 0"),
        (np.array([[0, 1, 0, 2], [1, 0, 1, 3]]), "from node 0 to 1 weighs 2, the edge back 1"),
        (SimpleNamespace(edge_index=PAIRS[:, [0, 0]] ^ [[0, 1]], num_nodes=2, edge_weight=[1, 3]),
         "from node 1 to 0 weighs 3"),
        (pandas.DataFrame([[0, 1.0], [2.0, 0]], list("ab"), list("ab")), "A + A.T"),
    ],
)  # fmt: skip
def test_a_directed_graph_is_refused_with_the_ways_out(graph: object, way_out: str) -> None:
    with pytest.raises(BadInput, match="and this one is directed") as refused:
        as_adjacency(graph)
    assert way_out in str(refused.value)


MATRIX = np.array([[0, 1], [1, 0]])


class WithItems:
    """A graph of a library that is not known here, as of rustworkx; NumPy looks into it."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, node: int) -> int:
        return range(3)[node]


TRIANGLE = networkx.complete_graph(3)


@pytest.mark.parametrize(
    "graphs",
    [
        [TRIANGLE],
        (TRIANGLE, TRIANGLE),
        [TRIANGLE.adj, TRIANGLE.adj],
        [MATRIX, MATRIX],
        [MATRIX.tolist(), MATRIX.tolist()],
        [csr_matrix(EXPECTED)] * 2,
        [(PAIRS, 5), (PAIRS, 5)],
        [tuple(PAIRS), tuple(PAIRS)],
        [[("a", "b"), ("b", "c")], [("a", "b")]],
        [pandas.DataFrame({"a": [0, 1], "b": [1, 2]})] * 2,
        [pa.table({"a": [0, 1], "b": [1, 2]})] * 2,
        [SimpleNamespace(edge_index=PAIRS, num_nodes=5)] * 2,
        [(WithItems(), WithItems())] * 2,
        [[0, 1, 0], TRIANGLE, [0, 1, 0]],
        np.stack([MATRIX, MATRIX]),
        coo_array(np.stack([MATRIX, MATRIX])),
        pandas.Series([csc_array(EXPECTED)] * 2),
        (graph for graph in [TRIANGLE, TRIANGLE]),
        {"monday": TRIANGLE, "tuesday": TRIANGLE},
    ],
    ids=lambda graphs: type(graphs).__name__,
)
def test_several_graphs_are_refused_with_the_right_call(graphs: object) -> None:
    with pytest.raises((BadInput, BadSettings)) as refused:
        as_adjacency(graphs)
    assert "[icd.predict(graph) for graph in graphs]" in str(refused.value)


def test_weights_of_a_repeated_pair_add_and_directions_may_differ_by_rounding() -> None:
    pairs, weights = np.array([[0, 0, 1], [1, 1, 2]]), [1.0, 2.5, 4.0]
    data = SimpleNamespace(edge_index=pairs, num_nodes=3, edge_weight=weights)
    of_igraph = igraph.Graph(3, pairs.T.tolist())
    of_igraph.es["weight"] = weights
    for graph in (data, of_igraph):
        assert as_adjacency(graph).toarray().tolist() == [[0, 3.5, 0], [3.5, 0, 4], [0, 4, 0]]
    names = pandas.Categorical(["b", "a", "b"])
    table = pandas.DataFrame({"from": names, "to": ["a", "b", "c"], "weight": [1, 2, 5]})
    assert as_named(table).adjacency.toarray().tolist() == [[0, 3, 0], [3, 0, 5], [0, 5, 0]]
    assert as_adjacency([(0, 1), (1, 0), (np.int64(2), np.int64(1))]).sum() == 4
    similar = np.array([[1, 0.1 + 0.2, 0], [0.3, 1, 0.5], [0, 0.5, 1]])
    adjacency = as_adjacency(similar)
    assert (adjacency != adjacency.T).nnz == 0
    assert adjacency.toarray() == pytest.approx(similar - np.eye(3))


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ((TRIANGLE, 3), "is not an array"),
        (list(networkx.grid_2d_graph(3, 3).edges), "ids are integers or strings"),
        (networkx.Graph([("a", "b", {"weight": "heavy"})]), "heavy"),
        (networkx.Graph([("a", "b", {"weight": 10**400})]), "too large"),
        ([(0, 1, 2), (1, 2, 2)], "column `weight`"),
        (coo_array(np.ones((2, 3))), "square"),
        ((np.array([[0], [5]]), 5), "0..4"),
        ((np.array([[0.5], [1.0]]), 5), "integers"),
        (coo_array([[0.0, -1.0], [-1.0, 0.0]]), "-1.0"),
        (coo_array([[0.0, np.nan], [1.0, 0.0]]), "finite"),
        (coo_array([[0.0, 1j], [1j, 0.0]]), "real numbers, not complex128"),
        (SimpleNamespace(edge_index=PAIRS, num_nodes=5, edge_weight=[1.0]), "weight"),
        (SimpleNamespace(edge_index=PAIRS, num_nodes=5, edge_weight=["a"] * 3), "numbers.*'a'"),
        (SimpleNamespace(edge_index=PAIRS, num_nodes=None), "num_nodes is None"),
        ((PAIRS[:, :0], -1), "num_nodes is -1"),
        (np.array([[0, 1], [1, 2]]), "ndarray.*may be two pairs or the adjacency of two nodes"),
        (PAIRS.T, "ndarray.*shape (3, 2).*transpose"),
        (np.ones((3, 4, 4)), "ndarray of float64 of shape (3, 4, 4).*networkx"),
        (np.array([["a", "b"], ["b", "c"]]), "ndarray of <U1"),
        ([[0, 1], [1]], "list is not an array"),
        ([[-1, 3, 4], [0, 1, 2]], "-1..4"),
        ([(0, 1), (1, "b")], "not all integers of 64 bits or all strings"),
        ([(0.5, 1), (1, 2)], "src has type double"),
        (pandas.DataFrame({"a": ["x"], "b": ["x"]}), "no edge between two different nodes"),
        (pandas.DataFrame({"a": [0, 1, 2], "b": [1, 2, 0], "n": [5, 1, 2]}), "two columns of ids"),
        (polars.DataFrame({"a": [0, 1], "weight": [1, 2]}), "two columns of ids.*a.*weight"),
        (np.array([[0, 10**15], [1, 2]]).T.repeat(2, axis=1), "node 1000000000000000.*num_nodes"),
        (np.ma.masked_equal(EXPECTED, 1), "masked"),
        (polars.DataFrame({"a": [1, 2], "b": [2, 3], "weight": [1.0, -2.0]}), "-2.0"),
    ],
)
def test_a_graph_that_is_none_is_refused_with_its_fault(graph: object, words: str) -> None:
    pattern = words.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(BadInput, match=f"(?i){pattern}"):
        as_adjacency(graph)


def test_an_unknown_kind_is_named_and_told_what_to_give() -> None:
    for graph, kind in (("a graph", "str"), (3, "int"), ({0: [1]}, "dict")):
        reason = rf"a {kind} is not a supported graph.*NetworkX.*adjacency\(\)"
        with pytest.raises(BadSettings, match=reason):
            as_adjacency(graph)


@pytest.mark.parametrize(
    ("graph", "nodes"),
    [
        (networkx.Graph([("b", "a"), ("a", ("t", 1))]), ["b", "a", ("t", 1)]),
        (igraph.Graph.TupleList([("b", "a"), ("a", "c")]), ["b", "a", "c"]),
        (igraph.Graph(3, [(0, 1)]), [0, 1, 2]),
        (polars.DataFrame({"x": [30, 10], "y": [20, 20]}), [10, 20, 30]),
        (
            polars.DataFrame({"x": polars.Series(["c", "a"], dtype=polars.Categorical), "y": "b"}),
            ["a", "b", "c"],
        ),
        (pandas.DataFrame({"x": np.uint64([2**63, 1]), "y": np.uint64([2, 2])}), [1, 2, 2**63]),
        ([(np.int8(30), np.int64(20)), (np.int8(10), None)], [10, 20, 30]),
        ([(2**63, 20), (2**64 - 1, 20)], [20, 2**63, 2**64 - 1]),
        ((PAIRS, 5), [0, 1, 2, 3, 4]),
        (networkx.to_pandas_adjacency(networkx.path_graph(list("dbca"))), ["d", "b", "c", "a"]),
        (pandas.DataFrame(np.eye(4), list("abcd")), [0, 1, 2, 3]),
    ],
)
def test_nodes_have_the_names_that_the_graph_gives_them(graph: object, nodes: list[object]) -> None:
    assert as_named(graph).nodes.tolist() == nodes


def test_a_named_pandas_matrix_of_few_nodes_is_no_table_of_pairs() -> None:
    for nodes, kind in ((["a", "b"], int), ([5, 9], float), (["a", "b", "c"], int)):
        path = 3 * (np.eye(len(nodes), k=1) + np.eye(len(nodes), k=-1))
        adjacency, names = as_named(pandas.DataFrame(path, nodes, nodes, dtype=kind))
        assert (names.tolist(), adjacency.toarray().tolist()) == (nodes, path.tolist())


@pytest.mark.parametrize("kind", ["Int64", "boolean", "double[pyarrow]"])
def test_a_pandas_matrix_may_hold_types_that_numpy_lacks(kind: str) -> None:
    path = networkx.to_pandas_adjacency(networkx.path_graph(list("abcd")), dtype=int)
    matrix = path.astype(bool).astype(kind)
    assert as_adjacency(matrix).toarray().tolist() == path.to_numpy().tolist()
    with pytest.raises(BadInput, match="nan is not finite"):
        as_adjacency(matrix.where(path > 0))
    with pytest.raises(BadInput, match="DataFrame of object"):
        as_adjacency(matrix.astype(str))


def test_rows_of_a_pandas_matrix_are_the_nodes_of_its_columns() -> None:
    path = np.eye(4, k=1) + np.eye(4, k=-1)
    named, counted = pandas.DataFrame(path, list("abcd"), list("abcd")), pandas.DataFrame(path)
    for good in (named, counted, named.reset_index(drop=True), counted.set_index(named.index)):
        assert as_adjacency(good).toarray().tolist() == path.tolist()
    other_names = named.set_axis(list("wxyz"), axis=0)
    for wrong in (named.loc[list("bacd")], counted[[1, 0, 2, 3]], other_names):
        with pytest.raises(BadInput, match="is in the place of column"):
            as_adjacency(wrong)


Floats = NDArray[np.float64]

PARAMETERS = {"modularity": BpParameters(), "beliefs": BpParameters(4.0, 0.4, iterations=1)}
BOTH_METHODS = pytest.mark.parametrize(
    ("method", "parameters"), [("bp", "modularity"), ("bp", "beliefs"), ("icd", "modularity")]
)


@cache
def planted() -> PlantedGraph:
    return generate_gn(np.random.default_rng(4), 300, 10, p_in=0.5, p_out=0.02)


@cache
def model(parameters: str) -> Model:
    recipe = Recipe(name="toy", encoder={"widths": (64, 32)}, discriminator_widths=(32, 1))
    return Model(recipe, PARAMETERS[parameters])


def weighted(weights: Floats) -> csr_array:
    return graph_of(planted().n_nodes, planted().edges, weights)


def drawn_weights(seed: int) -> Floats:
    """Few, and many of them equal; or all different, with heavy tails."""
    rng, n_edges = np.random.default_rng(seed), planted().edges.shape[1]
    return rng.integers(1, 5, n_edges) / 7 if seed % 2 else rng.pareto(1.0, n_edges) + 0.01


def found(adjacency: csr_array, method: Method, parameters: str, k: int | None = None) -> list[int]:
    return detect(adjacency, model(parameters), k, method=method).communities.tolist()


@BOTH_METHODS
@settings(max_examples=10, deadline=None)
@given(
    factor=st.floats(1e-6, 1e6) | st.integers(-20, 20).map(lambda power: 2.0**power),
    seed=st.integers(0, 99),
    k=st.sampled_from([None, 4, 15]),
)
def test_the_unit_of_the_weights_changes_nothing(
    method: Method, parameters: str, factor: float, seed: int, k: int | None
) -> None:
    weights = drawn_weights(seed)
    expected = found(weighted(weights), method, parameters, k)
    assert found(weighted(weights * factor), method, parameters, k) == expected


@pytest.mark.parametrize("exponent", [0.5, 0.75, 1.0])
def test_many_weights_of_few_digits_are_as_comparable_as_in_another_unit(exponent: float) -> None:
    """Those of 16 bits are made comparable once each; a third of them has more bits."""
    weights = np.random.default_rng(0).integers(1, 90, 30_000) / 4
    in_thirds = comparable_weights(weights / 3, exponent)
    np.testing.assert_allclose(comparable_weights(weights, exponent), in_thirds, rtol=1e-6)


@BOTH_METHODS
def test_communities_are_found_whatever_the_weights_are(method: Method, parameters: str) -> None:
    truth, n_edges = planted().communities, planted().edges.shape[1]
    ones, rng = np.ones(n_edges), np.random.default_rng(1)
    expected = found(weighted(ones), method, parameters)
    for weight in (0.1, 1e300):  # equal weights are no weights
        assert found(weighted(weight * ones), method, parameters) == expected
    one_heavy, heavy_tails = ones.copy(), rng.pareto(0.5, n_edges) + 1
    one_heavy[0] = 1e308
    assert nmi(truth, np.array(found(weighted(one_heavy), method, parameters))) > 0.95
    assert nmi(truth, np.array(found(weighted(heavy_tails), method, parameters, 10))) > 0.9
    whole_range = 10.0 ** rng.uniform(-308, 308, n_edges)
    assert set(found(weighted(whole_range), method, parameters, 10)) == set(range(10))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    adjacency = csr_array(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    adjacency.data[1] = weight
    with pytest.raises(BadInput, match="finite"):
        detect(adjacency, model("beliefs"), 2)
    with pytest.raises(BadInput, match="finite"):
        embed(adjacency, model("beliefs"))
