"""Communities are named by what is over-represented in them, and by nothing else."""

from __future__ import annotations

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.methods.names import NamedWindow, attributes_of, named

CLASSES = ["2BIO1"] * 32 + ["PC"] * 40 + ["MP"] * 28
NODES = pa.array(range(100))


def window_of(sizes: list[int], values: list[str | None]) -> NamedWindow:
    """Communities 0, 1, ... of these sizes, one after the other, beside a country of each node."""
    nodes = pa.array(range(len(values)))
    communities = np.repeat(np.arange(len(sizes)), sizes)
    return named(nodes, communities, attributes_of(nodes, {"country": values}))


def test_a_community_of_one_class_and_one_stranger_is_named_by_the_class() -> None:
    communities = np.repeat([3, 8, 9], [32, 40, 28])
    communities[[0, 99]] = [9, 3]
    window = named(NODES, communities, attributes_of(NODES, {"class": CLASSES}))
    names = {community: str(name) for community, name in window.names().items()}
    assert names == {3: "2BIO1, 31 of 32", 8: "PC, 40 of 40", 9: "MP, 27 of 28"}


def test_a_name_says_how_much_of_its_community_it_covers() -> None:
    several = window_of([40, 160], ["RU"] * 20 + ["UA"] * 18 + ["LV"] * 2 + ["US"] * 160).names()
    assert [str(name) for name in several.values()] == ["mostly RU, UA", "US, 160 of 160"]
    assert several[0].values == (("RU", 20), ("UA", 18))
    assert str(window_of([30, 270], ["EE"] * 9 + ["US"] * 291).names()[0]) == "partly EE"
    some = window_of([25, 75], ["CA"] * 20 + [None] * 5 + ["US"] * 75)
    assert str(some.names()[0]) == "CA, 20 of 20 known"
    value, unknown = some.composition(0)["country"]
    assert (value.value, value.members, value.total, value.names) == ("CA", 20, 20, True)
    assert (unknown.value, unknown.members, unknown.total) == (None, 5, 5)


def test_what_is_missing_is_no_value() -> None:
    texts, numbers = ["CH"] * 30 + [float("nan")] * 70, pa.array([1.0] * 30 + [float("nan")] * 70)
    for column, value in ((texts, "CH"), (np.array(texts, object), "CH"), (numbers, "1")):
        (attribute,) = attributes_of(NODES, {"country": column}).columns
        assert attribute.values == (value,)
        assert attribute.codes.tolist() == [0] * 30 + [-1] * 70


def test_communities_at_random_have_names_in_at_most_one_window_of_twenty() -> None:
    rng = np.random.default_rng(7)
    values = rng.zipf(1.5, 600).clip(max=200).astype(str)
    attributes = attributes_of(pa.array(range(600)), {"country": values, "type": values[::-1]})
    sizes = rng.zipf(1.6, 600).cumsum()
    labels = np.searchsorted(sizes, np.arange(600), side="right")
    n_named = sum(
        bool(named(pa.array(range(600)), rng.permutation(labels), attributes).names())
        for _ in range(200)
    )
    assert n_named <= 10


def test_the_clearest_of_several_attributes_names_the_community() -> None:
    communities = np.repeat([0, 1], [50, 50])
    half = ["even" if at % 2 else "odd" for at in range(100)]
    clear = ["left"] * 50 + ["right"] * 50
    blurred = ["up"] * 40 + ["down"] * 60
    attributes = attributes_of(NODES, {"parity": half, "place": blurred, "side": clear})
    names = named(NODES, communities, attributes).names()
    assert {name.attribute for name in names.values()} == {"side"}


def test_there_is_agreement_with_values_and_a_name_with_something_to_compare() -> None:
    attributes = attributes_of(NODES, {"class": CLASSES, "none": [None] * 100})
    groups = named(NODES, np.repeat([0, 1, 2], [32, 40, 28]), attributes)
    assert groups.agreement() == {"class": 1.0, "none": None}
    assert named(NODES, np.zeros(100, int), attributes).names() == {}
    nobody = named(np.array([], object), [], attributes)
    assert (nobody.names(), nobody.agreement()) == ({}, {"class": None, "none": None})


@pytest.mark.parametrize(
    ("nodes", "columns", "said"),
    [
        ([1, 2, 1], {"country": ["CH", "AT", "CH"]}, "1 rows name a node .* such as 1;"),
        ([1, None], {"country": ["CH", "AT"]}, "1 rows have no node"),
        ([1.5, 2.5], {"country": ["CH", "AT"]}, "not double"),
        ([1, 2], {}, "a column besides node"),
        ([1], {"tags": [["a", "b"]]}, "column tags is not all text or all numbers: .*list"),
        ([1, 2], {"tier": [1, "a"]}, "column tier is not all text or all numbers: .*'a'"),
        ([1], {"country": ["\ud800"]}, "column country is not all text or all numbers: .*surrog"),
        ([1], {"country": ["CH", "AT"]}, "column country has 2 values for 1 nodes"),
        ([1, 2], {"country": "CH"}, "column country is a str: give a list"),
        ({1, 2}, {"country": ["CH", "AT"]}, "are a set, which has no order"),
        (["a", 1], {"country": ["CH", "AT"]}, "node ids are neither integers of 64 bits nor text"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(nodes: list, columns: dict, said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        attributes_of(nodes, columns)


@pytest.mark.parametrize(
    ("column", "table"),
    [
        (list, dict),
        (np.array, pandas.DataFrame),
        (pandas.Series, polars.DataFrame),
        (polars.Series, pa.table),
        (lambda ids: pa.chunked_array([ids[:40], ids[40:]]), dict),
    ],
)
def test_ids_and_attributes_may_be_in_any_column_and_table(column, table) -> None:  # type: ignore[no-untyped-def]
    nodes, communities = column(NODES.to_pylist()), np.repeat([0, 1], 50)
    expected = named(NODES, communities, attributes_of(NODES, {"class": CLASSES})).names()
    attributes = attributes_of(nodes, table({"class": CLASSES, "tier": range(100)}))
    assert attributes.names == ("class", "tier")
    assert attributes.columns[0].values == ("2BIO1", "MP", "PC")
    only_class = attributes_of(nodes, table({"class": CLASSES}))
    assert named(nodes, communities, only_class).names() == expected


def test_ids_may_come_in_any_order_be_missing_and_be_large_but_not_of_another_kind() -> None:
    attributes = attributes_of(
        pa.array([5, 3, 2**63], pa.uint64()), {"country": ["CH", "AT", "DE"]}
    )
    (attribute,) = attributes.of_nodes(pa.array([2**63, 4, 3, 5], pa.uint64()))
    values = [*attribute.values, None]  # the last one for -1, that of a node without a value
    assert [values[code] for code in attribute.codes] == ["DE", None, "AT", "CH"]
    with pytest.raises(BadSettings, match="names nodes by integers, the graph by text"):
        named(pa.array(["7018"]), np.array([0]), attributes)


def test_each_node_has_a_community() -> None:
    countries = attributes_of(pa.array([1, 2]), {"country": ["US", "CH"]})
    with pytest.raises(BadInput, match="2 nodes need one community each; got 1"):
        named(pa.array([1, 2]), np.array([0]), countries)
    for wrong in (np.zeros(2), [None, None], np.zeros((2, 1), int)):
        with pytest.raises(BadInput, match="communities are integers, not"):
            named(pa.array([1, 2]), wrong, countries)
