"""ICD is a scikit-learn estimator that a stranger can use on graphs of any kind."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import igraph
import networkx
import numpy as np
import pandas
import pytest
import structlog
from scipy.sparse import csr_array
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

from stream_icd.core.errors import BadInput, BadSettings, ModelNotFound
from stream_icd.core.snapshot import Window, snapshot_from_pairs
from stream_icd.interfaces.estimator import ICD, NotFitted
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.encoder.contract import digest
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import Method, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.sources.generated import planted_snapshots

both_methods = pytest.mark.parametrize("method", ["bp", "icd"])


def needs_torch(method: str) -> None:
    if method == "icd":
        pytest.importorskip("torch", reason="pip install 'stream-icd[train]'")


def split(known: list[LabelledGraph]) -> tuple[list[Any], list[Any]]:
    """The graphs, and their labels."""
    return [graph.adjacency for graph in known], [graph.labels for graph in known]


Fitted = Callable[[Method], ICD]


@pytest.fixture(scope="module")
def fitted(history: list[LabelledGraph], recipe: Recipe) -> Fitted:
    """An estimator of each method; only fitting icd needs torch."""

    @cache
    def fit(method: Method) -> ICD:
        needs_torch(method)
        return ICD(method, recipe).fit(*split(history))

    return fit


@both_methods
def test_it_finds_the_communities_of_a_new_graph_also_when_it_was_saved_and_loaded(
    fitted: Fitted, graph: LabelledGraph, method: Method, tmp_path: Path
) -> None:
    icd = fitted(method)
    found = icd.predict(graph.adjacency, 15)
    assert found.shape == (300,)
    assert found.dtype == np.int32
    assert nmi(graph.labels, found) > 0.95
    assert nmi(graph.labels, icd.predict(graph.adjacency)) > 0.7  # K may be left out
    icd.save(tmp_path / "model")
    loaded = ICD.load(tmp_path / "model", method=method)
    assert np.array_equal(loaded.embed(graph.adjacency), icd.embed(graph.adjacency))
    theirs = networkx.from_scipy_sparse_array(graph.adjacency)
    pairs = np.stack(graph.adjacency.nonzero())
    table = pandas.DataFrame({"src": pairs[0], "dst": pairs[1]})
    forms = [theirs, igraph.Graph.from_networkx(theirs), pairs, graph.adjacency.toarray()]
    for form in (*forms, (pairs, 300), table, list(zip(*pairs.tolist(), strict=True))):
        assert np.array_equal(loaded.predict(form, 15), found)


@both_methods
def test_k_is_a_whole_number_from_1_to_n(graph: LabelledGraph, method: Method) -> None:
    icd = ICD.load("gn", method=method)
    few = icd.predict(graph.adjacency, np.uint8(15))
    assert few.tolist() == icd.predict(graph.adjacency, 15).tolist()
    for wrong in (2.5, 15.0, float("nan"), "3", True, np.True_, [3], 0, -1, 301):
        for predict in (icd.predict, icd.predict_next):
            with pytest.raises(BadSettings, match="from 1 to 300"):
                predict(graph.adjacency, n_communities=wrong)


@both_methods
def test_the_same_seed_gives_the_same_answer_on_any_number_of_threads(
    history: list[LabelledGraph], graph: LabelledGraph, recipe: Recipe, method: Method
) -> None:
    needs_torch(method)
    both = (ICD(method, recipe, seed=3, threads=threads) for threads in (1, 2))
    answers = [icd.fit(*split(history)).predict(graph.adjacency, 15) for icd in both]
    assert np.array_equal(*answers)
    if method == "bp":
        one, two = (ICD(recipe=recipe, seed=seed).fit(*split(history[:1])) for seed in (1, 2))
        assert not np.allclose(one.embed(graph.adjacency), two.embed(graph.adjacency))


def test_it_keeps_the_conventions_of_scikit_learn(fitted: Fitted, tmp_path: Path) -> None:
    estimator_checks.check_get_params_invariance("ICD", ICD())
    estimator_checks.check_no_attributes_set_in_init("ICD", ICD())
    estimator_checks.check_parameters_default_constructible("ICD", ICD())
    estimator_checks.check_set_params("ICD", ICD())
    assert is_clusterer(ICD())
    assert repr(ICD()) == "ICD()"
    assert repr(ICD("icd", "GN-0.3", seed=1)) == "ICD(method='icd', recipe='GN-0.3', seed=1)"
    loaded = ICD.load("gn")
    assert "Recipe(name='gn'" in repr(loaded)
    assert clone(loaded).recipe == loaded.recipe
    copy = clone(fitted("bp"))
    assert copy.get_params() == fitted("bp").get_params()
    for use in (copy.predict, copy.predict_next, copy.embed):
        for error in (NotFittedError, NotFitted, BadSettings):
            with pytest.raises(error, match="call fit, or use ICD.load"):
                use(networkx.path_graph(3))
    with pytest.raises(NotFittedError):
        copy.save(tmp_path / "model")


def test_a_prediction_leaves_what_it_found_until_another_graph_is_used(
    graph: LabelledGraph,
) -> None:
    icd = ICD.load("gn")
    named = networkx.relabel_nodes(networkx.from_scipy_sparse_array(graph.adjacency), "n{}".format)
    found = icd.predict(named)
    assert found.tolist() == icd.labels_.tolist()
    assert icd.nodes_.tolist() == list(named)
    assert (icd.bits_, icd.evidence_) == evidence_for(graph.adjacency, found)
    assert icd.evidence_ == "strong"
    icd.predict(networkx.gnm_random_graph(100, 300, seed=1))
    assert (icd.bits_, icd.evidence_) == (0.0, "none")
    with pytest.raises(BadSettings, match="3 nodes cannot form 4"):
        icd.predict(networkx.path_graph(3), 4)
    assert len(icd.nodes_) == 100
    ring = networkx.ring_of_cliques(9, 9)
    found = icd.predict_next(networkx.relabel_nodes(ring, lambda node: 99 - node)).communities
    assert icd.labels_.tolist() == found.tolist()
    assert (icd.evidence_, len(icd.labels_), len(icd.nodes_)) == ("strong", 81, 81)
    pairs, path = [("b", "a"), ("c", "b")], networkx.path_graph(["b", "a", "c"])
    for one, nodes in ((pairs, ["a", "b", "c"]), (path, ["b", "a", "c"])):
        assert len(icd.embed(one)) == 3
        assert icd.nodes_.tolist() == nodes
    assert not hasattr(icd, "labels_")
    assert icd.fit_predict(ring).tolist() == icd.labels_.tolist()
    icd.fit([graph.adjacency])
    for name in ("labels_", "nodes_", "probabilities_", "bits_", "evidence_"):
        assert not hasattr(icd, name)


def test_probabilities_are_in_the_order_of_the_nodes() -> None:
    between = networkx.disjoint_union(networkx.complete_graph(8), networkx.complete_graph(8))
    between.add_edges_from([(16, 0), (16, 1), (16, 8), (16, 9)])
    icd = ICD.load("default")
    icd.predict(between)
    assert icd.nodes_[icd.probabilities_.argmin()] == 16
    turned = networkx.Graph()
    turned.add_nodes_from(reversed(range(17)))
    turned.add_edges_from(between.edges)
    found = icd.predict_next(turned)
    assert icd.nodes_.tolist() == list(reversed(range(17)))
    for own in (icd.probabilities_, found.probabilities):
        assert own.argmin() == 0  # node 16
    assert found.second_ids[0] in found.community_ids
    kmeans = ICD.load("default", method="icd")
    kmeans.predict(between, n_communities=2)
    assert kmeans.probabilities_ is None


def test_several_graphs_are_predicted_one_by_one() -> None:
    icd = ICD.load("default")
    for graphs in (
        [networkx.cycle_graph(9), networkx.path_graph(9)],
        (np.ones((3, 3)), np.ones((3, 3))),
        [csr_array(np.ones((3, 3)))] * 2,
        [[(0, 1), (1, 2)], [(0, 1)]],
    ):
        for use in (icd.predict, icd.predict_next, icd.embed, icd.fit_predict):
            with pytest.raises(
                BadInput, match=r"\[icd\.predict\(graph\) for graph in graphs\]; only"
            ):
                use(graphs)
        assert [len(icd.predict(one)) for one in graphs] == [len(icd.embed(one)) for one in graphs]


def test_the_papers_losses_need_two_graphs_with_edges_and_all_labels(
    fitted: Fitted, history: list[LabelledGraph], recipe: Recipe
) -> None:
    needs_torch("icd")
    known = [*history, LabelledGraph(csr_array((3, 3)), np.zeros(3, np.int32))]
    graphs, labels = split(known)
    losses = ICD("icd", recipe).fit(graphs, labels).history_
    assert [epoch.number for epoch in losses] == [0, 1, 2]
    assert [one.validation for one in losses] == [one.validation for one in fitted("icd").history_]
    for few in (graphs[:1], [graphs[0], graphs[-1]]):
        with pytest.raises(BadSettings, match="give two that have edges, or no recipe"):
            ICD("icd", recipe).fit(few)
    some = [np.append(-1, graph.labels[1:]) for graph in history[:2]]
    with pytest.raises(BadInput, match="1 of 300 nodes have no label.*learn the encoder edges"):
        ICD("icd", recipe).fit(graphs[:2], some)
    with pytest.raises(BadSettings, match=r"'model' trains no encoder.*GN-0\.3"):
        ICD("icd", Recipe(name="model")).fit(graphs[:-1])
    pseudo = ICD("icd", recipe).fit(graphs[:-1])
    assert len(pseudo.history_) == 3, "without labels, it learns from pseudo-labels"
    assert nmi(history[0].labels, pseudo.predict(graphs[0], 15)) > 0.9


MIXED = LfrSettings(1000, max_degree=50, max_community=100, mixing=0.6)
"""1,000 nodes, six tenths of whose edges leave their community."""


def mixed(seed: int) -> PlantedGraph:
    return generate_lfr(np.random.default_rng(seed), MIXED)


@pytest.fixture(scope="module")
def taught() -> ICD:
    """Without a recipe: the encoder edges, from the labels of two graphs; a third validates."""
    past = [mixed(seed) for seed in (1, 2, 3)]
    return ICD("icd").fit([one.adjacency() for one in past], [one.communities for one in past])


def test_icd_learns_from_labels_which_edges_join_also_for_memory(taught: ICD) -> None:
    untrained = ICD.load("lfr", method="icd")
    untrained.model_ = Model(taught.model_.recipe)
    new = mixed(8)
    before, after = (
        nmi(new.communities, icd.predict(new, new.n_communities)) for icd in (untrained, taught)
    )
    assert after > before + 0.04
    assert taught.learned_.rounds[-1].after < 0.7 * taught.learned_.rounds[0].before
    assert taught.history_ == ()
    # Windows summed have weights, which the graphs that it learned from had not.
    memory, scores = None, []
    for planted, _ in generate_drifting_lfr(3, 3, MIXED):
        found = taught.predict_next(planted, memory)
        memory = found.memory
        scores.append(nmi(planted.communities, found.communities))
    assert scores[-1] > max(0.85, scores[0] + 0.2)


def test_what_icd_learned_can_be_saved_and_serves_both_methods_with_k_and_without(
    taught: ICD, tmp_path: Path
) -> None:
    taught.save(tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").stat().st_size <= 30_000
    new, loaded = mixed(8), ICD.load(tmp_path / "model")
    assert digest(loaded.model_.weights) == digest(taught.model_.weights)
    loaded.save(tmp_path / "again")
    for name in ("model.safetensors", "recipe.toml"):
        once, again = (tmp_path / folder / name for folder in ("model", "again"))
        assert once.read_bytes() == again.read_bytes()
    by_bp, plain = ICD.load(tmp_path / "model", method="bp"), ICD("bp")
    plain.model_ = Model(taught.model_.recipe)
    for k in (None, new.n_communities):
        by_itself = loaded.predict(new, n_communities=k)
        assert by_itself.tolist() == taught.predict(new, n_communities=k).tolist()
        found = by_bp.predict(new, n_communities=k)
        assert found.tolist() != by_itself.tolist(), "a loaded model is used by its own method"
        for one in (by_itself, found):
            assert nmi(new.communities, one) > 0.55
            assert k in (None, one.max() + 1)
    assert not np.array_equal(by_bp.predict(new), plain.predict(new))


def test_without_labels_the_encoder_edges_learns_from_what_bp_finds() -> None:
    settings = LfrSettings(600, mixing=0.4)
    planted = [generate_lfr(np.random.default_rng(seed), settings) for seed in (1, 2)]
    graphs = [one.adjacency() for one in planted]
    one = ICD("icd").fit(graphs[:1], [planted[0].communities]).learned_  # a single graph teaches
    assert one.n_examples == graphs[0].nnz / 2
    chance = networkx.gnm_random_graph(200, 600, seed=1)
    with structlog.testing.capture_logs() as logs:
        learned = ICD("icd").fit([*graphs, chance]).learned_
    assert learned.n_examples == graphs[0].nnz / 2
    assert learned.rounds[-1].after < learned.rounds[0].before
    assert [(log["graphs"], log["of"]) for log in logs] == [(1, 3)]
    with pytest.raises(BadSettings, match="1 graphs without labels.*give labels"):
        ICD("icd").fit([chance])
    with pytest.raises(BadSettings, match="none of the 1 graphs has edges"):
        ICD("icd").fit([networkx.empty_graph(3)], [[0, 0, 1]])


def test_the_encoder_edges_learns_without_torch() -> None:
    code = (
        "import sys, numpy as np\n"
        "from stream_icd import ICD\n"
        "graph = np.kron(np.eye(4), np.ones((9, 9)) - np.eye(9))\n"
        "ICD('icd').fit([graph, graph]).predict(graph)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_bp_learns_with_labels_and_without_and_from_one_graph(
    fitted: Fitted, graph: LabelledGraph, recipe: Recipe
) -> None:
    compared = [name for name, _ in fitted("bp").learned_.compared]
    assert compared == ["the model default", "what the labels taught"]
    rng, settings = np.random.default_rng(1), LfrSettings(n_nodes=600, mixing=0.3)
    *seen, new = (generate_lfr(rng, settings) for _ in range(3))
    unlabelled = ICD(recipe=recipe).fit([one.adjacency() for one in seen])
    assert unlabelled.learned_.learned_from == "hidden edges"
    assert unlabelled.model_.bp == unlabelled.learned_.parameters != BpParameters()
    assert nmi(new.communities, unlabelled.predict(new.adjacency())) > 0.95
    of_one = ICD().fit_predict(graph.adjacency, 15)
    assert of_one.max() == 14
    assert nmi(graph.labels, of_one) > 0.95


def test_labels_that_name_the_nodes_in_another_order_are_refused() -> None:
    graph = [("ann", "bob"), ("bob", "cat")]
    teams = pandas.Series(["red", "red", "blue"], index=["bob", "ann", "cat"])
    said = "the label of node 'bob' is in the place of node 'ann'"
    with pytest.raises(BadInput, match=said):
        ICD().fit([graph], [teams])
    ICD().fit([graph], [teams.sort_index()])
    ICD().fit([graph], [teams.reset_index(drop=True)])
    joined = pandas.Series([0, 0, 1], index=[7.0, 5.0, 9.0])
    with pytest.raises(BadInput, match="the label of node '7' is in the place of node '5'"):
        ICD().fit([[(5, 7), (7, 9)]], [joined])


def test_a_few_labels_teach_in_whatever_form_they_come(history: list[LabelledGraph]) -> None:
    """A third of the nodes has a label; what the others would have is not looked at."""
    graphs, labels = split(history[:2])
    assert ICD().fit(graphs, [labels[0], None]).learned_.n_graphs == 1
    known = [np.arange(len(of)) % 3 == 0 for of in labels]
    pairs = list(zip(labels, known, strict=True))
    given: list[list[Any]] = [
        [np.where(here, of, -1) for of, here in pairs],
        [np.where(here, of.astype(float), np.nan) for of, here in pairs],
        [[f"{one:02}" if at else None for one, at in zip(*pair, strict=True)] for pair in pairs],
        [np.ma.masked_array(of, ~here) for of, here in pairs],
        [pandas.Series(of, dtype="Int64").where(here) for of, here in pairs],
        [{node: int(of[node]) for node in np.flatnonzero(here)} for of, here in pairs],
    ]
    unlike = [np.where(here, of, np.random.default_rng(0).permutation(of)) for of, here in pairs]
    # The forms are read before a method learns: icd, which takes longer, learns from two of them.
    learn_from: dict[Method, list[list[Any]]] = {"bp": given, "icd": given[::5]}
    for method, forms in learn_from.items():
        fits = [ICD(method).fit(graphs, some) for some in forms]
        assert len({_learned(fit) for fit in fits}) == 1
        assert _learned(ICD(method).fit(graphs, unlike)) != _learned(fits[0])
        assert nmi(history[2].labels, fits[0].predict(history[2].adjacency)) > 0.9


def _learned(icd: ICD) -> str:
    """Tell what was learned: the weights of an encoder, or bp's scores."""
    return digest(icd.model_.trained) if icd.method == "icd" else repr(icd.learned_)


