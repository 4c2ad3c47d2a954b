"""What bp learns from past graphs, with labels, without, and with memory, helps on later ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import block_diag, coo_array, csr_array, triu

from stream_icd.core.errors import BadSettings
from stream_icd.interfaces.estimator import ICD
from stream_icd.learning.training.bp import fit as fitting
from stream_icd.learning.training.bp import fit_unlabelled
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.bp.fit_unlabelled import fit_stream
from stream_icd.learning.training.bp.fitted import Fit, FitOptions
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.quality.agreement import ami, nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.registry.find import open_model
from tests.testbed.lessons import drifting_windows, moment


def labelled(graph: PlantedGraph) -> LabelledGraph:
    return LabelledGraph(graph.adjacency(), graph.communities)


def bare(graph: PlantedGraph) -> LabelledGraph:
    return LabelledGraph(graph.adjacency())


def lfr(seed: int, mixing: float, n_nodes: int = 800) -> PlantedGraph:
    return generate_lfr(np.random.default_rng(seed), LfrSettings(n_nodes=n_nodes, mixing=mixing))


def gn(seed: int, n: int = 120, k: int = 6, p_in: float = 0.6, p_out: float = 0.02) -> PlantedGraph:
    return generate_gn(np.random.default_rng(seed), n, k, p_in, p_out)


def gain(learned: BpParameters, unseen: Sequence[PlantedGraph], *, k: bool) -> float:
    """How much better the parameters are than the defaults, NMI, with K or without."""

    def score(graph: PlantedGraph, parameters: BpParameters) -> float:
        n_communities = graph.n_communities if k else None
        found = find_communities(graph.adjacency(), parameters, n_communities)
        return nmi(graph.communities, found)

    gains = [score(graph, learned) - score(graph, BpParameters()) for graph in unseen]
    return float(np.mean(gains))


def test_what_labels_teach_beats_the_defaults_on_graphs_not_seen() -> None:
    fit = fit_parameters([labelled(lfr(seed, 0.5)) for seed in range(2)])
    assert fit.curve[0].parameters.mixing == pytest.approx(0.5, abs=0.02)
    assert gain(fit.parameters, [lfr(seed, 0.5) for seed in range(100, 103)], k=True) > 0.01


def test_without_labels_and_k_it_learns_what_helps_on_graphs_not_seen() -> None:
    fit = fit_parameters([bare(lfr(seed, 0.5, 1000)) for seed in range(2)])
    assert fit.learned_from == "hidden edges"
    assert fit.parameters.mixing == pytest.approx(0.5, abs=0.03)
    assert gain(fit.parameters, [lfr(seed, 0.5, 1000) for seed in range(100, 102)], k=False) > 0.02
    # The curve shows both criteria at every resolution.
    curve = fit.curve
    resolutions = [tried.parameters.resolution for tried in curve]
    assert resolutions == sorted(resolutions)
    assert (resolutions[0] <= 0.5, resolutions[-1] >= 1000) == (True, True)
    assert {tried.ami for tried in curve} == {None}
    taken = next(tried for tried in curve if tried.parameters == fit.parameters)
    for extreme in (curve[0], curve[-1]):
        assert taken.hidden_edges > extreme.hidden_edges
        assert taken.description_length < extreme.description_length


def test_fitting_is_repeatable_and_passes_over_what_it_cannot_use() -> None:
    useful = labelled(lfr(1, 0.4, 400))
    without_edges = LabelledGraph(csr_array((3, 3)), np.zeros(3, np.int32))
    fitted = fit_parameters([useful])
    assert fit_parameters([without_edges, LabelledGraph(useful.adjacency), useful]) == fitted
    with pytest.raises(BadSettings, match="at least one graph that has edges"):
        fit_parameters([without_edges])


Steps = list[tuple[str, int, int]]


def assert_whole(steps: Steps, task: str) -> None:
    """Every step is counted, to the end."""
    tasks, done, totals = zip(*steps, strict=True)
    assert set(tasks) == {task}
    assert list(done) == sorted(set(done))
    assert set(totals) == {done[-1]}
    assert len(done) > 20


def test_threads_change_nothing_and_progress_counts_every_step_to_the_end() -> None:
    of_edges: Steps = []
    three = fit_parameters([bare(gn(0))], threads=3, on_step=lambda *step: of_edges.append(step))
    assert three == fit_parameters([bare(gn(0))], threads=1)
    assert_whole(of_edges, "learn from hidden edges")
    of_labels: Steps = []
    fit_parameters([labelled(gn(0))], on_step=lambda *step: of_labels.append(step))
    assert_whole(of_labels, "learn from labels")


def test_learning_ends_when_it_is_interrupted() -> None:
    interrupt = MagicMock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        fit_parameters([bare(gn(0))], on_step=interrupt)
    interrupt.assert_called_once()


def test_many_small_communities_need_and_get_a_fine_resolution() -> None:
    """240 cliques in a ring: modularity joins them, at its own resolution and far above it."""
    n_cliques, size = 240, 5
    cliques = block_diag([np.ones((size, size)) - np.eye(size)] * n_cliques).tocsr()
    first = np.arange(n_cliques) * size
    ring = coo_array(
        (np.ones(n_cliques), (first, np.roll(first, 1) + 1)), shape=cliques.shape
    ).tocsr()
    adjacency = csr_array(cliques + ring + ring.T)
    truth = np.arange(n_cliques * size) // size
    learned = fit_parameters([LabelledGraph(adjacency)]).parameters
    assert nmi(truth, find_communities(adjacency, learned)) > 0.99
    assert nmi(truth, find_communities(adjacency, BpParameters())) < 0.9


@pytest.mark.parametrize("n_nodes", [2, 3, 6])
def test_tiny_and_structureless_graphs_teach_something_usable(n_nodes: int) -> None:
    complete = csr_array(np.ones((n_nodes, n_nodes)) - np.eye(n_nodes))
    learned = fit_parameters([LabelledGraph(complete)]).parameters
    assert find_communities(complete, learned).shape == (n_nodes,)


def with_weights(graph: LabelledGraph, seed: int, inside: float = 1.0) -> LabelledGraph:
    """Exponential weights: of this mean inside communities, and of mean 1 between them."""
    upper = triu(graph.adjacency).tocoo()
    same = graph.labels[upper.row] == graph.labels[upper.col]
    upper.data = np.random.default_rng(seed).exponential(np.where(same, inside, 1.0)) + 1e-6
    adjacency = csr_array(upper + upper.T)
    adjacency.sort_indices()
    return replace(graph, adjacency=adjacency)


@pytest.mark.parametrize(("inside", "mixing", "exponent"), [(1.0, 0.5, 0.0), (8.0, 0.65, 1.0)])
def test_how_much_weights_count_is_learned(inside: float, mixing: float, exponent: float) -> None:
    graphs = [with_weights(labelled(lfr(seed, mixing, 500)), seed, inside) for seed in range(2)]
    parameters = fit_parameters(graphs).parameters
    assert parameters.weight_exponent == exponent
    if exponent:  # heavy edges are mostly inside: less of the weight lies between communities
        assert parameters.mixing is None or parameters.mixing < 0.3


def test_learning_uses_the_weights_of_a_window_as_detection_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their square root was taken twice, so learning saw weights that detection never sees."""
    graphs = [with_weights(one, 1) for one in drifting_windows(3, 3, LfrSettings(200, mixing=0.55))]
    detected = MagicMock(wraps=detect_window)
    monkeypatch.setattr(fit_unlabelled, "detect_window", detected)
    fit_stream(graphs, FitOptions(threads=1))
    used = {id(call.args[0]) for call in detected.call_args_list}
    assert used == {id(window.adjacency) for window in graphs}


