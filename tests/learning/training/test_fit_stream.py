"""Learning from consecutive windows: with memory, what single windows do not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.snapshot import Window
from stream_icd.learning.training.bp.consecutive import newest_run, stay_of_labels
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.bp.fit_stream import fit_stream
from stream_icd.learning.training.bp.fitted import Fit
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.memory.detect import Remembered, detect_window
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.registry.find import open_model

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
N = 400


def moment(number: float, n_nodes: int, graph: str = "g", hours: float = 1) -> Moment:
    at = START + number * HOUR
    return Moment(graph, pa.array(range(n_nodes)), Window(at, at + hours * HOUR))


def windows(graphs: Sequence[PlantedGraph], *, with_labels: bool = False) -> list[LabelledGraph]:
    return [
        LabelledGraph(
            graph.adjacency(),
            graph.communities if with_labels else None,
            moment(number, graph.n_nodes),
        )
        for number, graph in enumerate(graphs)
    ]


def drifting(seed: int, n_windows: int, churn: float = 0.02, n: int = N) -> list[PlantedGraph]:
    settings = LfrSettings(n_nodes=n, mixing=0.4)
    return [graph for graph, _ in generate_drifting_lfr(seed, n_windows, settings, churn)]


def unrelated(seed: int, n_windows: int) -> list[PlantedGraph]:
    rng = np.random.default_rng(seed)
    return [generate_gn(rng, 160, 8, p_in=0.5) for _ in range(n_windows)]


def followed(graphs: Sequence[PlantedGraph], parameters: BpParameters) -> list[Remembered]:
    """The windows one after the other, with memory."""
    found: list[Remembered] = []
    for one in windows(graphs):
        assert one.moment is not None
        memory = found[-1].memory if found else None
        nodes, window = one.moment.nodes, one.moment.window
        found.append(detect_window(one.adjacency, nodes, window, parameters, memory))
    return found


def empty(number: float, graph: str = "g", hours: float = 1) -> LabelledGraph:
    adjacency = generate_lfr(np.random.default_rng(0), LfrSettings(n_nodes=400)).adjacency()
    return LabelledGraph(adjacency, None, moment(number, 400, graph, hours))


@pytest.fixture(scope="module")
def learned() -> Fit:
    found = fit_stream(windows(drifting(3, 4)))
    assert found is not None
    return found


def test_it_learns_from_windows_what_the_next_windows_need(learned: Fit) -> None:
    assert (learned.learned_from, learned.n_windows) == ("the next window", 4)
    assert learned.parameters.stay == pytest.approx(0.96, abs=0.03)
    parameters = learned.parameters
    assert parameters.mixing == pytest.approx(0.4, abs=0.1)
    graphs = drifting(50, 6)
    alone = np.mean(
        [nmi(one.communities, find_communities(one.adjacency(), parameters)) for one in graphs]
    )
    found = followed(graphs, parameters)
    pairs = list(zip(graphs, found, strict=True))[3:]
    remembered = [nmi(graph.communities, one.communities) for graph, one in pairs]
    assert np.mean(remembered) > max(0.9, alone + 0.05)


def test_the_choices_shown_are_those_of_the_same_kind(learned: Fit) -> None:
    resolutions = [one.parameters.resolution for one in learned.curve]
    assert resolutions == sorted(set(resolutions))
    assert learned.parameters in [one.parameters for one in learned.curve]
    scores = {one.parameters.resolution: one.next_window or 0.0 for one in learned.curve}
    assert scores[learned.parameters.resolution] > 0.9 * max(scores.values()) > 0


def test_learning_is_repeatable_on_any_number_of_threads_and_shows_its_progress(
    learned: Fit,
) -> None:
    seen: list[tuple[str, int, int]] = []
    again = fit_parameters(
        windows(drifting(3, 4)), threads=1, on_step=lambda *step: seen.append(step)
    )
    assert again.curve == learned.curve
    # On these, the model `default` saves as many bits, within the standard error.
    assert again.learned_from == "default"
    assert again.parameters == replace(open_model("default").model.bp, stay=learned.parameters.stay)
    scores = dict(again.compared)
    assert scores["what the next windows taught"] == pytest.approx(
        scores["the model default"], 0.01
    )
    tasks, done, totals = zip(*seen, strict=True)
    assert set(tasks) == {"learn from next windows"}
    assert list(done) == sorted(set(done))
    assert set(totals) == {done[-1]}
    assert len(done) > 20


def test_unrelated_windows_turn_memory_off_and_are_then_found_as_if_alone() -> None:
    graphs = unrelated(8, 3)
    fit = fit_parameters(windows(graphs))
    assert (fit.parameters.stay, fit.n_windows) == (0.0, 3)
    for graph, found in zip(graphs, followed(graphs, fit.parameters), strict=True):
        alone = find_communities(graph.adjacency(), fit.parameters)
        assert found.communities.tobytes() == alone.tobytes()


def test_what_chance_saves_does_not_make_windows_related() -> None:
    """Some choice of the parameters always saves a nat or two on the edges of unrelated windows."""
    rng = np.random.default_rng(15)
    graphs = [generate_gn(rng, n_nodes=120, n_communities=6, p_in=0.4) for _ in range(4)]
    assert fit_stream(windows(graphs)) is None


def test_equal_windows_are_related() -> None:
    graph = drifting(1, 1, n=200)[0]
    fit = fit_parameters(windows([graph] * 3))
    assert fit.learned_from == "the next window"
    assert fit.parameters.stay >= BpParameters().stay


def test_windows_with_gaps_are_compared_with_memory_too() -> None:
    graphs = drifting(5, 3, n=120)
    apart = [
        LabelledGraph(graph.adjacency(), None, moment(2 * number, graph.n_nodes))
        for number, graph in enumerate(graphs)
    ]
    fit = fit_parameters(apart)
    assert fit.criterion == "hidden edges"
    assert [name for name, _ in fit.compared] == ["the model default", "what hidden edges taught"]
    of_default, taught = (score for _, score in fit.compared)
    assert fit.learned_from in ("hidden edges", "default")  # of two that are as good, the default
    assert fit.learned_from == "default" or taught > of_default
    assert fit.parameters.stay == BpParameters().stay


def test_two_windows_are_too_few() -> None:
    fit = fit_parameters(windows(drifting(4, 2, n=120)))
    assert (fit.learned_from, fit.n_windows, fit.parameters.stay) == (
        "hidden edges",
        0,
        BpParameters().stay,
    )


def test_labels_say_how_long_nodes_stay() -> None:
    churn, settings = 0.2, LfrSettings(n_nodes=N, mixing=0.3)
    drift = list(generate_drifting_lfr(4, 4, settings, churn, event_rate=0.0))
    rng, graphs = np.random.default_rng(0), []
    for graph, _ in drift:
        new_number = rng.permutation(graph.n_communities).astype(np.int32)
        graphs.append(replace(graph, communities=new_number[graph.communities]))
    stay = stay_of_labels(windows(graphs, with_labels=True))
    assert stay == pytest.approx(1 - churn, abs=0.03)
    fit = fit_parameters(windows(graphs[:2], with_labels=True))
    assert (fit.compared_by, fit.n_windows) == ("AMI", 2)
    assert fit.parameters.stay == pytest.approx(1 - churn, abs=0.03)


def test_labels_of_unrelated_windows_turn_memory_off() -> None:
    assert stay_of_labels(windows(unrelated(8, 3), with_labels=True)) == 0.0


def test_labels_of_other_nodes_say_nothing() -> None:
    graph, other = windows(drifting(1, 2, n=400), with_labels=True)
    assert other.moment is not None
    strangers = replace(other.moment, nodes=pa.array(range(1000, 1400)))
    assert stay_of_labels([graph, replace(other, moment=strangers)]) == 0.0


def test_a_run_is_of_one_graph_without_gaps_and_overlaps() -> None:
    assert newest_run([LabelledGraph(empty(0).adjacency)]) == []
    hours = [empty(number) for number in (4, 0, 1, 3)]
    assert newest_run(hours) == [hours[3], hours[0]]
    two = [empty(number, "a") for number in (0, 1)]
    assert newest_run([*two, *(empty(number, "b") for number in (0, 2, 4))]) == two
    assert len(newest_run([empty(number) for number in range(9)])) == 5
    hopping = [empty(number / 2, hours=1) for number in range(4)]
    assert newest_run(hopping) == hopping[-1:]