def test_a_shipped_model_is_loaded_by_its_name(graph: LabelledGraph) -> None:
    for name in ("as", "default", "gn", "lfr", "taxi"):
        icd = ICD.load(name)
        assert icd.model_.recipe.name == name
        assert icd.predict(graph.adjacency, 15).shape == (300,)
    with pytest.raises(ModelNotFound, match="as, default, gn, lfr, taxi"):
        ICD.load("internet")
    icd = ICD.load("default")
    assert icd.model_.recipe.data
    anew = icd.fit([graph.adjacency]).model_.recipe
    assert (anew.data, anew.every_kind) == ("", False), "it does not claim its old graphs"


def test_what_it_cannot_learn_from_is_refused_and_changes_nothing(
    history: list[LabelledGraph],
) -> None:
    one = [history[0].adjacency]
    of_graph, pairs = "not a csr_array; for one graph: fit", "not a list of pairs; for one graph"
    refused: list[tuple[Any, list[Any], type, str]] = [
        ({}, [[]], BadSettings, "at least one"),
        ({}, [[csr_array((3, 3))]], BadSettings, "that has edges"),
        ({}, [one, []], BadInput, "one labelling each"),
        ({}, [one, [[0, 1]]], BadInput, "one each"),
        ({}, [one, [[1, "a"] * 150]], BadInput, "a list that cannot be sorted"),
        ({}, [one, [[[1], [2, 3]]]], BadInput, "a list that cannot be sorted"),
        ({}, [one, [[None] * 300]], BadInput, "none of the 300 nodes has a label: give no labels"),
        ({}, [one, [{0: "a", 300: "b"}]], BadInput, "the graph has no node 300"),
        ({}, one, BadSettings, of_graph),
        ({}, [((0, 1), (1, 2))], BadSettings, pairs),
        ({}, [[("a", "b"), ("b", "c")]], BadSettings, pairs),
        ({"method": "exact"}, [one], BadSettings, "icd"),
        ({"recipe": "no such data set"}, [one], BadSettings, "GN-0"),
        ({"recipe": 3}, [one], BadSettings, "recipe is 3; give a Recipe"),
    ]
    icd = ICD().fit(one, [history[0].labels])
    fitted = icd.model_, icd.learned_, icd.history_
    for parameters, given, error, says in refused:
        with pytest.raises(error, match=says):
            icd.set_params(**{"method": "auto", "recipe": None, **parameters}).fit(*given)
        assert (icd.model_, icd.learned_, icd.history_) == fitted


