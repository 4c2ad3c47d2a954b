"""Matrix Market, METIS, Pajek and GraphML: graphs of other programs, and damaged ones."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import igraph
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
    "edges.graph": ("1 2\n2 3\n", "line 2, '2 3', names a node that is not in 1 to 1"),
    "words.metis": ("a b\n", "begins with the numbers of nodes and of edges, not with 'a b'"),
    "short.graph": ("3 1\n2\n1\n", "says 3 nodes, and 2 lines follow"),
    "count.graph": ("3 2\n2\n1 3\n\n", "says 2 edges, and its lists name 3 neighbours"),
    "one_way.graph": ("3 1\n2\n3\n\n", "both ends of each one must name the other"),
    "weights.graph": ("2 1 1\n2 5\n1 6\n", "both ends of each one must name the other"),
    "no_weight.graph": ("2 1 1\n2 5\n1\n", "some neighbours have no weight"),
    "huge.graph": (f"2 1\n2\n{9**30}\n", "names a node that is not in 1 to 2"),
    "matrix.net": ("*Vertices 2\n*Matrix\n0 1\n1 0\n", "line 2, '.Matrix', begins a part"),
    "two.net": ("*Vertices 2\n*Edges\n1 2\n*Vertices 2\n", "it has 2 lists .Vertices"),
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


@pytest.mark.parametrize("name", ["g.metis", "g.txt"])
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


def test_every_graph_in_metis_is_known_and_no_edge_list_is(tmp_path: Path) -> None:
    for seed in range(5):
        graph = networkx.gnm_random_graph(30, 60, seed=seed)
        lists = [" ".join(str(other + 1) for other in graph[node]) for node in graph]
        rows = [f"{a + 1} {b + 1}" for a, b in graph.edges]
        files = {f"{seed}.txt": "\n".join(["30 60", *lists]), f"{seed}_rows.txt": "\n".join(rows)}
        write(tmp_path, files)
    snapshots, bad = read(tmp_path)
    nodes_and_edges = {snapshot.id: (snapshot.n_nodes, snapshot.n_edges) for snapshot in snapshots}
    assert bad == []
    for seed in range(5):
        assert nodes_and_edges[f"files/{seed}.txt"] == (30, 60)
        assert nodes_and_edges[f"files/{seed}_rows.txt"][1] == 60


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


EDGES = (("A1", "A2"), ("A2", "A3"), ("A3", "A1"), ("A3", "B1"), ("B1", "B2"))

YED = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com">
  <key for="node" id="d6" yfiles.type="nodegraphics"/>
  <key for="edge" id="d10" yfiles.type="edgegraphics"/>
  <graph edgedefault="directed" id="G">
    <node id="n0"><data key="d4"/><data key="d6"><y:ShapeNode>
      <y:NodeLabel alignment="center">alice<y:LabelModel/></y:NodeLabel></y:ShapeNode></data></node>
    <node id="n3" yfiles.foldertype="group"><data key="d6">
      <y:GroupNode><y:NodeLabel>a group</y:NodeLabel></y:GroupNode>
      <y:GroupNode><y:NodeLabel>closed</y:NodeLabel></y:GroupNode></data>
      <graph edgedefault="directed" id="n3:">
        <node id="n3::n0"><data key="d6"><y:NodeLabel>bob
          </y:NodeLabel></data></node>
      </graph></node>
    <edge id="e0" source="n0" target="n3::n0"><data key="d10">
      <y:EdgeLabel>knows</y:EdgeLabel></data></edge>
  </graph>
</graphml>"""
DRAWN = "<List><Label><Label.Text>{}</Label.Text></Label></List>".format


def graphml(nodes: str, edges: str = "", keys: str = "", name: str = "name") -> str:
    """A file of nodes `id` or `id=name`, and edges `src-dst` or `src-dst=weight`.

    `name` is the attribute of the names.
    """
    keyed = "<node id='{}'><data key='k'>{}</data></node>".format
    listed = [
        keyed(*node.split("=")) if "=" in node else f"<node id='{node}'/>" for node in nodes.split()
    ]
    for edge in edges.split():
        ends, _, weight = edge.partition("=")
        source, target = ends.split("-")
        data = f"<data key='w'>{weight}</data>" if weight else ""
        listed.append(f"<edge source='{source}' target='{target}'>{data}</edge>")
    key = f"<key id='k' for='node' attr.name='{name}'/>"
    return f"<graphml>{key}{keys}<graph>{''.join(listed)}</graph></graphml>"


def read_days(folder: Path, *files: str) -> tuple[list[Snapshot], list[str]]:
    """Read files of consecutive days, and the reasons why others make no snapshot."""
    days = {f"2026-01-{day:02d}.graphml": text for day, text in enumerate(files, start=1)}
    return read(write(folder, days))


