"""How good a model is on past windows is measured as detectors use it: with memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score

from stream_icd.interfaces.estimator import ICD
from stream_icd.learning.training.card import card
from stream_icd.learning.training.train_model import train_model
from stream_icd.learning.training.yardstick import (
    ModelComparison,
    compared_with_default,
    judge,
    verdict,
)
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.registry.find import open_model
from tests.testbed.lessons import drifting_windows

LFR = open_model("lfr").model


def windows(n_windows: int, *, labels: bool = True, mixing: float = 0.55) -> list[LabelledGraph]:
    return drifting_windows(3, n_windows, LfrSettings(800, mixing=mixing), labels=labels)


def test_windows_are_found_as_a_detector_finds_them_with_memory() -> None:
    graphs, icd, memory = windows(4), ICD.load("lfr"), None
    for graph, (judged,) in zip(graphs, judge(graphs, [LFR]), strict=True):
        found = icd.predict_next(graph.adjacency, memory)
        memory = found.memory
        expected = adjusted_mutual_info_score(graph.labels, found.communities)
        assert judged.ami == pytest.approx(expected)
    (alone,) = next(judge([replace(graphs[-1], moment=None)], [LFR]))
    assert judged.ami > alone.ami + 0.02


def test_without_labels_the_new_edges_of_the_next_window_judge() -> None:
    graphs = windows(3, labels=False, mixing=0.4)
    joins_all = Model(LFR.recipe, BpParameters(resolution=0.01))
    first, *later = judge(graphs, [LFR, joins_all])
    assert [one.bits for one in first] == [None, None]  # nothing came before
    for good, bad in later:
        assert good.ami is None
        assert good.bits > bad.bits + 0.1
    [compared] = compared_with_default(joins_all, [], graphs, memory=True)
    expected = "bp with memory", "bits saved per edge", 2
    assert (compared.name, compared.measure, compared.n_graphs) == expected
    assert verdict([compared]).startswith("not better than the model default, so use default: -")


def test_streams_do_not_share_a_memory() -> None:
    graphs = windows(3)
    others = [
        replace(one, moment=replace(one.moment, graph="h")) for one in windows(3) if one.moment
    ]
    mixed = [graph for pair in zip(graphs, others, strict=True) for graph in pair]
    separate = list(judge(graphs, [LFR]))
    assert list(judge(mixed, [LFR]))[::2] == separate == list(judge(mixed, [LFR]))[1::2]


def test_the_card_answers_with_memory_against_default_on_windows_not_learned_from() -> None:
    graphs = drifting_windows(3, 10, LfrSettings(300, mixing=0.55))
    trained = train_model(graphs, Recipe(name="mine", split=(0.0, 0.8, 0.2)), threads=1)
    first = trained.test[0]
    assert (first.name, first.measure) == ("bp with memory", "AMI, %")
    assert (first.control_name, first.n_graphs) == ("default", 2)
    judged = list(judge(graphs[3:], [trained.model, open_model("default").model]))[-2:]
    means = 100 * np.array([[one.ami for one in both] for both in judged]).mean(axis=0)
    assert [first.trained.mean, first.control.mean] == pytest.approx(list(means))
    text = card(trained)
    scores = f"{first.trained} | default | {first.control} | {first.gain}"
    assert f"| bp with memory | AMI, % | {scores} |" in text
    assert ("not better than the model `default`" in text) == (not first.is_gain)


def test_a_gain_within_the_standard_error_is_none() -> None:
    none = ModelComparison.of("bp", "AMI, %", "default", [[80.0, 79.0], [70.0, 70.9]])
    assert verdict([none]).startswith("not better than the model default, so use default: +0.05")
    one = ModelComparison.of("bp", "AMI, %", "default", [[80.0, 70.0]])
    assert (one.is_gain, str(one.gain)) == (False, "10.00")
    assert verdict([one]).startswith("one graph does not tell whether")
    assert verdict([]).startswith("not compared: there are no new edges")