def test_a_wrong_parameter_is_named_by_fit_and_predict() -> None:
    ring = networkx.ring_of_cliques(5, 8)
    for name, value in (("threads", 0), ("threads", None), ("seed", -1), ("seed", 0.5)):
        icd = ICD.load("default", **{name: value})
        for use in (icd.predict, icd.predict_next, icd.embed, icd.fit_predict):
            with pytest.raises(BadSettings, match=f"{name} is .* at least"):
                use(ring)


@pytest.fixture(scope="module")
def drifting() -> list[PlantedGraph]:
    """Windows of which each alone shows little."""
    settings = LfrSettings(1000, mixing=0.5)
    return [planted for planted, _ in generate_drifting_lfr(3, 5, settings)]


@pytest.mark.parametrize(
    ("model", "method", "lasting"), [("default", "bp", 1), ("lfr", "icd", 0.5)]
)
def test_memory_improves_the_next_windows_and_gives_ids_that_last(
    model: str, method: Method, lasting: float, drifting: list[PlantedGraph]
) -> None:
    icd, memory = ICD.load(model, method=method), None
    k = drifting[0].n_communities if method == "icd" else None
    for planted in drifting:
        found = icd.predict_next(planted, memory, k)
        if memory is None:
            assert nmi(found.communities, icd.predict(planted, k)) == pytest.approx(1)
            first = set(found.community_ids)
        memory = found.memory
    alone = nmi(planted.communities, icd.predict(planted, k))
    assert nmi(planted.communities, found.communities) > alone + 0.1
    assert k in (None, found.communities.max() + 1)
    assert len(first & set(found.community_ids)) >= lasting * len(first)


