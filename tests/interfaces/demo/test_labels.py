"""The names in an alluvial diagram stand in their bands, and none on another."""

from __future__ import annotations

from itertools import combinations

from stream_icd.interfaces.view.alluvial import _Bands, _Label, _places_of_labels, _stack

TOP = 400.0


def placed(columns: list[dict[int, int]]) -> tuple[_Bands, dict[int, _Label]]:
    bands = _Bands(columns, [_stack(column, 300) for column in columns], TOP, letters=80)
    texts = {one: f"community {one}" for column in columns for one in column}
    return bands, {label.community: label for label in _places_of_labels(bands, texts)}


def test_a_name_stands_where_its_band_is_widest_even_if_it_ends_before() -> None:
    bands, labels = placed([{1: 200, 2: 50}] * 5 + [{2: 250}] * 15)
    assert labels[1].x < 5
    for community, label in labels.items():
        at = round(label.x)
        bottom = bands.bottoms[at][community]
        assert bottom <= label.y <= bottom + bands.sizes[at][community]
        assert label.leads_from is None


def test_a_name_stands_where_all_of_it_lies_in_its_band() -> None:
    low, high = {1: 100, 2: 100}, {1: 300, 2: 110}
    _, labels = placed([low] * 19 + [high])
    assert labels[2].x < 18, "the last column, where it is widest, is higher than those before"


def test_thin_bands_are_named_beside_with_a_line_and_none_lies_on_another() -> None:
    thin = dict.fromkeys(range(10, 40), 2)
    bands, labels = placed([{1: 200, **thin}] * 10)
    assert labels[1].leads_from is None
    assert len(labels) > 20
    assert all(0 < label.y < TOP for label in labels.values())
    for one, other in combinations(labels.values(), 2):
        assert abs(one.y - other.y) > 0.99 * bands.line or one.leads_from is None
    for community in labels.keys() - {1}:
        assert labels[community].leads_from == (9, bands.middle(9, community))
