"""`--names`: a table of attributes for each graph, or one for the only graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_icd.commands.programs.naming import _tables_of
from stream_icd.core.errors import BadSettings
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.wire.communities import encode_communities
from tests.run_here import run_here
from tests.streaming.workers.tracked import window


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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["{0}", "{0}"], "already; give each graph one"),
        (["a={0}", "a={0}"], "a table of this graph already"),
        (["a={0}", "{0}"], "does not say to which graph it belongs"),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(
    countries: str, given: list[str], said: str
) -> None:
    with pytest.raises(BadSettings, match=said):
        _tables_of([name.format(countries) for name in given])


def test_one_table_for_an_archive_of_two_graphs_is_refused(countries: str, tmp_path: Path) -> None:
    archive = Archive(open_store(str(tmp_path / "history")))
    for graph in ("as733", "school"):
        archive.add("communities", encode_communities(window(graph, 0, [0] * 4)), (0, 0))
    history = str(tmp_path / "history")
    asked = ("view", "--port", "0", "--history", history, "--names", countries)
    refused = run_here(*asked)
    assert refused.returncode == 78
    assert "belongs to as733, school: give --names as733=FILE" in refused.stderr