def test_nodes_are_known_by_their_ids_in_whatever_order_and_form_they_come(
    drifting: list[PlantedGraph],
) -> None:
    icd = ICD.load("lfr")
    one, other = (planted.adjacency() for planted in drifting[:2])
    names = np.array([f"n{i:03}" for i in range(1000)])
    order = np.random.default_rng(0).permutation(1000)
    first = icd.predict_next(one, nodes=names)
    expected = icd.predict_next(other, first.memory, nodes=names).communities.tolist()
    shuffled = icd.predict_next(other[order][:, order], first.memory, nodes=names[order])
    assert shuffled.communities[np.argsort(order)].tolist() == expected
    assert icd.nodes_.tolist() == names[order].tolist()
    categories = icd.predict_next(other, first.memory, nodes=pandas.Categorical(names))
    assert categories.communities.tolist() == expected
    named = networkx.relabel_nodes(networkx.from_scipy_sparse_array(other), dict(enumerate(names)))
    assert icd.predict_next(named, first.memory).communities.tolist() == expected
    ends = other.nonzero()
    table = pandas.DataFrame({"a": names[ends[0]], "b": names[ends[1]], "weight": 0.5})
    assert len(set(ends[0])) == 1000
    found = icd.predict_next(table, first.memory)
    assert found.communities.tolist() == expected
    assert icd.nodes_.tolist() == names.tolist()
    assert str(found).startswith("<Remembered: 1,000 nodes in ")  # no arrays, in a notebook
    assert str(found).endswith("after 2 windows up to 1970-01-03 00:00:00+00:00>>")
    high = icd.predict_next(one, nodes=[2**63 + place for place in range(1000)])
    assert high.communities.tolist() == icd.predict_next(one).communities.tolist()