def windows(graphs: Sequence[PlantedGraph], *, with_labels: bool = False) -> list[LabelledGraph]:
    """Consecutive ones of one stream."""
    return [
        LabelledGraph(
            graph.adjacency(),
            graph.communities if with_labels else None,
            moment(number, range(graph.n_nodes)),
        )
        for number, graph in enumerate(graphs)
    ]


def drifting(seed: int, n_windows: int, n: int = 400) -> list[PlantedGraph]:
    settings = LfrSettings(n_nodes=n, mixing=0.4)
    return [graph for graph, _ in generate_drifting_lfr(seed, n_windows, settings)]


def unrelated(n_windows: int, k: int = 8, p_in: float = 0.5) -> list[PlantedGraph]:
    rng = np.random.default_rng(8)
    return [generate_gn(rng, 20 * k, k, p_in=p_in) for _ in range(n_windows)]


def followed(graphs: Sequence[PlantedGraph], parameters: BpParameters) -> list[Remembered]:
    """The windows one after the other, with memory."""
    found: list[Remembered] = []
    for one in windows(graphs):
        memory = found[-1].memory if found else None
        nodes, window = one.moment.nodes, one.moment.window
        found.append(detect_window(one.adjacency, nodes, window, parameters, memory))
    return found


@pytest.fixture(scope="module")
def learned() -> Fit:
    """From four windows without labels."""
    found = fit_stream(windows(drifting(3, 4)))
    assert found is not None
    return found


def test_it_learns_from_windows_what_the_next_windows_need(learned: Fit) -> None:
    assert (learned.learned_from, learned.n_windows) == ("the next window", 4)
    parameters = learned.parameters
    assert parameters.stay == pytest.approx(0.96, abs=0.03)
    assert parameters.mixing == pytest.approx(0.4, abs=0.1)
    resolutions = [one.parameters.resolution for one in learned.curve]
    assert resolutions == sorted(set(resolutions))
    scores = {one.parameters.resolution: one.next_window or 0.0 for one in learned.curve}
    assert scores[parameters.resolution] > 0.9 * max(scores.values()) > 0
    graphs = drifting(50, 6)
    alone = [nmi(one.communities, find_communities(one.adjacency(), parameters)) for one in graphs]
    pairs = list(zip(graphs, followed(graphs, parameters), strict=True))[3:]
    remembered = [nmi(graph.communities, one.communities) for graph, one in pairs]
    assert np.mean(remembered) > max(0.9, np.mean(alone) + 0.05)


