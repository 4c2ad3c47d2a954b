"""Methods that end in every way."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task, module


def halves(task: Task) -> Labels:
    with task.stage("halve"):
        n_nodes = task.adjacency.shape[0]
        return 10 * (np.arange(n_nodes, dtype=np.int32) >= n_nodes // 2)


def fails(task: Task) -> Labels:
    raise ZeroDivisionError(f"no halves\nof {task.adjacency.shape[0]}")


def crashes(_task: Task) -> Labels:
    os.kill(os.getpid(), signal.SIGKILL)
    return np.zeros(0, np.int32)


def spins(_task: Task) -> Labels:
    while True:
        pass


def swells(task: Task) -> Labels:
    hoard = np.ones(50_000_000)
    time.sleep(30)
    return hoard[: task.adjacency.shape[0]].astype(np.int32)


def too_few(_task: Task) -> Labels:
    return np.zeros(1, np.int32)


def compiles(task: Task) -> Labels:
    """Takes time on the first graph of each size, as code does that is compiled when needed."""
    n_nodes = task.adjacency.shape[0]
    if n_nodes not in compiled:
        compiled.add(n_nodes)
        end = time.process_time() + COMPILATION_S
        while time.process_time() < end:
            pass
    return np.zeros(n_nodes, np.int32)


COMPILATION_S = 0.2
compiled = set[int]()


def _method(find, k="ignored", **fields) -> EvaluatedMethod:
    return EvaluatedMethod(find, "a test", k=k, weighted=False, **fields)


METHODS = {
    "halves": _method(halves, learn=lambda history, seed: (len(history), seed)),
    **{find.__name__: _method(find) for find in (compiles, fails, crashes, spins, swells, too_few)},
    "needs-k": _method(halves, k="needed"),
    "absent": _method(halves, missing=module("no_such_library", "pip install it")),
}