def test_it_warns_of_other_ids_than_in_the_memory_which_an_empty_window_leaves() -> None:
    icd, graph = ICD.load("lfr"), networkx.ring_of_cliques(5, 8)
    first = icd.predict_next(graph)
    with pytest.warns(UserWarning, match="ids of the nodes were integers, and are text") as said:
        icd.predict_next(networkx.relabel_nodes(graph, str), first.memory)
    assert said[0].filename == __file__
    for same in (graph, networkx.relabel_nodes(graph, str)):
        first = icd.predict_next(same)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            none = icd.predict_next(networkx.Graph(), first.memory)
            again = icd.predict_next(same, none.memory)
        assert none.damaged
        assert again.community_ids.tolist() == first.community_ids.tolist()


def test_snapshots_have_times_and_ids_of_their_own(drifting: list[PlantedGraph]) -> None:
    icd = ICD.load("lfr")
    days = [snapshot for snapshot, _ in planted_snapshots(iter(drifting[:2]), "g", "test")]
    first = icd.predict_next(days[0])
    found = icd.predict_next(days[1], first.memory)
    assert found.memory.window == days[1].window
    expected = detect_remembering(days[1], icd.model_, first.memory)
    assert found.communities.tolist() == expected.communities.tolist()
    late = icd.predict_next(days[0], found.memory)
    assert late.memory is found.memory
    with pytest.raises(BadInput, match="leave out nodes"):
        icd.predict_next(days[0], nodes=np.arange(1000))
    past = drifting[:3]
    days = [snapshot for snapshot, _ in planted_snapshots(iter(past), "g", "test")]
    stay = ICD().fit(days, [graph.communities for graph in past]).model_.bp.stay
    assert 0.8 < stay < 1, "they teach how long nodes stay"


