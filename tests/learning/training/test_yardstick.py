"""How good a model is on past windows is measured as detectors use it: with memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array, triu
from sklearn.metrics import adjusted_mutual_info_score

from stream_icd.core.snapshot import Window
from stream_icd.interfaces.estimator import ICD
from stream_icd.learning.training.bp import fit_stream
from stream_icd.learning.training.bp.fitted import FitOptions
from stream_icd.learning.training.card import card
from stream_icd.learning.training.train_model import train_model
from stream_icd.learning.training.yardstick import against_default, comparison, judge, verdict
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.registry.find import open_model

HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
LFR = open_model("lfr").model
DEFAULT = open_model("default").model


def windows(
    n_windows: int, *, labels: bool = True, mixing: float = 0.55, n: int = 800
) -> list[LabelledGraph]:
    drawn = generate_drifting_lfr(3, n_windows, LfrSettings(n, mixing=mixing))
    return [
        LabelledGraph(
            graph.adjacency(),
            graph.communities if labels else None,
            Moment("g", pa.array(range(n)), Window(START + k * HOUR, START + (k + 1) * HOUR)),
        )
        for k, (graph, _) in enumerate(drawn)
    ]


def alone(graph: LabelledGraph) -> float:
    (judged,) = next(judge([LabelledGraph(graph.adjacency, graph.labels)], [LFR]))
    assert judged.ami is not None
    return judged.ami


def test_windows_are_found_as_a_detector_finds_them_with_memory() -> None:
    graphs, icd, memory = windows(4), ICD.load("lfr"), None
    for graph, (judged,) in zip(graphs, judge(graphs, [LFR]), strict=True):
        found = icd.predict_next(graph.adjacency, memory)
        memory = found.memory
        expected = adjusted_mutual_info_score(graph.labels, found.communities)
        assert judged.ami == pytest.approx(expected)
    assert judged.ami > alone(graphs[-1]) + 0.02


def test_without_labels_the_new_edges_of_the_next_window_judge() -> None:
    graphs = windows(3, labels=False, mixing=0.4)
    judged = list(judge(graphs, [LFR, Model(LFR.recipe, BpParameters(resolution=0.01))]))
    assert [one.bits for one in judged[0]] == [None, None]  # nothing came before
    for good, bad in judged[1:]:
        assert good.ami is None
        assert good.bits > bad.bits + 0.1
    first, *_ = against_default(judged, memory=True)
    assert (first.name, first.measure, first.n_graphs) == (
        "bp with memory",
        "bits saved per edge",
        2,
    )
    assert verdict([first]).startswith("better than the model default: +")


def test_streams_do_not_share_a_memory() -> None:
    graphs = windows(3)
    others = [
        LabelledGraph(
            window.adjacency, window.labels, Moment("h", window.moment.nodes, window.moment.window)
        )
        for window in windows(3)
        if window.moment is not None
    ]
    mixed = [graph for pair in zip(graphs, others, strict=True) for graph in pair]
    separate = list(judge(graphs, [LFR]))
    assert list(judge(mixed, [LFR]))[::2] == separate == list(judge(mixed, [LFR]))[1::2]


def test_the_card_answers_with_memory_against_default_on_windows_not_learned_from() -> None:
    graphs = windows(10, n=300)
    trained = train_model(graphs, Recipe(name="mine", split=(0.0, 0.8, 0.2)), threads=1)
    first = trained.test[0]
    assert (first.name, first.measure) == ("bp with memory", "AMI, %")
    assert (first.control_name, first.n_graphs) == ("default", 2)
    judged = list(judge(graphs[3:], [trained.model, DEFAULT]))[-2:]
    assert against_default(judged, memory=True)[0] == first
    text = card(trained)
    scores = f"{first.trained} | default | {first.control} | {first.gain}"
    assert f"| bp with memory | AMI, % | {scores} |" in text
    assert ("not better than the model `default`" in text) == (not first.is_gain)


def test_a_gain_within_the_standard_error_is_none() -> None:
    none = comparison("bp", "AMI, %", "default", [80.0, 70.0], [79.0, 70.9])
    assert verdict([none]).startswith("not better than the model default, so use default: +0.05")
    one = comparison("bp", "AMI, %", "default", [80.0], [70.0])
    assert (one.is_gain, str(one.gain)) == (False, "10.00")
    assert verdict([one]).startswith("one graph does not tell whether")
    assert verdict([]).startswith("not compared: there are no new edges")


def weighted(window: LabelledGraph) -> LabelledGraph:
    upper = triu(window.adjacency).tocoo()
    upper.data = np.random.default_rng(1).exponential(size=upper.nnz)
    adjacency = csr_array(upper + upper.T)
    adjacency.sort_indices()
    return LabelledGraph(adjacency, window.labels, window.moment)


def test_learning_uses_the_weights_of_a_window_as_detection_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their square root was taken twice, so learning saw weights that detection never sees."""
    given = [weighted(window) for window in windows(3, labels=False, n=200)]
    seen, find = [], fit_stream.detect_window  # type: ignore[attr-defined]

    def noted(adjacency: csr_array, *arguments: object, **options: object) -> object:
        seen.append(adjacency)
        return find(adjacency, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fit_stream, "detect_window", noted)
    fit_stream.fit_stream(given, FitOptions(threads=1))
    assert seen
    assert all(any(one is window.adjacency for window in given) for one in seen)
