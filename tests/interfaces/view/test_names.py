"""The page names communities, says what they are made of, and shows the events that last."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.panels.queries import Queries
from stream_icd.interfaces.view.report import write_html
from stream_icd.methods.names.attributes import Tables, attributes_of
from stream_icd.methods.names.names import Naming
from tests.interfaces.view.windows import ORIGIN, name, seen
from tests.interfaces.view.windows import queries as queries_of
from tests.testbed.windows import window

CLASSES = ["PC"] * 20 + ["MP"] * 20 + ["2BIO"] * 20
APART, TOGETHER = np.repeat([0, 1, 2], 20), np.repeat([0, 0, 1], 20)


def classes() -> Naming:
    return Naming(Tables({None: attributes_of(pa.array(range(60)), {"class": CLASSES})}))


def shown(*labels: np.ndarray, naming: Naming | None = None) -> Queries:
    return queries_of(seen(labels, to=AllSeries(naming=naming or classes())))


def test_communities_have_names_in_the_flow_the_map_and_the_list_of_events() -> None:
    queries = shown(APART, APART)
    asked = name()._asdict()
    names = {"text": "PC, 20 of 20", "brief": "PC", "attribute": "class", "value": "PC"}
    for answer in (queries.flow(asked), queries.map(asked), queries.events(asked)):
        assert answer["names"]["0"] == names
        assert len(answer["names"]) == 3


def test_a_community_is_made_of_the_values_of_its_members() -> None:
    parts = shown(TOGETHER).composition({**name()._asdict(), "community": "0"})
    counted = [tuple(one.values())[:3] for one in parts["attributes"]["class"]]
    assert counted == [("MP", 20, 20), ("PC", 20, 20)]


def test_a_value_keeps_its_colour_whatever_comes() -> None:
    queries = shown(APART)
    asked = {**name()._asdict(), "by": "class"}
    values = [one["value"] for one in queries.legend(asked)["values"]]
    assert values == ["2BIO", "MP", "PC"]
    queries.seen.add(window(1, TOGETHER[20:], np.arange(20, 60)), ORIGIN)
    later = queries.legend(asked)
    assert [one["value"] for one in later["values"]] == values
    assert [one["nodes"] for one in later["values"]] == [20, 20, 0]
    assert (later["others"], later["unknown"]) == (0, 0)


def test_colours_of_what_was_read_do_not_depend_on_when_somebody_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    early, late = shown(TOGETHER), shown(TOGETHER)
    asked = {**name()._asdict(), "by": "class"}
    found = {}
    for one in (early, late):
        with monkeypatch.context() as reading:
            reading.setattr(type(one.sources), "caught_up", lambda _: False)
            if one is early:
                one.legend(asked)
            one.seen.add(window(1, TOGETHER[:30], np.arange(30)), ORIGIN)
        found[one is early] = [entry["value"] for entry in one.legend(asked)["values"]]
    assert found[True] == found[False] == ["PC", "MP", "2BIO"]


def test_the_life_has_the_agreement_with_each_attribute() -> None:
    columns = shown(APART, TOGETHER).life(name()._asdict())["columns"]
    first, second = (row["class"] for row in columns["ami"])
    assert first == 1
    assert 0.5 < second < 0.9


def test_one_table_and_two_graphs_name_nothing_and_say_so() -> None:
    queries = shown(APART)
    assert queries.flow(name()._asdict())["names"] != {}
    seen([APART], "school", to=queries.seen)
    for graph in ("g", "school"):
        assert queries.flow(name(graph)._asdict())["names"] == {}
    said = queries.overview({})["troubles"]["the table of names"]
    assert "belongs to g, school: give --names g=FILE" in said


def test_ids_of_another_kind_are_a_trouble_and_no_name() -> None:
    naming = Naming(Tables({"g": attributes_of(pa.array(["anna"]), {"class": ["PC"]})}))
    queries = shown(APART, naming=naming)
    assert queries.flow(name()._asdict())["names"] == {}
    trouble = queries.overview({})["troubles"]["the table of names"]
    assert "by text, the graph by integers" in trouble


def test_events_say_for_how_many_windows_they_lasted_and_others_are_counted() -> None:
    queries = shown(APART, APART, TOGETHER, TOGETHER, APART, APART, APART, APART, APART)
    asked = {**name()._asdict(), "kinds": "merged,split"}
    split, merged = queries.events(asked)["events"]
    assert (merged["kind"], merged["lasted"], merged["undone"]) == ("merged", 1, True)
    assert (split["kind"], split["lasted"], split["undone"]) == ("split", 3, False)
    confirmed = queries.events({**asked, "lasting": "3"})
    assert [event["kind"] for event in confirmed["events"]] == ["split"]
    assert confirmed["hidden"] == 1
    assert queries.events({**asked, "least_bits": "5"})["events"] == []  # none has a strength


def test_a_report_holds_the_names_and_what_the_largest_are_made_of(tmp_path: Path) -> None:
    page = write_html(shown(APART, APART), name(), tmp_path / "report.html").read_text()
    kept = json.loads(page.partition('id="kept">')[2].partition("</script>")[0])
    assert kept["flow"]["names"]["1"]["text"] == "MP, 20 of 20"
    assert kept["composition"]["2"]["attributes"]["class"][0]["members"] == 20