ONES = np.ones((3, 3))


@pytest.mark.parametrize(
    ("graph", "given", "error", "reason"),
    [
        (ONES, {"nodes": [1, 1, 2]}, BadInput, "3 nodes need as many different ids; got 3, 2"),
        (ONES, {"nodes": [0.5, 1, 2]}, BadInput, "are double"),
        (ONES, {"nodes": [1, "a", 2]}, BadInput, "not all integers of 64 bits or all strings"),
        (ONES, {"nodes": [1, None, 2]}, BadInput, "int64, 1 of them missing: give nodes, integers"),
        (ONES, {"nodes": {"c", "a", "b"}}, BadInput, "a set, which has no order"),
        (1e-300 * ONES, {}, BadInput, "multiply all weights"),  # to add them up over windows
        (1e308 * ONES, {}, BadInput, "divide all weights"),
        (ONES, {"memory": "a result"}, BadSettings, "memory is a str; give the `memory`"),
        (ONES, {"horizon": 0}, BadSettings, "horizon 0: give auto, off, or a number"),
        (ONES, {"horizon": None}, BadSettings, "horizon None: give auto, off, or a number"),
    ],
)
def test_a_window_that_cannot_be_used_is_refused(
    graph: np.ndarray, given: dict[str, Any], error: type, reason: str
) -> None:
    with pytest.raises(error, match=reason):
        ICD.load("lfr").predict_next(graph, **given)


def test_no_window_follows_the_end_of_time() -> None:
    icd, end = ICD.load("lfr"), datetime(9999, 12, 31, tzinfo=UTC)
    window = Window(end - timedelta(days=2), end)
    last = icd.predict_next(snapshot_from_pairs([0, 1], [1, 2], graph="g", id="g", window=window))
    with pytest.raises(BadInput, match="no window can follow that which ends at 9999-12-31"):
        icd.predict_next(networkx.path_graph(3), last.memory)
    assert icd.predict_next(networkx.path_graph(3), horizon=1).horizon == 1
