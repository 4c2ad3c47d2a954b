"""GraphML as other tools write it: names of nodes, weights, and what is no single graph."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import igraph
import networkx
import numpy as np
import pytest

from stream_icd.core.snapshot import Snapshot
from tests.sources.reading import read as read_folder
from tests.sources.reading import weighted, write

EDGES = (("A1", "A2"), ("A2", "A3"), ("A3", "A1"), ("A3", "B1"), ("B1", "B2"))

NAMESPACE = 'xmlns="http://graphml.graphdrawing.org/xmlns"'

GRAPH_TOOL = f"""<?xml version="1.0" encoding="UTF-8"?>
<graphml {NAMESPACE}>
  <!-- property keys -->
  <key id="key0" for="node" attr.name="%s" attr.type="string" />
  <key id="key1" for="node" attr.name="pos" attr.type="vector_double" />
  <key id="key2" for="edge" attr.name="weight" attr.type="double" />
  <graph id="G" edgedefault="undirected" parse.nodeids="canonical">
    <node id="n0"><data key="key0">alice</data><data key="key1">0x1p+0, 0x1p+1</data></node>
    <node id="n1"><data key="key0">bob</data></node>
    <edge id="e0" source="n0" target="n1"><data key="key2">0x1.8p+1</data></edge>
  </graph>
</graphml>"""

YED = f"""<graphml {NAMESPACE} xmlns:y="http://www.yworks.com/xml/graphml">
  <key attr.name="url" attr.type="string" for="node" id="d4"/>
  <key for="node" id="d6" yfiles.type="nodegraphics"/>
  <key for="graphml" id="d7" yfiles.type="resources"/>
  <key for="edge" id="d10" yfiles.type="edgegraphics"/>
  <graph edgedefault="directed" id="G">
    <node id="n0"><data key="d4"/><data key="d6"><y:ShapeNode>
      <y:NodeLabel alignment="center">alice<y:LabelModel/></y:NodeLabel></y:ShapeNode></data></node>
    <node id="n3" yfiles.foldertype="group"><data key="d6"><y:ProxyAutoBoundsNode><y:Realizers>
      <y:GroupNode><y:NodeLabel>a group</y:NodeLabel></y:GroupNode>
      <y:GroupNode><y:NodeLabel>closed</y:NodeLabel></y:GroupNode></y:Realizers>
      </y:ProxyAutoBoundsNode></data>
      <graph edgedefault="directed" id="n3:">
        <node id="n3::n0"><data key="d6"><y:ShapeNode><y:NodeLabel>bob
          </y:NodeLabel></y:ShapeNode></data></node>
      </graph></node>
    <edge id="e0" source="n0" target="n3::n0"><data key="d10"><y:PolyLineEdge>
      <y:EdgeLabel>knows</y:EdgeLabel></y:PolyLineEdge></data></edge>
  </graph>
  <data key="d7"><y:Resources/></data>
