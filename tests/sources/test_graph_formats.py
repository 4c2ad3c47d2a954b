"""Matrix Market, METIS and Pajek: the graphs that other programs write, and damaged ones."""

from __future__ import annotations

import re
from pathlib import Path

import networkx
import numpy as np
import pytest
import scipy.io
from scipy.sparse import coo_array

from stream_icd.core.snapshot import Snapshot
from tests.sources.reading import read, weighted, write

BANNER = "%%MatrixMarket matrix coordinate"
METIS = "% of its manual\n7 11\n5 3 2\n1 3 4\n5 4 2 1\n2 3 6 7\n1 3 6\n5 4 7\n6 4\n"
WEIGHTED = "7 11 001\n5 1 3 2 2 1\n1 1 3 2 4 1\n5 3 4 2 2 2 1 2\n2 1 3 2 6 2 7 5\n1 1 3 3 6 2\n"
WEIGHTED += "5 2 4 2 7 6\n6 6 4 5\n"
PAIRS = [[1, 2], [1, 3], [1, 5], [2, 3], [2, 4], [3, 4], [3, 5], [4, 6], [4, 7], [5, 6], [6, 7]]


def pairs(snapshot: Snapshot) -> list[list[object]]:
    return [list(ends) for ends in weighted(snapshot)]


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_a_matrix_that_scipy_writes_is_its_graph(field: str, symmetry: str, tmp_path: Path) -> None:
    club = networkx.karate_club_graph()
    club.add_node(34)  # without an edge
    matrix = networkx.to_scipy_sparse_array(club)
    scipy.io.mmwrite(tmp_path / "g.mtx", matrix, field=field, symmetry=symmetry)
    (snapshot,), bad = read(tmp_path)
    assert bad == []
    assert snapshot.nodes.to_pylist() == list(range(1, 36))
    assert snapshot.n_edges == club.number_of_edges()
    if field == "pattern":
        assert snapshot.weights is None
    else:  # a general matrix states each edge twice, and weights add
        times = 2 if symmetry == "general" else 1
        assert np.array_equal(snapshot.adjacency().toarray(), times * matrix.toarray())


