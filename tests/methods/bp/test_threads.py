"""A large graph has the same communities on any number of threads, also in forked processes."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from stream_icd.core import compiled
from stream_icd.core.arrays import Labels
from stream_icd.methods.bp import belief_propagation, modularity
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.quality.agreement import nmi
from stream_icd.registry.find import open_model
from tests.methods.bp.graphs import cliques, lfr
from tests.methods.memory.streams import hour

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
    nodes = pa.array(range(adjacency.shape[0]))

    def found(threads: int) -> tuple[Labels, list[bytes]]:
        labels, memory, states = find_communities(adjacency, DEFAULT, threads=threads), None, []
        with compiled.keep_threads(threads):
            for number in range(2):
                memory = detect_window(adjacency, nodes, hour(number), DEFAULT, memory).memory
                states.append(encode_memory(memory))
        return labels, states

    labels, states = found(1)
    for threads in (2, 4):
        again, same_states = found(threads)
        assert np.array_equal(again, labels)
        assert same_states == states
    assert nmi(truth, labels) > (0.97 if mixing < 0.5 else 0.5)


@pytest.mark.parametrize("parameters", [DEFAULT, BpParameters()], ids=["search", "modularity"])
def test_blocks_of_nodes_find_what_one_block_finds(
    parameters: BpParameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    adjacency, truth = planted(0.4)
    in_blocks = nmi(truth, find_communities(adjacency, parameters))
    for module in (belief_propagation, modularity):
        monkeypatch.setattr(module, "LARGE", len(truth) + 1)
    assert in_blocks == pytest.approx(nmi(truth, find_communities(adjacency, parameters)), abs=0.01)


def test_two_nodes_that_take_each_others_place_meet_in_the_end() -> None:
    pairs = cliques(*[2] * SMALL_ENOUGH_FOR_A_TEST)
    labels = find_communities(pairs, BpParameters(), threads=2)
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


def _found(adjacency: csr_array) -> bytes:
    return find_communities(adjacency, DEFAULT, threads=2).tobytes()


def test_a_forked_process_finds_the_same_after_threads_have_run_here() -> None:
    adjacency, _ = planted(0.4)
    here = _found(adjacency)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_found, (adjacency,)).get(timeout=60) == here
