"""graph-tool (LGPL, Debian's python3-graph-tool) in a process of its own, on Debian's own Python.

    /usr/bin/python3 benchmarks/shared/peers/graph_tool_peer.py nested < edges.npz > labels.npy

The project never imports it. `find` runs this file with the system's interpreter.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal, get_args

import numpy as np

PYTHON = "/usr/bin/python3"
Model = Literal["nested", "levels", "planted", "given-k", "given-k-by-sweeps"]

SWEEPS = 10
"""Moves of each node in `given-k-by-sweeps`, from random communities."""


def is_there() -> bool:
    """Whether the system's Python has graph-tool."""
    command = [PYTHON, "-c", "import graph_tool"]
    return Path(PYTHON).exists() and not subprocess.run(command, capture_output=True).returncode


def find(
    edges: np.ndarray, n_nodes: int, model: Model, seed: int, n_communities: int = 0
) -> tuple[np.ndarray, float]:
    """Labels (n,) by least description length, and the CPU seconds that the search itself took.

    For `levels`, those of each level of `nested` that has several blocks, (L, n), coarsest first.

    n_communities: K, which `nested` and `levels` ignore, `planted` can do without, and the others
        need.
    """
    sent = io.BytesIO()
    np.savez(sent, edges=edges, n_nodes=n_nodes, seed=seed, n_communities=n_communities)
    command = [PYTHON, str(Path(__file__).resolve()), model]
    done = subprocess.run(
        command,
        input=sent.getvalue(),
        capture_output=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    found = np.load(io.BytesIO(done.stdout))
    return found["labels"], float(found["seconds"])


def _main(model: Model) -> None:
    import time

    import graph_tool.all as gt  # type: ignore[import-not-found]

    given = np.load(io.BytesIO(sys.stdin.buffer.read()))
    gt.seed_rng(int(given["seed"]) + 1)
    np.random.seed(int(given["seed"]))  # noqa: NPY002  # graph-tool's own randomness
    graph = gt.Graph(directed=False)
    graph.add_vertex(int(given["n_nodes"]))
    graph.add_edge_list(given["edges"].T)
    started = time.process_time()
    k = int(given["n_communities"])
    sizes = {"B_min": k, "B_max": k} if k else {}
    if model in ("nested", "levels"):
        nested = gt.minimize_nested_blockmodel_dl(graph, state_args={"deg_corr": True})
        state = nested.get_levels()[0]
    elif model == "planted":
        state = gt.minimize_blockmodel_dl(graph, state=gt.PPBlockState, multilevel_mcmc_args=sizes)
    elif model == "given-k-by-sweeps":
        drawn = np.random.default_rng(int(given["seed"])).integers(k, size=graph.num_vertices())
        state = gt.BlockState(graph, b=drawn, deg_corr=True)
        state.mcmc_sweep(niter=SWEEPS, beta=np.inf, d=0)
    else:
        state = gt.minimize_blockmodel_dl(
            graph, state_args={"deg_corr": True}, multilevel_mcmc_args=sizes
        )
    labels = np.array(state.get_blocks().a)
    seconds = time.process_time() - started
    if model == "levels":
        each = [nested.project_partition(at, 0).a for at in range(len(nested.get_levels()))]
        several = [np.array(one) for one in each if len(np.unique(one)) > 1]
        labels = np.stack(several[::-1] or [labels])
    out = io.BytesIO()
    np.savez(out, labels=np.asarray(labels, np.int32), seconds=seconds)
    sys.stdout.buffer.write(out.getvalue())


if __name__ == "__main__":
    (asked,) = (model for model in get_args(Model) if model == sys.argv[1])
    _main(asked)