def test_nodes_of_igraph_are_the_same_on_each_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(0)
    for day in range(1, 5):
        graph = igraph.Graph.TupleList([EDGES[at] for at in rng.permutation(len(EDGES))])
        graph.write_graphml(str(tmp_path / f"2026-01-{day:02d}.graphml"))
    snapshots, bad = read_days(tmp_path)
    assert bad == []
    for snapshot in snapshots:
        assert snapshot.nodes.to_pylist() == ["A1", "A2", "A3", "B1", "B2"]
        assert weighted(snapshot).keys() == {tuple(sorted(edge)) for edge in EDGES}
    (logged,) = caplog.messages
    assert logged.startswith("2026-01-01.graphml: the attribute name names the nodes")


WEIGHT = "<key id='w' for='{}' attr.name='weight'/>".format
ALICE, LETTERS = ("alice", "bob"), ("a", "b")
SIZE_OF_NODES = "<key id='w' for='node' attr.name='size'/>"
DRAWN_NODES = f"n0={DRAWN('alice')} n1={DRAWN('bob')}"
OF_PLACES = "n0=alice n1=bob", "n0-n1=0x1.8p+1", WEIGHT("edge")


@pytest.mark.parametrize(
    ("content", "edge", "weight", "logged"),
    [
        (graphml(*OF_PLACES, name="vertex_name"), ALICE, 3, ""),  # of graph-tool
        (graphml(*OF_PLACES, name="_graphml_vertex_id"), ALICE, 3, ""),
        (graphml(*OF_PLACES, name="label"), ALICE, 3, ""),  # of Gephi
        (graphml(DRAWN_NODES, "n0-n1", name="NodeLabels"), ALICE, 1, ""),  # of yEd Live
        (YED, ALICE, 1, "all edges weigh 1: not used are edgegraphics of edges ("),
        (YED, ALICE, 1, "nested graphs: all their nodes and edges are read as one"),
        (graphml("alice=Al bob=Bob", "alice-bob"), ALICE, 1, "name of nodes ("),
        (graphml("a b", "a-b=3", WEIGHT("all")), LETTERS, 3, ""),
        (graphml("a b", "a-b=3", "<key id='w' attr.name='WEIGHT'/>"), LETTERS, 3, ""),
        (graphml("a b", "a-b=3", WEIGHT("node")), LETTERS, 3, ""),  # of Cytoscape
        (graphml("a b", "a-b=3", WEIGHT("edge") + SIZE_OF_NODES), LETTERS, 3, ""),
    ],
)
def test_the_names_and_weights_of_other_tools(
    content: str,
    edge: tuple[str, str],
    weight: float,
    logged: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (snapshot,), bad = read_days(tmp_path, content)
    assert (weighted(snapshot), bad) == ({edge: weight}, [])
    assert logged in caplog.text


def test_what_networkx_writes_keeps_its_ids_and_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "2026-01-01.graphml")
    assert read_days(tmp_path)[0][0].nodes.to_pylist() == [0, 1, 2]
    assert caplog.messages == []
    graph = networkx.Graph([("alice", "bob"), ("bob", "carol")])
    networkx.write_graphml(graph, tmp_path / "2026-01-01.graphml")
    again = igraph.Graph.Read_GraphML(str(tmp_path / "2026-01-01.graphml"))
    again.write_graphml(str(tmp_path / "2026-01-02.graphml"))
    graph.add_weighted_edges_from([("alice", "bob", 3), ("bob", "carol", 2.5)])  # two types
    networkx.write_graphml(graph, tmp_path / "2026-01-03.graphml")
    snapshots, bad = read_days(tmp_path)
    assert bad == []
    assert [snapshot.nodes.to_pylist() for snapshot in snapshots] == [["alice", "bob", "carol"]] * 3
    assert weighted(snapshots[2]) == {("alice", "bob"): 3, ("bob", "carol"): 2.5}


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("<edge source='a'/>", "an id is empty"),
        ("<edge target='a'/>", "an id is empty"),
        (
            "<edge source='b' target='c'><data key='w'>2</data><data key='w'>3</data></edge>",
            "weight '2 and 3' is not an edge: its weight is no finite number above 0",
        ),
    ],
)
def test_a_broken_edge_is_a_bad_row(part: str, why: str, tmp_path: Path) -> None:
    content = graphml("a b", "a-b=1", WEIGHT("edge")).replace("</graph>", f"{part}</graph>")
    (snapshot,), (bad,) = read_days(tmp_path, content)
    assert weighted(snapshot) == {("a", "b"): 1}
    assert why in bad


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ("n0=Smith n1=Smith n2=Li", "n0-n1 n1-n2"),  # shared
        ("n0=Smith n1=Li", "n0-n1 n1-n2"),  # of a node that is not declared
        ("n0=n2 n1=n0 n2=n1", "n0-n1 n1-n2"),  # places, too, of another file
        ("n0=a n0=b n1=c n2=d", "n0-n1 n1-n2"),  # two nodes
        ("", "n0-n1 n1-n2"),
    ],
)
def test_without_names_of_all_nodes_their_ids_stay_and_this_is_logged_once(
    nodes: str, edges: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    snapshots, bad = read_days(tmp_path, *[graphml(nodes, edges)] * 2)
    assert bad == []
    assert [snapshot.nodes.to_pylist() for snapshot in snapshots] == [["n0", "n1", "n2"]] * 2
    (logged,) = (text for text in caplog.messages if "ids" in text)
    assert logged.startswith("2026-01-01.graphml has no name or label that each node has")


NAMED = graphml("n0=a n1=b n2=c", "n0-n1 n1-n2")
SHARED = graphml("n0=a n1=a n2=c", "n0-n1 n1-n2")


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (SHARED, "nodes n0 and n1 have the same"),
        (graphml("n0=a n1 n2=c", "n0-n1 n1-n2"), "node n1 has none"),
        (graphml("n0 n1 n2", "n0-n1 n1-n2"), "no node has it"),
    ],
)
def test_a_file_without_the_names_of_the_files_before_is_refused(
    second: str, why: str, tmp_path: Path
) -> None:
    """By their ids, its nodes would be other nodes."""
    snapshots, bad = read_days(tmp_path, NAMED, second, NAMED)
    assert [snapshot.nodes.to_pylist() for snapshot in snapshots] == [["a", "b", "c"]] * 2
    (refused,) = bad
    assert refused.startswith("2026-01-02.graphml makes no snapshot: the attribute name names")
    assert f"here {why}: give each node a name of its own" in refused