def test_what_windows_teach_is_taken_only_if_it_is_better_than_the_model_default(
    learned: Fit,
) -> None:
    """On these it saves as many bits, within the standard error; also on another thread."""
    steps: Steps = []
    again = fit_parameters(
        windows(drifting(3, 4)), threads=1, on_step=lambda *step: steps.append(step)
    )
    assert again.curve == learned.curve
    assert again.learned_from == "default"
    assert again.parameters == replace(open_model("default").model.bp, stay=learned.parameters.stay)
    of_default, taught = (score for _, score in again.compared)
    assert taught == pytest.approx(of_default, 0.01)
    assert_whole(steps, "learn from next windows")


def test_unrelated_windows_turn_memory_off_and_are_then_found_as_if_alone() -> None:
    graphs = unrelated(3)
    fit = fit_parameters(windows(graphs))
    assert (fit.parameters.stay, fit.n_windows) == (0.0, 3)
    for graph, found in zip(graphs, followed(graphs, fit.parameters), strict=True):
        alone = find_communities(graph.adjacency(), fit.parameters)
        assert found.communities.tobytes() == alone.tobytes()
    # Some choice of the parameters always saves a nat or two on the edges of unrelated windows.
    assert fit_stream(windows(unrelated(4, k=6, p_in=0.4))) is None
    equal = fit_parameters(windows(drifting(1, 1, n=200) * 3))
    assert equal.learned_from == "the next window"
    assert equal.parameters.stay >= BpParameters().stay


def test_windows_with_gaps_are_compared_with_memory_too_and_two_are_too_few() -> None:
    apart = [
        replace(one, moment=moment(2 * number, range(120)))
        for number, one in enumerate(windows(drifting(5, 3, n=120)))
    ]
    fit = fit_parameters(apart)
    assert fit.criterion == "hidden edges"
    assert [name for name, _ in fit.compared] == ["the model default", "what hidden edges taught"]
    of_default, taught = (score for _, score in fit.compared)
    assert fit.learned_from in ("hidden edges", "default")  # of two that are as good, the default
    assert fit.learned_from == "default" or taught > of_default
    two = fit_parameters(windows(drifting(4, 2, n=120)))
    assert (two.learned_from, two.n_windows) == ("hidden edges", 0)
    assert fit.parameters.stay == two.parameters.stay == BpParameters().stay


def test_labels_say_how_long_nodes_stay() -> None:
    """Whatever the numbers of the communities are; not at all of unrelated windows, or nodes."""
    churn, settings = 0.2, LfrSettings(n_nodes=400, mixing=0.3)
    rng, graphs = np.random.default_rng(0), []
    for graph, _ in generate_drifting_lfr(4, 2, settings, churn, event_rate=0.0):
        new_number = rng.permutation(graph.n_communities).astype(np.int32)
        graphs.append(replace(graph, communities=new_number[graph.communities]))
    first, second = windows(graphs, with_labels=True)
    fit = fit_parameters([first, second])
    assert (fit.compared_by, fit.n_windows) == ("AMI", 2)
    assert fit.parameters.stay == pytest.approx(1 - churn, abs=0.03)
    assert second.moment is not None
    strangers = replace(second.moment, nodes=pa.array(range(1000, 1400)))
    for both in (
        windows(unrelated(2), with_labels=True),
        [first, replace(second, moment=strangers)],
    ):
        assert fit_parameters(both).parameters.stay == 0


def test_a_run_of_windows_is_of_one_graph_without_gaps_and_overlaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adjacency = gn(0).adjacency()

    def run(*graphs: LabelledGraph) -> Sequence[LabelledGraph]:
        monkeypatch.setattr(fitting, "_by_edges", lambda _graphs, windows, _work: windows)
        found: Sequence[LabelledGraph] = fit_parameters(graphs)  # type: ignore[assignment]
        return found

    def window(number: float, graph: str = "g") -> LabelledGraph:
        return LabelledGraph(adjacency, None, moment(number, range(120), graph))

    assert run(LabelledGraph(adjacency)) == []
    hours = [window(number) for number in (4, 0, 1, 3)]
    assert run(*hours) == [hours[3], hours[0]]
    two = [window(number, "a") for number in (0, 1)]
    assert run(*two, *(window(number, "b") for number in (0, 2, 4))) == two
    assert len(run(*(window(number) for number in range(9)))) == 5
    hopping = [window(number / 2) for number in range(4)]
    assert run(*hopping) == hopping[-1:]


def test_labels_do_not_lower_what_is_found_in_graphs_not_seen() -> None:
    """Four communities of 32 nodes each, with few edges."""
    past, unseen = (
        [gn(seed, 128, 4, 0.3, 0.1) for seed in seeds] for seeds in (range(2), range(10, 14))
    )
    graphs, labels = zip(*((graph.adjacency(), graph.communities) for graph in past), strict=True)
    with_labels, without, default = (
        np.mean([ami(graph.communities, icd.predict(graph.adjacency())) for graph in unseen])
        for icd in (ICD().fit(graphs, labels), ICD().fit(graphs), ICD.load("default"))
    )
    assert with_labels >= max(without, default) - 0.01