@pytest.mark.parametrize("values", ["pattern", "real"])
def test_a_matrix_is_known_by_its_first_line(
    values: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = ["1 2", "2 3", "3 4", "5 1", "4 2", "5 3"]
    weights = [""] * 6 if values == "pattern" else [" .5", " .5", " 1", " 1", " 3", " 2"]
    text = "".join(f"{row}{weight}\n" for row, weight in zip(rows, weights, strict=True))
    text = f"{BANNER} {values} general\n5 4 6\n{text}"
    (snapshot,), bad = read(write(tmp_path, {"g.txt": text}))
    assert (pairs(snapshot), bad) == ([[1, 2], [1, 5], [2, 3], [2, 4], [3, 4], [3, 5]], [])
    assert snapshot.weights is None or snapshot.weights.tolist() == [0.5, 1, 0.5, 3, 1, 2]
    assert "g.txt is a matrix of 5 rows and 4 columns: row i and column i are" in caplog.text
    assert "is read as a graph in the format of Matrix Market" in caplog.text


BAD = {
    "no.mtx": ("1 2\n2 3\n", "no matrix of Matrix Market"),
    "torn.mtx": (f"{BANNER} pattern general\n3 3 3\n1 2\n", "no matrix of Matrix Market"),
    "many.mtx": (f"{BANNER} pattern general\n3 3 999999999999\n1 2\n", "too few for 999,999,999"),
    "wide.mtx": (f"{BANNER} pattern general\n900000000 9 1\n1 2\n", "declares 900,000,000 nodes"),
    "dense.mtx": ("%%MatrixMarket matrix array real general\n1 1\n1\n", "its matrix is array"),
    "skew.mtx": (f"{BANNER} real skew-symmetric\n2 2 1\n2 1 3\n", "skew-symmetric"),
    "edges.graph": ("1 2\n2 3\n", "line 2, '2 3', names a node that is not in 1 to 1"),
    "words.metis": ("a b\n", "begins with the numbers of nodes and of edges, not with 'a b'"),
    "short.graph": ("3 1\n2\n1\n", "says 3 nodes, and 2 lines follow"),
    "long.graph": ("2 1\n2\n1\n\n3\n", "says 2 nodes, and 3 lines follow"),
    "count.graph": ("3 2\n2\n1 3\n\n", "says 2 edges, and its lists name 3 neighbours"),
    "one_way.graph": ("3 1\n2\n3\n\n", "both ends of each one must name the other"),
    "weights.graph": ("2 1 1\n2 5\n1 6\n", "both ends of each one must name the other"),
    "no_weight.graph": ("2 1 1\n2 5\n1\n", "some neighbours have no weight"),
    "huge.graph": (f"2 1\n2\n{9**30}\n", "names a node that is not in 1 to 2"),
    "matrix.net": ("*Vertices 2\n*Matrix\n0 1\n1 0\n", "line 2, '.Matrix', begins a part"),
    "two.net": ("*Vertices 2\n*Edges\n1 2\n*Vertices 2\n", "it has 2 lists .Vertices"),
    "none.net": ("*Vertices\n*Edges\n1 2\n", "with the number of its nodes"),
    "wide.net": ("*Vertices 900000000\n*Edges\n1 2\n", "declares 900,000,000 nodes"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_graph_is_refused(name: str, tmp_path: Path) -> None:
    text, why = BAD[name]
    snapshots, (bad,) = read(write(tmp_path, {name: text}))
    assert snapshots == []
    assert re.search(why, bad)


def test_a_graph_that_is_complex_or_empty_is_no_graph(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scipy.io.mmwrite(tmp_path / "g.mtx", coo_array(np.array([[0, 1j], [1j, 0]])))
    empty = dict.fromkeys(("a.mtx", "b.graph", "c.net"), "\n")
    snapshots, (bad,) = read(write(tmp_path, empty))
    assert (snapshots, "complex" in bad) == ([], True)
    assert caplog.text.count("is empty: it makes no snapshot") == 3


def test_entries_that_are_no_weights_are_bad_rows(tmp_path: Path) -> None:
    text = f"{BANNER} real general\n% by hand\n3 3 3\n2 1 -5\n3 2 6\n1 3 0\n"
    (snapshot,), bad = read(write(tmp_path, {"g.mtx": text}))
    assert pairs(snapshot) == [[2, 3]]
    assert [error.partition(" ")[0] for error in bad] == ["g.mtx:4:", "g.mtx:6:"]


@pytest.mark.parametrize("name", ["g.graph", "g.metis", "g.txt", "g.dat"])
def test_metis_is_read_by_its_ending_or_its_first_line(name: str, tmp_path: Path) -> None:
    (snapshot,), bad = read(write(tmp_path, {name: METIS}))
    assert (pairs(snapshot), snapshot.weights, bad) == (PAIRS, None, [])


def test_metis_may_have_weights_and_nodes_without_edges(tmp_path: Path) -> None:
    nodes = [f"9 8 {line}" for line in WEIGHTED.split("\n")[1:8]]  # sizes and weights of nodes
    files = {
        "alone.graph": "4 1\n\n3\n2\n\n",
        "edges.graph": WEIGHTED,
        "nodes.graph": "\n".join(["7 11 111", *nodes]),
    }
    snapshots, bad = read(write(tmp_path, files))
    alone, edges, nodes_too = sorted(snapshots, key=lambda snapshot: snapshot.id)
    expected = dict(zip(map(tuple, PAIRS), [1, 2, 1, 2, 1, 2, 3, 2, 5, 2, 6], strict=True))
    assert (weighted(edges), weighted(nodes_too), bad) == (expected, expected, [])
    assert (alone.nodes.to_pylist(), pairs(alone)) == ([1, 2, 3, 4], [[2, 3]])


def test_every_graph_in_metis_is_known_and_no_edge_list_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for seed in range(5):
        graph = networkx.gnm_random_graph(30, 60, seed=seed)
        lists = [" ".join(str(other + 1) for other in graph[node]) for node in graph]
        (tmp_path / f"{seed}.txt").write_text("\n".join(["30 60", *lists]) + "\n")
        rows = "".join(f"{a + 1} {b + 1}\n" for a, b in graph.edges)
        (tmp_path / f"{seed}_rows.txt").write_text(rows)
        (tmp_path / f"{seed}_rows.graph").write_text(rows)
    snapshots, bad = read(tmp_path)
    nodes_and_edges = {snapshot.id: (snapshot.n_nodes, snapshot.n_edges) for snapshot in snapshots}
    assert len(bad) == 5  # edge lists that are said to be METIS
    assert all(nodes_and_edges[f"files/{seed}.txt"] == (30, 60) for seed in range(5))
    assert all(nodes_and_edges[f"files/{seed}_rows.txt"][1] == 60 for seed in range(5))
    logged = [text for text in caplog.messages if "in the format of METIS" in text]
    assert [text.partition(" ")[0] for text in logged] == ["0.txt"]  # once


def test_pajek_that_networkx_writes_is_its_graph(tmp_path: Path) -> None:
    graph = networkx.Graph()
    graph.add_node("Ann Lee")
    graph.add_weighted_edges_from([("O'Neil", "Bob", 2.5), ("Bob", "Zoë", 1.0)])
    networkx.write_pajek(graph, tmp_path / "g.net")
    (tmp_path / "g.txt").write_bytes((tmp_path / "g.net").read_bytes())
    snapshots, bad = read(tmp_path)
    assert (len(snapshots), bad) == (2, [])
    for snapshot in snapshots:  # by its ending, and by its content
        assert snapshot.nodes.to_pylist() == ["Ann Lee", "Bob", "O'Neil", "Zoë"]
        assert weighted(snapshot) == {("Bob", "O'Neil"): 2.5, ("Bob", "Zoë"): 1}


def test_every_part_of_pajek_with_edges_is_read(tmp_path: Path) -> None:
    text = """*Network likes
    % a comment
    *Vertices 5
    1 "a" 0.1 0.2 ic Red
    2 "b"
    3 c
    4 "d"
    5 "e"
    *Arcs :1 "likes"
    1 2 2.5 [1-3]
    2 1
    *Edgeslist
    2 3 4
    *Edges
    9 1
    x y
    1
    """
    (snapshot,), bad = read(write(tmp_path, {"g.net": text}))
    assert snapshot.nodes.to_pylist() == list("abcde")
    assert weighted(snapshot) == {("a", "b"): 3.5, ("b", "c"): 1, ("b", "d"): 1}
    assert [error.partition(" ")[0] for error in bad] == ["g.net:15:", "g.net:16:", "g.net:17:"]


def test_nodes_of_pajek_without_labels_of_their_own_have_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edges = "*Edges\n1 2\n2 3\n"
    same = f'*Vertices 3\n1 "a"\n2 "a"\n3 "b"\n{edges}'
    snapshots, bad = read(write(tmp_path, {"none.net": f"*Vertices 3\n{edges}", "same.net": same}))
    assert ([pairs(snapshot) for snapshot in snapshots], bad) == ([[[1, 2], [2, 3]]] * 2, [])
    (logged,) = (text for text in caplog.messages if "numbers" in text)
    assert logged.startswith("same.net has nodes without a label of their own")
