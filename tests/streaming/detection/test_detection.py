"""Which method detects, on which weights, and whether its model fits the graph."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy.sparse import block_array, csr_array
from structlog.testing import capture_logs

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.model import Method, MethodChoice, Model
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.weighing import Weighing
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.detect import detect, finding
from stream_icd.streaming.detection.record import Detection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.detection.snapshot import detect_snapshot, misfit


@pytest.mark.parametrize(
    ("own", "choice", "used"),
    [("bp", "auto", "bp"), ("icd", "auto", "icd"), ("bp", "icd", "icd"), ("icd", "bp", "bp")],
)
def test_auto_is_the_models_own_method_and_any_other_forces_one(
    recipe: Recipe, graph: LabelledGraph, own: Method, choice: MethodChoice, used: Method
) -> None:
    model = Model(recipe, BpParameters(stay=0.0), method=own)
    detected = detect(graph.adjacency, model, 15, method=choice).communities
    expected = detect(graph.adjacency, Model(recipe), 15, method=used).communities
    assert np.array_equal(detected, expected)
    assert (finding(choice, model) is None) == (used == "bp")
    versioned = VersionedModel("toy@12345678", model)
    detection = Detection(versioned, DetectSettings(method=choice, memory="auto"))
    assert detection.version == {"bp": "toy@12345678", "icd": "toy@12345678-icd"}[used]
    assert detection.remembers == (used == "icd"), "only bp asks whether nodes stay"
    assert DetectSettings().method == "auto"
    if choice == "auto":
        by_default = detect(graph.adjacency, model, 15)
        assert (by_default.milliseconds["encode"] > 0) == (used == "icd")


BP = BpParameters(resolution=0.01)  # finds a single community


@pytest.fixture(scope="module")
def learned() -> Model:
    """A model with a trained encoder: as if learned, but at random."""
    untrained = Model(Recipe(name="edges", encoder=EDGES), BP)
    rng = np.random.default_rng(0)
    last = rng.normal(0, 0.02, untrained.weights["last"].shape).astype(np.float32)
    return replace(untrained, trained=untrained.weights | {"last": last})


@pytest.fixture
def with_isolated(graph: LabelledGraph) -> csr_array:
    """The graph with three nodes before it that have no edges."""
    return as_adjacency(block_array([[csr_array((3, 3)), None], [None, graph.adjacency]]))


@pytest.mark.parametrize("k", [None, 9])
def test_bp_searches_the_weighted_graph(
    learned: Model, with_isolated: csr_array, k: int | None
) -> None:
    weigh = Weighing.of(learned)
    assert weigh is not None
    weighed = weigh(with_isolated)
    assert np.array_equal(weighed.indices, with_isolated.indices)
    assert len(np.unique(weighed.data)) > 1000
    assert (weighed != weighed.T).nnz == 0
    detection = detect(with_isolated, learned, k, method="bp")
    expected = find_communities(weighed, BpParameters.as_weighted(0.0), k)
    assert np.array_equal(detection.communities, expected)
    assert detection.milliseconds["encode"] > 0
    assert detect(csr_array((4, 4)), learned, method="bp").communities.tolist() == [0, 1, 2, 3]


def trained(model: Model, **weights: float) -> Model:
    """The model with other weights, of one number each."""
    changed = {name: np.full(1, weight, np.float32) for name, weight in weights.items()}
    return replace(model, trained=model.weights | changed)


def test_bp_does_without_an_encoder_that_is_untrained_or_has_a_power_of_0(
    learned: Model, graph: LabelledGraph
) -> None:
    untrained, without = Model(Recipe(name="edges", encoder=EDGES), BP), trained(learned, power=0)
    for model in (untrained, Model(Recipe(name="hops"), BP), without):
        assert Weighing.of(model) is None
        detection = detect(graph.adjacency, model, method="bp")
        assert detection.communities.max() == 0
        assert detection.milliseconds["encode"] == 0
    by_icd = (detect(graph.adjacency, model, 9, method="icd") for model in (learned, without))
    assert np.array_equal(*(detection.communities for detection in by_icd))


def test_the_resolution_that_was_learned_is_used(learned: Model, graph: LabelledGraph) -> None:
    coarse = trained(learned, resolution=1e-3)
    for method in ("bp", "icd"):
        assert detect(graph.adjacency, learned, method=method).communities.max() > 0
        assert detect(graph.adjacency, coarse, method=method).communities.max() == 0


Checked = set[tuple[str, str]]
REASON = r".* bits per edge more .*\(modularity -?0\.\d\d; without a model 0\.\d\d\)"

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stars(graph: str, n_stars: int = 12, size: int = 20) -> Snapshot:
    """Mails of offices in which all write to the head: no model of dense communities fits them."""
    heads = np.repeat(np.arange(n_stars), size)
    members = np.arange(n_stars * size) + n_stars
    return snapshot_from_pairs(
        np.concatenate([heads, np.arange(n_stars - 1)]),
        np.concatenate([members, np.arange(1, n_stars)]),
        graph=graph,
        id=f"{graph}/noon",
        window=Window(NOON, NOON),
    )


@pytest.fixture(scope="module")
def too_fine() -> VersionedModel:
    """A model of communities much smaller than those stars."""
    opened = open_model("gn")
    model = replace(opened.model, bp=BpParameters(resolution=64))
    return VersionedModel("fine@1", model)


def warnings_of(checked: Checked, model: VersionedModel, *snapshots: Snapshot) -> list[str]:
    with capture_logs() as logs:
        for snapshot in snapshots:
            detect_snapshot(snapshot, model, DetectSettings(), checked=checked)
    warnings = [log for log in logs if log["log_level"] == "warning"]
    for warning in warnings:
        assert warning["event"] == "model does not fit"
        assert "models list" in warning["advice"]
        assert re.match(REASON, warning["reason"])
    return [warning["graph"] for warning in warnings]


def test_a_model_that_does_not_fit_is_named_once_for_each_graph(too_fine: VersionedModel) -> None:
    checked: Checked = set()
    assert warnings_of(checked, too_fine, stars("a"), stars("a"), stars("b")) == ["a", "b"]
    other = VersionedModel("fine@2", too_fine.model)
    assert warnings_of(checked, other, stars("a")) == ["a"]
    proved = replace(too_fine, proved_on=frozenset({"a"}))
    assert warnings_of(set(), proved, stars("a"), stars("b")) == ["b"]
    assert warnings_of(set(), open_model("as"), stars("a")) == [], "the defaults fit everything"


def test_a_model_on_its_own_kind_of_graph_is_not_warned_of() -> None:
    """Though modularity finds a higher modularity than the model does."""
    for seed in range(3):
        for name, planted in (
            ("gn", generate_gn(np.random.default_rng(seed), 1000, 50, p_in=0.5)),
            ("lfr", generate_lfr(np.random.default_rng(seed), LfrSettings(1000, mixing=0.3))),
        ):
            adjacency = planted.adjacency()
            labels = find_communities(adjacency, open_model(name).model.bp)
            assert misfit(adjacency, labels) is None
