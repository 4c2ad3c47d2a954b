"""Which method detects, on which weights, and whether its model fits the graph."""

from __future__ import annotations

import re
from collections.abc import Callable
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
    found = detect(graph.adjacency, model, 15, method=choice).communities
    expected = detect(graph.adjacency, Model(recipe), 15, method=used).communities
    assert np.array_equal(found, expected)
    assert (finding(choice, model) is None) == (used == "bp")
    versioned = VersionedModel("toy@12345678", model)
    detection = Detection(versioned, DetectSettings(method=choice, memory="auto"))
    assert detection.version == {"bp": "toy@12345678", "icd": "toy@12345678-icd"}[used]
    assert detection.remembers == (used == "icd"), "only bp asks whether nodes stay"


def test_the_models_own_method_is_the_default(graph: LabelledGraph, recipe: Recipe) -> None:
    assert DetectSettings().method == "auto"
    model = Model(recipe, method="icd")
    assert detect(graph.adjacency, model, 15).milliseconds["encode"] > 0


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
    found = detect(with_isolated, learned, k, method="bp")
    expected = find_communities(weighed, BpParameters.as_weighted(0.0), k)
    assert np.array_equal(found.communities, expected)
    assert found.milliseconds["encode"] > 0


def test_without_trained_weights_nothing_changes_for_bp(graph: LabelledGraph) -> None:
    for model in (Model(Recipe(name="edges", encoder=EDGES), BP), Model(Recipe(name="hops"), BP)):
        assert Weighing.of(model) is None
        found = detect(graph.adjacency, model, method="bp")
        assert found.communities.max() == 0
        assert found.milliseconds["encode"] == 0


def test_with_a_power_of_0_bp_does_without_the_encoder(
    learned: Model, graph: LabelledGraph
) -> None:
    assert learned.trained is not None
    without = replace(learned, trained=learned.trained | {"power": np.zeros(1, np.float32)})
    assert Weighing.of(without) is None
    assert detect(graph.adjacency, without, method="bp").communities.max() == 0
    by_icd = (detect(graph.adjacency, one, 9, method="icd") for one in (learned, without))
    assert np.array_equal(*(one.communities for one in by_icd))


def test_the_resolution_that_was_learned_is_used(learned: Model, graph: LabelledGraph) -> None:
    assert learned.trained is not None
    coarse = replace(learned, trained=learned.trained | {"resolution": np.full(1, 1e-3, "f4")})
    for method in ("bp", "icd"):
        assert detect(graph.adjacency, learned, method=method).communities.max() > 0
        assert detect(graph.adjacency, coarse, method=method).communities.max() == 0


def test_a_graph_without_edges_is_weighted_too(learned: Model) -> None:
    assert detect(csr_array((4, 4)), learned, method="bp").communities.tolist() == [0, 1, 2, 3]


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
    found = [log for log in logs if log["log_level"] == "warning"]
    assert all(log["event"] == "model does not fit" for log in found)
    assert all("models list" in log["advice"] for log in found)
    assert all(re.match(REASON, log["reason"]) for log in found)
    return [log["graph"] for log in found]


def test_a_model_that_does_not_fit_is_named_once_for_each_graph(too_fine: VersionedModel) -> None:
    checked: Checked = set()
    assert warnings_of(checked, too_fine, stars("a"), stars("a"), stars("b")) == ["a", "b"]
    other = VersionedModel("fine@2", too_fine.model)
    assert warnings_of(checked, other, stars("a")) == ["a"]
    proved = replace(too_fine, proved_on=frozenset({"a"}))
    assert warnings_of(set(), proved, stars("a"), stars("b")) == ["b"]
    assert warnings_of(set(), open_model("as"), stars("a")) == [], "the defaults fit everything"


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("gn", lambda seed: generate_gn(np.random.default_rng(seed), 1000, 50, p_in=0.5)),
        (
            "lfr",
            lambda seed: generate_lfr(np.random.default_rng(seed), LfrSettings(1000, mixing=0.3)),
        ),
    ],
)
def test_a_model_on_its_own_kind_of_graph_is_not_warned_of(
    name: str, make: Callable[[int], object]
) -> None:
    """Though modularity finds a higher modularity than the model does."""
    for seed in range(3):
        adjacency = make(seed).adjacency()  # type: ignore[attr-defined]
        found = find_communities(adjacency, open_model(name).model.bp)
        assert misfit(adjacency, found) is None