</graphml>"""

YED_LIVE = f"""<graphml {NAMESPACE} xmlns:y="y" xmlns:x="x">
  <key id="d1" for="node" attr.name="NodeLabels"/>
  <graph id="G" edgedefault="directed">
    <node id="n0"><data key="d1"><x:List><y:Label><y:Label.Text><![CDATA[alice]]></y:Label.Text>
      </y:Label></x:List></data></node>
    <node id="n1"><data key="d1"><x:List><y:Label><y:Label.Text>bob</y:Label.Text>
      </y:Label></x:List></data></node>
    <edge source="n0" target="n1"/>
  </graph></graphml>"""

CYTOSCAPE = f"""<graphml {NAMESPACE}>
  <key attr.name="name" attr.type="string" for="node" id="name"/>
  <key attr.name="weight" attr.type="double" for="node" id="weight"/>
  <graph edgedefault="directed" id="Network">
    <node id="60"><data key="name">alice</data></node>
    <node id="62"><data key="name">bob</data></node>
    <edge source="60" target="62">
      <data key="name">alice (knows) bob</data><data key="weight">3.0</data></edge>
  </graph></graphml>"""

GEPHI = f"""<graphml {NAMESPACE}>
  <key attr.name="label" attr.type="string" for="node" id="label"/>
  <key attr.name="weight" attr.type="double" for="edge" id="weight"/>
  <key attr.name="size" attr.type="float" for="node" id="size"/>
  <graph edgedefault="undirected">
    <node id="0"><data key="label">alice</data><data key="size">10.0</data></node>
    <node id="1"><data key="label">bob</data><data key="size">10.0</data></node>
    <edge id="7" source="0" target="1"><data key="weight">3.0</data></edge>
  </graph></graphml>"""


def graphml(nodes: str, edges: str = "", keys: str = "") -> str:
    """Return a file of nodes `id` or `id=name`, and edges `src-dst` or `src-dst=weight`."""
    keyed = "<node id='{}'><data key='k'>{}</data></node>".format
    listed = [
        keyed(*node.split("=")) if "=" in node else f"<node id='{node}'/>" for node in nodes.split()
    ]
    for edge in edges.split():
        ends, _, weight = edge.partition("=")
        source, target = ends.split("-")
        data = f"<data key='w'>{weight}</data>" if weight else ""
        listed.append(f"<edge source='{source}' target='{target}'>{data}</edge>")
    name = "<key id='k' for='node' attr.name='name'/>"
    return f"<graphml>{name}{keys}<graph>{''.join(listed)}</graph></graphml>"


def read(folder: Path, *files: str) -> tuple[list[Snapshot], list[str]]:
    """Read files of consecutive days, and the reasons why others make no snapshot."""
    days = {f"2026-01-{day:02d}.graphml": text for day, text in enumerate(files, start=1)}
    return read_folder(write(folder, days))


def test_nodes_of_igraph_are_the_same_on_each_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(0)
    for day in range(1, 5):
        graph = igraph.Graph.TupleList([EDGES[at] for at in rng.permutation(len(EDGES))])
        graph.write_graphml(str(tmp_path / f"2026-01-{day:02d}.graphml"))
    snapshots, bad = read(tmp_path)
    assert bad == []
    for snapshot in snapshots:
        assert snapshot.nodes.to_pylist() == ["A1", "A2", "A3", "B1", "B2"]
        assert weighted(snapshot).keys() == {tuple(sorted(edge)) for edge in EDGES}
    (logged,) = caplog.messages
    assert logged.startswith("2026-01-01.graphml: the attribute name names the nodes")


WEIGHT = "<key id='w' for='{}' attr.name='weight'/>".format
ALICE, LETTERS = ("alice", "bob"), ("a", "b")


@pytest.mark.parametrize(
    ("content", "edge", "weight", "logged"),
    [
        (GRAPH_TOOL % "vertex_name", ALICE, 3, "not used: pos of nodes"),
        (GRAPH_TOOL % "_graphml_vertex_id", ALICE, 3, "pos of nodes"),
        (YED_LIVE, ALICE, 1, ""),
        (YED, ALICE, 1, "all edges weigh 1: not used are edgegraphics of edges ("),
        (YED, ALICE, 1, "nested graphs: all their nodes and edges are read as one"),
        (CYTOSCAPE, ALICE, 3, ""),
        (GEPHI, ALICE, 3, ""),
        (graphml("alice=Al bob=Bob", "alice-bob"), ALICE, 1, "name of nodes ("),
        (graphml("a b", "a-b=3", WEIGHT("all")), LETTERS, 3, ""),
        (graphml("a b", "a-b=3", "<key id='w' attr.name='WEIGHT'/>"), LETTERS, 3, ""),
        (graphml("a b", "a-b=3", WEIGHT("node")), LETTERS, 3, ""),
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
    (snapshot,), bad = read(tmp_path, content)
    assert (weighted(snapshot), bad) == ({edge: weight}, [])
    assert logged in caplog.text


def test_what_networkx_writes_keeps_its_ids_and_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "2026-01-01.graphml")
    assert read(tmp_path)[0][0].nodes.to_pylist() == [0, 1, 2]
    assert caplog.messages == []
    graph = networkx.Graph([("alice", "bob"), ("bob", "carol")])
    networkx.write_graphml(graph, tmp_path / "2026-01-01.graphml")
    again = igraph.Graph.Read_GraphML(str(tmp_path / "2026-01-01.graphml"))
    again.write_graphml(str(tmp_path / "2026-01-02.graphml"))
    graph.add_weighted_edges_from([("alice", "bob", 3), ("bob", "carol", 2.5)])  # two types
    networkx.write_graphml(graph, tmp_path / "2026-01-03.graphml")
    snapshots, bad = read(tmp_path)
    assert bad == []
    assert [snapshot.nodes.to_pylist() for snapshot in snapshots] == [["alice", "bob", "carol"]] * 3
    assert weighted(snapshots[2]) == {("alice", "bob"): 3, ("bob", "carol"): 2.5}


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("<edge source='a'/>", "an id is empty"),
        ("<edge target='a'/>", "an id is empty"),
        ("<edge source='a' target=''/>", "an id is empty"),
        (
            "<edge source='b' target='c'><data key='w'>2</data><data key='w'>3</data></edge>",
            "weight '2 and 3' is not an edge: its weight is no finite number above 0",
        ),
    ],
)
def test_a_broken_edge_is_a_bad_row(part: str, why: str, tmp_path: Path) -> None:
    content = graphml("a b", "a-b=1", WEIGHT("edge")).replace("</graph>", f"{part}</graph>")
    (snapshot,), (bad,) = read(tmp_path, content)
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
    snapshots, bad = read(tmp_path, *[graphml(nodes, edges)] * 2)
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
    snapshots, bad = read(tmp_path, NAMED, second, NAMED)
    assert [snapshot.nodes.to_pylist() for snapshot in snapshots] == [["a", "b", "c"]] * 2
    (refused,) = bad
    assert refused.startswith("2026-01-02.graphml makes no snapshot: the attribute name names")
    assert f"here {why}: give each node a name of its own" in refused


def test_places_in_a_file_do_not_decide_what_names_the_nodes_of_the_next(tmp_path: Path) -> None:
    snapshots, _ = read(tmp_path, SHARED, NAMED)
    assert [snapshot.nodes[0].as_py() for snapshot in snapshots] == ["n0", "a"]
    numbers = [content.replace("n0", "60").replace("n1", "61").replace("n2", "62") for content in
               (SHARED, NAMED)]  # fmt: skip
    snapshots, _ = read(tmp_path, *numbers)
    assert [snapshot.nodes[0].as_py() for snapshot in snapshots] == [60, 60]


def test_an_edge_without_a_weight_has_the_default_or_weighs_1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "<key id='w' for='edge' attr.name='weight'>{}</key>".format
    snapshots, _ = read(
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
    read(tmp_path, *[graphml("a b", "a-b=3", keys)] * 2)
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
    snapshots, (bad,) = read(tmp_path, content)
    assert snapshots == []
    assert re.search(NO_GRAPH[content], bad)


def test_deeply_nested_parts_are_read(tmp_path: Path) -> None:
    depth = 20_000
    nested = "<graph><node id='a'>" * depth + "</node></graph>" * depth
    content = graphml("a b", "a-b").replace("</graph>", f"<node id='c'>{nested}</node></graph>")
    (snapshot,), bad = read(tmp_path, content)
    assert (snapshot.nodes.to_pylist(), bad) == (["a", "b", "c"], [])
