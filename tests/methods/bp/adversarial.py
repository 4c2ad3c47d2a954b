"""Every compiled kernel on graphs made to break them; run with the kernels as plain Python.

    NUMBA_DISABLE_JIT=1 python -m tests.methods.bp.adversarial

Then numpy checks each index that compiled code would follow unchecked. Prints the kernels that
were not called, as a JSON list.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array

import stream_icd
from stream_icd.core.arrays import NOBODY
from stream_icd.core.compiled import FAR, LARGE
from stream_icd.methods.bp import belief_propagation, modularity
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.bp.find import find_communities, find_memberships
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.memberships import memberships_given_others
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.encoder.contract import initial_weights
from stream_icd.methods.icd.encoder.edges import Edges
from stream_icd.methods.icd.features import model_features
from stream_icd.methods.icd.recipe import EncoderSettings, Recipe
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.memory.encoding import decode_memory, encode_memory
from stream_icd.methods.memory.nodes import of_nodes
from tests.methods.memory.streams import hour

N = 16


def graphs() -> Iterator[csr_array]:
    """Paths, stars and the like of N nodes, with all kinds of positive finite weights."""
    shapes = [nx.path_graph(N), nx.star_graph(N - 1), nx.complete_graph(N), nx.empty_graph(N)]
    matching = nx.from_edgelist((node, node + 1) for node in range(0, N, 2))
    one_edge = nx.disjoint_union(nx.path_graph(2), nx.empty_graph(N - 2))
    shapes += [nx.complete_bipartite_graph(N // 2, N // 2), matching, one_edge]
    rng = np.random.default_rng(0)
    for shape in map(nx.to_numpy_array, shapes):
        for weights in (np.ones((N, N)), 10.0 ** rng.uniform(-308, 308, (N, N))):
            upper = np.triu(shape * weights)
            yield csr_array(upper + upper.T)
    yield csr_array(block_diag([np.ones((3, 3)) - np.eye(3)] * 3 + [np.zeros((5, 5))]))


def check(adjacency: csr_array) -> None:
    """Labels are in range whatever is asked, and whatever the weights are."""
    adjacency.eliminate_zeros()
    n_nodes = adjacency.shape[0]
    for mixing, spread in ((None, 1.0), (0.001, 1.0), (0.999, 0.0), (0.5, 0.5)):
        parameters = BpParameters(1.5, mixing, spread, iterations=2, sweeps=3)
        for k in (None, 1, 2, n_nodes // 2, n_nodes):
            labels, sure = find_memberships(adjacency, parameters, k)
            assert set(labels) == set(range(k or labels.max() + 1)), (mixing, k, labels)
            given = memberships_given_others(finest_level(comparable(adjacency)), labels)
            for own, seconds, of_seconds in (sure, given):
                assert ((own >= 0) & (of_seconds >= 0) & (own + of_seconds < 1.001)).all()
                assert ((seconds == NOBODY) == (of_seconds == 0)).all()
                assert ((seconds >= NOBODY) & (seconds <= labels.max()) & (seconds != labels)).all()
        check_memory(adjacency, parameters)
    for k in (None, n_nodes // 4):
        evidence_for(adjacency, find_communities(adjacency, BpParameters(search=True), k))
    check_edges(adjacency)


def check_edges(adjacency: csr_array) -> None:
    recipe = Recipe(name="small", encoder=EncoderSettings(kind="edges", widths=(8, 4)))
    features = model_features(adjacency, recipe)
    weights = {name: one + 1 for name, one in initial_weights(recipe).items()}  # as if learned
    Edges(recipe.encoder).embed(weights, features, comparable(adjacency))


def check_memory(adjacency: csr_array, parameters: BpParameters) -> None:
    """Whatever is remembered, it can be written and read, and beliefs are probabilities."""
    n_nodes = adjacency.shape[0]
    rng = np.random.default_rng(1)
    nodes, memory = pa.array(np.arange(n_nodes)), None
    for number, k in enumerate((None, n_nodes // 2, None)):
        found = detect_window(adjacency, nodes, hour(number), parameters, memory, k)
        assert set(found.communities) == set(range(len(found.community_ids)))
        memory = decode_memory(encode_memory(found.memory))
        of_nodes(memory, np.arange(0, memory.n_nodes, 2))
        shares = memory.posterior.shares
        assert ((shares >= 0) & (shares.sum(axis=1) < 1.001)[:, None]).all()
        adjacency = adjacency[(order := rng.permutation(n_nodes))][:, order]
        adjacency.sort_indices()


def check_beliefs(adjacency: csr_array, start: NDArray[np.int32]) -> None:
    """Weights as they are, past the range of floating point too, give communities there are."""
    with np.errstate(over="ignore"):
        graph = finest_level(adjacency)
    k = int(start.max()) + 1
    for weights in (graph.weights, graph.weights * 0 + 1e308, graph.weights * 0 + np.nan):
        strange = graph._replace(weights=weights, strengths=graph.strengths + weights.sum())
        for model in (PlantedModel(0.3, 1.0, k), PlantedModel(1e-9, 0.0, 1)):
            labels = believe(strange, start, k, model, 3).likeliest
            assert set(labels) <= set(range(k)), labels


def main() -> None:
    """Check all graphs, and cross out what is called."""
    missed = kernels()
    sys.setprofile(_crossing_out(missed))
    for adjacency in graphs():
        check(adjacency)
        start = (np.arange(adjacency.shape[0]) % 5).astype(np.int32)
        for least_of_blocks, far in ((1, 1), (LARGE, FAR)):
            belief_propagation.LARGE = modularity.LARGE = least_of_blocks  # type: ignore[attr-defined]
            belief_propagation.FAR = modularity.FAR = far  # type: ignore[attr-defined]
            check_beliefs(adjacency, start)
            find_communities(adjacency, BpParameters(1.5, iterations=2))
    sys.stdout.write(json.dumps(sorted(missed)))


def kernels() -> set[str]:
    """Names of all functions that are compiled."""
    sources = Path(stream_icd.__file__).parent.rglob("*.py")
    pattern = re.compile(r"^@compiled\b.*\n(?:@.*\n)*def (\w+)", re.MULTILINE)
    return {name for path in sources for name in pattern.findall(path.read_text())}


def _crossing_out(missed: set[str]) -> Callable[[FrameType, str, Any], None]:
    """Until none is left: looking at each call takes longer than the calls do."""

    def cross_out(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            missed.discard(frame.f_code.co_name)
            if not missed:
                sys.setprofile(None)

    return cross_out


if __name__ == "__main__":
    main()