def test_places_in_a_file_do_not_decide_what_names_the_nodes_of_the_next(tmp_path: Path) -> None:
    snapshots, _ = read_days(tmp_path, SHARED, NAMED)
    assert [snapshot.nodes[0].as_py() for snapshot in snapshots] == ["n0", "a"]
    numbers = [content.replace("n0", "60").replace("n1", "61").replace("n2", "62") for content in
               (SHARED, NAMED)]  # fmt: skip
    snapshots, _ = read_days(tmp_path, *numbers)
    assert [snapshot.nodes[0].as_py() for snapshot in snapshots] == [60, 60]


def test_an_edge_without_a_weight_has_the_default_or_weighs_1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "<key id='w' for='edge' attr.name='weight'>{}</key>".format
    snapshots, _ = read_days(
        tmp_path,
        graphml("a b c", "a-b b-c=7", key("<default>2.5</default>")),
        graphml("a b c", "a-b b-c=7", key("<default/>")),
    )
    assert [weighted(snapshot) for snapshot in snapshots] == [
        {("a", "b"): 2.5, ("b", "c"): 7},
        {("a", "b"): 1, ("b", "c"): 7},
    ]
    (logged,) = caplog.messages
    assert logged.startswith("2026-01-02.graphml has edges without a weight: they weigh 1")


VALUE = "<key id='w' for='edge' attr.name='value'/>"
DEFAULT = "<key id='x' for='edge' attr.name='weight'><default>2</default></key>"
ALL_WEIGH_1 = "so all edges weigh 1: not used are"


@pytest.mark.parametrize(
    ("keys", "logged"),
    [
        (VALUE, f"has no attribute weight on edges, {ALL_WEIGH_1} value of edges ("),
        (VALUE + DEFAULT, "has attributes that are not used: value of edges ("),
        ("", f"{ALL_WEIGH_1} w of edges ("),
    ],
)
def test_attributes_that_are_not_used_are_logged_once(
    keys: str, logged: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read_days(tmp_path, *[graphml("a b", "a-b=3", keys)] * 2)
    (text,) = caplog.messages
    assert logged in text


NO_GRAPH = {
    "<graphml><graph/><graph/></graphml>": "it holds 2 graphs: write each to a file",
    "<graphml><graph><hyperedge><endpoint node='a'/></hyperedge></graph></graphml>": (
        r"it holds hyperedges \(1\), and an edge has two ends"
    ),
    "<graphml><graph><locator href='b.graphml'/></graph></graphml>": r"another file \(locator\)",
    "<html></html>": "it is no GraphML: its first element is html",
    "<!DOCTYPE html><html><p>404</html>": "another format than its name says",
}


@pytest.mark.parametrize("content", NO_GRAPH)
def test_what_is_no_single_graph_is_refused(content: str, tmp_path: Path) -> None:
    snapshots, (bad,) = read_days(tmp_path, content)
    assert snapshots == []
    assert re.search(NO_GRAPH[content], bad)


def test_deeply_nested_parts_are_read(tmp_path: Path) -> None:
    depth = 20_000
    nested = "<graph><node id='a'>" * depth + "</node></graph>" * depth
    content = graphml("a b", "a-b").replace("</graph>", f"<node id='c'>{nested}</node></graph>")
    (snapshot,), bad = read_days(tmp_path, content)
    assert (snapshot.nodes.to_pylist(), bad) == (["a", "b", "c"], [])
