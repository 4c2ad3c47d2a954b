"""Labels in hindsight: what the windows before and after show of each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.snapshot import Window
from stream_icd.learning.training.icd.taught import in_hindsight, taught_by
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

START, HOUR = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=1)


def moment(number: int, n_nodes: int, graph: str = "g") -> Moment:
    at = START + number * HOUR
    return Moment(graph, pa.array(range(n_nodes)), Window(at, at + HOUR))


@pytest.fixture(scope="module")
def windows() -> list[LabelledGraph]:
    """Four windows of 600 nodes, half of whose edges leave their community."""
    settings = LfrSettings(600, max_degree=40, max_community=60, mixing=0.5)
    return [
        LabelledGraph(one.adjacency(), one.communities, moment(number, 600))
        for number, (one, _) in enumerate(generate_drifting_lfr(1, 4, settings))
    ]


def bare(windows: list[LabelledGraph]) -> list[LabelledGraph]:
    return [replace(window, labels=None) for window in windows]


def test_later_windows_show_the_communities_of_the_first(windows: list[LabelledGraph]) -> None:
    first = windows[0]
    found, *_ = in_hindsight(windows)
    when_it_came = detect(first.adjacency, open_model("default").model).communities
    assert found is not None
    assert first.labels is not None
    assert ami(first.labels, found) > ami(first.labels, when_it_came) + 0.02


def test_a_graph_without_communities_has_no_labels(windows: list[LabelledGraph]) -> None:
    made = generate_gn(np.random.default_rng(0), 250, 1, 0.04)
    random = LabelledGraph(made.adjacency(), None, moment(0, 250, "random"))
    assert in_hindsight([random]) == [None]
    taught = taught_by([random, *bare(windows)])
    assert [one.graph.moment for one in taught] == [one.moment for one in windows]
    assert {one.by for one in taught} == {"hindsight"}


def test_known_labels_are_not_replaced(windows: list[LabelledGraph]) -> None:
    taught = taught_by([*bare(windows[:3]), windows[3]])
    assert [one.by for one in taught] == ["hindsight"] * 3 + ["labels"]
    assert taught[-1].labels is windows[3].labels


def test_each_graph_has_a_memory_of_its_own(windows: list[LabelledGraph]) -> None:
    others = [replace(one, moment=moment(at, 600, "h")) for at, one in enumerate(windows)]
    mixed = [one for both in zip(windows, others, strict=True) for one in both]
    alone = in_hindsight(windows)
    for place, labels in enumerate(in_hindsight(mixed)):
        np.testing.assert_array_equal(labels, alone[place // 2])


def test_windows_of_the_same_time_are_not_of_one_stream(windows: list[LabelledGraph]) -> None:
    same = [replace(window, moment=moment(0, 600)) for window in windows[:2]]
    for labels, window in zip(in_hindsight(same), same, strict=True):
        np.testing.assert_array_equal(labels, in_hindsight([window])[0])


def test_the_number_of_communities_that_a_window_states_is_used(
    windows: list[LabelledGraph],
) -> None:
    given = [
        replace(one, moment=replace(one.moment, n_communities=9)) for one in windows if one.moment
    ]
    for labels in in_hindsight(given):
        assert labels is not None
        assert len(np.unique(labels)) == 9
