"""A window that the source has damaged changes no identity, and a real break does."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.sources.generated import planted_snapshots
from tests.methods.memory.streams import BELIEFS, detected, ids_of, model

DAY = timedelta(days=1)
N_NODES, AT = 1000, 4
"""Nodes of a window, and the number of the one that is damaged."""

STAYING = model(replace(BELIEFS, stay=0.9))
BY_MODULARITY = model(BpParameters(stay=0.9))
BOTH = pytest.mark.parametrize("used", [STAYING, BY_MODULARITY], ids=["beliefs", "modularity"])


def stream(seed: int = 1, n_windows: int = 7, n_nodes: int = N_NODES) -> list[Snapshot]:
    """A drifting graph: nodes move, none come or go."""
    settings = LfrSettings(n_nodes=n_nodes, mixing=0.3)
    graphs = (graph for graph, _ in generate_drifting_lfr(seed, n_windows, settings))
    return [snapshot for snapshot, _ in planted_snapshots(graphs, "g", "test")]


def without(snapshot: Snapshot, share: float, shift: int = 0) -> Snapshot:
    """The window without this share of its nodes, whose ids are higher by this much."""
    ids = snapshot.nodes.to_numpy()
    left = np.random.default_rng(7).random(len(ids)) >= share
    inside = left[snapshot.edges].all(axis=0)
    src, dst = ids[snapshot.edges[:, inside]] + shift
    return snapshot_from_pairs(src, dst, graph="g", id=snapshot.id, window=snapshot.window)


def later(
    last: Snapshot, number: int, snapshot: Snapshot, step: timedelta = DAY, length: timedelta = DAY
) -> Snapshot:
    """A snapshot as one of the windows after `last`."""
    end = last.window.end + (number + 1) * step
    return replace(snapshot, id=f"g/later/{number}", window=Window(end - length, end))


@BOTH
def test_after_a_damaged_window_all_is_as_if_it_were_missing(used: Model) -> None:
    windows = stream()
    few = without(windows[AT], 0.7)
    found = detected([*windows[:AT], few, *windows[AT + 1 :]], used)
    missing = detected([*windows[:AT], *windows[AT + 1 :]], used)
    assert [one.damaged for one in found] == [at == AT for at in range(7)]
    assert not len(found[AT].replaced)
    assert found[AT].n_continued
    before = missing[AT - 1].memory.next_id
    taken = found[AT].memory.next_id - before  # ids of the damaged window alone
    for one, other in zip(found[AT + 1 :], missing[AT:], strict=True):
        ids = ids_of(other)
        assert ids_of(one).tolist() == np.where(ids < before, ids, ids + taken).tolist()
    # Nodes of the damaged window keep their communities.
    places = np.isin(np.arange(N_NODES), few.nodes.to_numpy())
    assert (ids_of(found[AT - 1])[places] == ids_of(found[AT])).mean() > 0.6


@BOTH
def test_only_the_first_of_a_run_of_small_windows_is_damaged(used: Model) -> None:
    """Communities would have other ids if the few nodes of the run decided what the graph is."""
    windows = stream(n_windows=AT + 1)
    run = [later(windows[AT], at, without(windows[AT], 0.7)) for at in range(10)]
    whole = later(windows[AT], 10, windows[AT])
    found = detected([*windows[:AT], *run, whole], used)
    assert [one.damaged for one in found] == [at == AT for at in range(AT + 11)]
    assert found[AT + 1].memory.window == run[1].window
    before, after = ids_of(found[AT - 1]), ids_of(found[-1])
    (missing,) = detected([windows[AT]], used, found[AT - 1].memory)
    unchanged = ids_of(missing) == before
    assert (after == before)[unchanged].mean() > 0.98


@pytest.mark.parametrize("length", [timedelta(0), DAY], ids=["all at one time", "days"])
def test_small_windows_without_end_make_what_is_remembered_small(length: timedelta) -> None:
    """Nodes that came often are kept for a while, and no window is damaged for ever."""
    windows = stream(n_windows=4, n_nodes=3000)
    few = without(windows[-1], 0.95)
    small = [
        later(windows[-1], at, few, length or timedelta(seconds=1), length or timedelta(0))
        for at in range(50)
    ]
    found = detected([*windows, *small], BY_MODULARITY)
    assert sum(one.damaged for one in found) == 1
    beyond = [max(one.memory.n_nodes - 1000, 0) for one in found[len(windows) :]]
    assert beyond[1] == 2000
    assert sum(beyond) <= 3 * 3000 + 2 * 2000  # what came again, and what shrinks by halves
    assert beyond[-1] == 0


def test_nodes_that_came_once_are_not_kept_by_small_windows() -> None:
    windows = stream(n_windows=1, n_nodes=3000)
    few = without(windows[0], 0.95)
    run = [later(windows[0], at, few) for at in range(3)]
    found = detected([*windows, *run], BY_MODULARITY)
    assert not any(one.damaged for one in found)
    assert [one.memory.n_nodes for one in found] == [3000, 1500, 1000, 1000]


@BOTH
@pytest.mark.parametrize("share", [0.0, 0.4, 0.7])
def test_a_break_is_no_damage(used: Model, share: float) -> None:
    """Other edges among the same nodes, or mostly other nodes: the graph has changed."""
    windows, others = stream()[:AT], stream(seed=2)
    new = replace(without(others[AT], share, N_NODES // 4 * (share > 0.5)), id="g/other")
    found = detected([*windows, new], used)
    assert not found[-1].damaged
    assert found[-1].memory.window == new.window


def test_smoothing_leaves_a_damaged_window_as_it_is() -> None:
    windows = stream()
    windows[AT] = without(windows[AT], 0.7)
    forward, smoothed = detected(windows, STAYING), detect_smoothed(windows, STAYING)
    assert np.array_equal(ids_of(smoothed[AT]), ids_of(forward[AT]))
    assert smoothed[AT].damaged
    rest = [*windows[:AT], *windows[AT + 1 :]]
    alone = detect_smoothed(rest, STAYING)
    for one, other in zip(smoothed[:AT], alone[:AT], strict=True):
        assert np.array_equal(ids_of(one), ids_of(other))
