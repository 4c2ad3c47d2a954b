"""`--names`: a table of attributes for each graph or the only one, and what subscribers see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.commands.cli import subscribe_shapes as shapes
from stream_icd.commands.programs.naming import _tables_of
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.wire.communities import encode_communities
from tests.run_here import run_here
from tests.streaming.workers.tracked import unbroken, window

NAMES = {"0": "PC, 10 of 10", "1": "MP, 8 of 8"}
CLASSES = attributes_of(pa.array(range(18)), {"class": ["PC"] * 10 + ["MP"] * 8})


def naming(*graphs: str) -> Naming:
    return Naming(dict.fromkeys(graphs or (None,), CLASSES))


def result(graph: str, *, text: bool = False) -> Communities:
    of_hour = window(graph, 0, np.arange(18) >= 10)
    return replace(of_hour, nodes=pa.array(map(str, range(10, 28)))) if text else of_hour


def names_in(shape: shapes.Shape[Communities], result: Communities) -> dict[str, str]:
    names: dict[str, str] = shape.document(result)["names"]
    return names


def communities(*graphs: str, of_one_graph: bool = False) -> shapes.Shape[Communities]:
    return shapes.shape_of("communities", naming=naming(*graphs), of_one_graph=of_one_graph)


def test_a_table_names_the_communities_of_its_graph_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(BadSettings, match="names nodes by integers, the graph by text"):
        communities(of_one_graph=True).document(result("g", text=True))
    several = communities()
    assert names_in(several, result("g")) == NAMES
    with pytest.raises(BadSettings, match=r"belongs to g, school: give --names g=FILE"):
        several.document(result("school"))
    of_three = communities("x\x1b[2J", "y", "g")
    for graph, text in (("x\x1b[2J", True), ("y", True), ("g", False), ("school", False)):
        assert names_in(of_three, result(graph, text=text)) == (NAMES if graph == "g" else {})
    (warned,) = capsys.readouterr().err.splitlines()
    assert r"no names of graph x\x1b[2J: the table of attributes names nodes by integers" in warned


def test_names_of_graphs_without_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "_MOST_GRAPHS", 2)
    named, first = communities("g", "h0", "h1"), result("g")
    for graph in ("g", "h0", "h1"):
        names_in(named, result(graph))
    assert names_in(named, replace(first, snapshot_id="g/1")) == NAMES


def test_each_result_has_the_names_of_its_own_communities() -> None:
    named, first = communities(), result("g")
    other = replace(first, labels=1 - first.labels)
    assert names_in(named, first) == NAMES
    for again in ({"revision": "b"}, {"model": "n@1"}):
        assert names_in(named, replace(other, **again)) == {"1": "PC, 10 of 10", "0": "MP, 8 of 8"}
    mixed = replace(first, snapshot_id="g/1", labels=np.arange(18, dtype=np.int32) % 2)
    assert names_in(named, mixed) == {}, "those of the window before are of other communities"


def test_what_has_just_ended_keeps_its_name_and_what_goes_on_has_the_new_one() -> None:
    named = communities()
    ids, replaced = np.array([4, 7]), np.empty((0, 2), np.int64)
    first = replace(result("g"), community_ids=ids, replaced=replaced)
    assert names_in(named, first) == {"4": "PC, 10 of 10", "7": "MP, 8 of 8"}
    one = replace(first, snapshot_id="g/1", labels=0 * first.labels, community_ids=ids[:1])
    for revision in ("a", "b"):
        assert names_in(named, replace(one, revision=revision)) == {"7": "MP, 8 of 8"}


def test_lines_leave_out_what_the_edges_speak_against() -> None:
    first, merged = unbroken([window("g", 0, [0] * 10 + [1] * 8), window("g", 1, [0] * 18)])
    (event,) = merged.events
    for bits, said in ((-22.4, []), (16.4, ["16 bits"]), (None, [""])):
        told = replace(merged, events=(replace(event, bits=bits),))
        lines = list(shapes.shape_of("events", least_bits=0.0).lines(told))
        assert [line.partition("community 0")[2].strip("; ") for line in lines] == said
        assert len(list(shapes.shape_of("events").lines(told))) == 1
    assert len(list(shapes.shape_of("events", left_out=["born"]).lines(first))) == 0


def test_members_have_the_name_of_their_community_not_of_that_of_an_event() -> None:
    apart, together = [0] * 10 + [1] * 8, [0] * 18
    hours = [window("g", hour, labels) for hour, labels in enumerate((apart, together, apart))]
    named = shapes.shape_of("members", community=1, naming=naming(), of_one_graph=True)
    lines = [line for hour in unbroken(hours) for line in named.lines(hour)]
    assert len(lines) == 3
    assert all(line.endswith("  MP, 8 of 8") for line in lines)


@pytest.fixture
def countries(tmp_path: Path) -> str:
    (table := tmp_path / "countries.csv").write_text("node,country\n7,US\n")
    return str(table)


def graphs_of(names: list[str], graph: str | None = None) -> dict[str | None, str]:
    return {of: table.columns[0].name for of, table in _tables_of(names, graph).items()}


def test_a_table_belongs_to_the_graph_that_it_is_given_for(countries: str, tmp_path: Path) -> None:
    (classes := tmp_path / "classes.csv").write_text("node,class\n7,PC\n")
    given = [f"as733={countries}", f"school={classes}"]
    assert graphs_of(given) == {"as733": "country", "school": "class"}
    assert graphs_of([countries], "as733") == {"as733": "country"}
    assert graphs_of([countries]) == {None: "country"}
    (odd := tmp_path / "day=1.csv").write_text("node,day\n7,1\n")
    assert graphs_of([str(odd)]) == {None: "day"}


def test_tables_that_do_not_fit_together_are_refused(countries: str) -> None:
    for names, said in (
        ([countries, countries], "already; give each graph one"),
        ([f"a={countries}", f"a={countries}"], "a table of this graph already"),
        ([f"a={countries}", countries], "does not say to which graph it belongs"),
    ):
        with pytest.raises(BadSettings, match=said):
            _tables_of(names)


def test_one_table_for_an_archive_of_two_graphs_is_refused(countries: str, tmp_path: Path) -> None:
    archive = Archive(open_store(str(tmp_path / "history")))
    for graph in ("as733", "school"):
        archive.add("communities", encode_communities(window(graph, 0, [0] * 4)), (0, 0))
    history = ("--history", str(tmp_path / "history"))
    refused = run_here("view", "--port", "0", *history, "--names", countries)
    assert refused.returncode == 78
    assert "belongs to as733, school: give --names as733=FILE" in refused.stderr
