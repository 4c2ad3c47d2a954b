"""A large graph has the same communities on any number of threads, also in forked processes."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core import compiled
from stream_icd.methods.bp import belief_propagation, modularity
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import LevelGraph, coarsen, finest_level
from stream_icd.methods.bp.likelihood import modularity_of
from stream_icd.methods.bp.modularity import connected_pieces, move_nodes
from stream_icd.methods.bp.posterior import initial_posterior, next_posterior
from stream_icd.methods.quality.agreement import nmi
from stream_icd.registry.find import open_model
from tests.methods.bp.graphs import cliques, lfr

SMALL_ENOUGH_FOR_A_TEST = 500
DEFAULT = open_model("default").model.bp


@pytest.fixture(autouse=True)
def small_graphs_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compiled, belief_propagation, modularity):
        monkeypatch.setattr(module, "LARGE", SMALL_ENOUGH_FOR_A_TEST)
    monkeypatch.setattr(compiled, "_WORTH_A_THREAD", SMALL_ENOUGH_FOR_A_TEST)


def planted(mixing: float, *, weighted: bool = False) -> tuple[csr_array, np.ndarray]:
    graph = lfr(5, 3000, mixing)
    adjacency = graph.adjacency()
    if weighted:
        rows, columns = adjacency.nonzero()
        adjacency.data = 1.0 + (rows + columns) % 7
    return adjacency, graph.communities


@pytest.mark.parametrize(("mixing", "weighted"), [(0.3, True), (0.6, False)])
def test_any_number_of_threads_finds_the_same(mixing: float, weighted: bool) -> None:
    adjacency, truth = planted(mixing, weighted=weighted)
    level = finest_level(adjacency)
    alone = find_communities(adjacency, DEFAULT)
    known = initial_posterior(level, DEFAULT, None, 0)
    after = next_posterior(level, DEFAULT, known, 0)
    for threads in (2, 4):
        assert np.array_equal(find_communities(adjacency, DEFAULT, threads=threads), alone)
        with compiled.keep_threads(threads):
            again = initial_posterior(level, DEFAULT, None, 0)
            now = next_posterior(level, DEFAULT, known, 0)
        assert again.shares.tobytes() == known.shares.tobytes()
        assert now.shares.tobytes() == after.shares.tobytes()
        assert np.array_equal(now.communities, after.communities)
    assert nmi(truth, alone) > (0.97 if mixing < 0.5 else 0.5)


def test_blocks_of_nodes_find_what_one_block_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency, truth = planted(0.4)
    in_blocks = nmi(truth, find_communities(adjacency, DEFAULT))
    monkeypatch.setattr(belief_propagation, "LARGE", len(truth) + 1)
    assert in_blocks == pytest.approx(nmi(truth, find_communities(adjacency, DEFAULT)), abs=0.01)


def moved(graph: LevelGraph, threads: int, seed: int = 0) -> tuple[np.ndarray, int]:
    """The labels after moves of single nodes, and the number of moves."""
    labels = np.arange(graph.n_nodes, dtype=np.int32)
    with compiled.keep_threads(threads):
        return labels, move_nodes(graph, labels, 1.0, np.random.default_rng(seed))


@pytest.mark.parametrize("weighted", [True, False])
def test_moves_pieces_and_coarse_graphs_are_the_same_on_any_number_of_threads(
    weighted: bool,
) -> None:
    adjacency, labels = planted(0.4, weighted=weighted)
    graph = finest_level(adjacency)

    def all_of(threads: int) -> list[bytes]:
        with compiled.keep_threads(threads):
            pieces = connected_pieces(graph, labels, 1.0, np.random.default_rng(0))
            coarse = coarsen(graph, labels, int(labels.max()) + 1)
        return [np.asarray(one).tobytes() for one in (*moved(graph, threads), pieces, *coarse)]

    alone = all_of(1)
    assert all(all_of(threads) == alone for threads in (2, 3, 4))


def test_moves_at_once_are_as_good_as_moves_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = finest_level(planted(0.4)[0])
    at_once = [moved(graph, 1, seed)[0] for seed in range(10)]
    monkeypatch.setattr(modularity, "LARGE", graph.n_nodes + 1)
    in_turn = [moved(graph, 1, seed)[0] for seed in range(10)]
    good = np.mean([modularity_of(graph, labels) for labels in in_turn])
    assert np.mean([modularity_of(graph, labels) for labels in at_once]) > good - 0.01
    left = [move_nodes(graph, labels, 1.0, np.random.default_rng(0)) for labels in at_once]
    assert np.mean(left) < graph.n_nodes / 50  # volumes change after a node's last visit


def test_two_nodes_that_take_each_others_place_meet_in_the_end() -> None:
    labels, _ = moved(finest_level(cliques(*[2] * SMALL_ENOUGH_FOR_A_TEST)), 2)
    assert np.array_equal(labels[::2], labels[1::2])


def test_kept_threads_end_with_the_outermost_block() -> None:
    before, both = set(threading.enumerate()), threading.Barrier(2, timeout=60)

    def here(_first: int, _end: int) -> int:
        both.wait()  # each of two parts in a thread of its own
        return threading.get_ident()

    with compiled.keep_threads(2):
        with compiled.keep_threads(4):
            inside = compiled.in_threads(here, range(3))
        after = compiled.in_threads(here, range(3))
        assert set(inside) == set(after)
        assert threading.get_ident() in inside
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) == before
    with compiled.keep_threads(4):
        parts = compiled.in_threads(lambda *part: part, range(9))
    assert parts == [(i, i + 1) for i in range(8)]
    assert set(threading.enumerate()) == before


def test_small_graphs_and_small_parts_take_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ThreadPoolExecutor, "submit", None)  # nothing may start one
    assert compiled.threads_for(SMALL_ENOUGH_FOR_A_TEST - 1, 4) == 1
    with compiled.keep_threads(4):
        for n_items in (0, 10):
            weights = partial(np.full, n_items, SMALL_ENOUGH_FOR_A_TEST / 10)
            parts = compiled.in_parts(lambda *part: part, n_items, weights)
            assert parts == [(0, n_items)]


def _found(adjacency: csr_array) -> bytes:
    return find_communities(adjacency, DEFAULT, threads=2).tobytes()


def test_a_forked_process_finds_the_same_after_threads_have_run_here() -> None:
    adjacency, _ = planted(0.4)
    here = _found(adjacency)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_found, (adjacency,)).get(timeout=60) == here
