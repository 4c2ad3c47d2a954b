"""Which method detects, if any, one or the model's own is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Method, MethodChoice, Model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.detect import detect, finding
from stream_icd.streaming.detection.record import Detection
from stream_icd.streaming.detection.settings import DetectSettings

CHOICES = [
    ("bp", "auto", "bp"),
    ("icd", "auto", "icd"),
    ("bp", "icd", "icd"),
    ("icd", "bp", "bp"),
]
each_choice = pytest.mark.parametrize(("own", "choice", "used"), CHOICES)


@each_choice
def test_auto_is_the_models_own_and_any_other_forces_one(
    recipe: Recipe, graph: LabelledGraph, own: Method, choice: MethodChoice, used: Method
) -> None:
    model = Model(recipe, method=own)
    found = detect(graph.adjacency, model, 15, method=choice).communities
    expected = detect(graph.adjacency, Model(recipe), 15, method=used).communities
    assert np.array_equal(found, expected)
    assert (finding(choice, model) is None) == (used == "bp")


@each_choice
def test_the_published_version_says_which_method_was_used(
    recipe: Recipe, own: Method, choice: MethodChoice, used: Method
) -> None:
    model = VersionedModel("toy@12345678", Model(recipe, method=own))
    version = Detection(model, DetectSettings(method=choice)).version
    assert version == {"bp": "toy@12345678", "icd": "toy@12345678-icd"}[used]


@each_choice
def test_only_bp_asks_whether_nodes_stay(
    recipe: Recipe, own: Method, choice: MethodChoice, used: Method
) -> None:
    model = VersionedModel("toy@12345678", Model(recipe, BpParameters(stay=0.0), method=own))
    detection = Detection(model, DetectSettings(method=choice, memory="auto"))
    assert detection.remembers == (used == "icd")


def test_the_models_own_method_is_the_default(graph: LabelledGraph, recipe: Recipe) -> None:
    assert DetectSettings().method == "auto"
    model = Model(recipe, method="icd")
    assert detect(graph.adjacency, model, 15).milliseconds["encode"] > 0
