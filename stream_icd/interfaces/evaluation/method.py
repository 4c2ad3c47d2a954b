"""The contract of a method: a function that finds communities, and what is to be known of it.

To add a method, write a file in `stream_icd/interfaces/evaluation/methods/` or
`benchmarks/lab/methods/` that defines `METHODS`, an `EvaluatedMethod` by name;
`benchmarks/lab/tests/test_method_contract.py` finds and tests it. Importing the file must not
import the method's library.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple

from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import did_you_mean
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment

UseOfK = Literal["needed", "optional", "ignored"]
"""What a method does with K: it cannot run without, it uses K if given, it always finds its own."""

CONVERT = "convert"
"""The stage in which a graph becomes a library's own object. It is not part of a method's time,
since an application may hold that object already."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One graph for a method; all weights are 1 for a method that does not use weights."""

    adjacency: csr_array  # (n, n) float64, canonical (see `as_adjacency`)
    n_communities: int | None = None  # K; None: the method shall determine it
    seed: int = 0
    learned: Any = None  # what the method's `learn` returned
    moment: Moment | None = None  # None: the graph is of no stream
    memory: Any = None  # what the method remembered of the window before
    stages: dict[str, float] = field(default_factory=dict)  # seconds of each so far

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the processor time of the block to a stage."""
        started = cpu_clock()
        try:
            yield
        finally:
            seconds = cpu_clock() - started
            self.stages[name] = self.stages.get(name, 0.0) + seconds

    def k(self) -> int:
        """K, for a method that needs it."""
        assert self.n_communities is not None, "the runner gives K to a method that needs it"
        return self.n_communities


class FollowedWindow(NamedTuple):
    """What a method with memory returns; its memory for the next window can be pickled."""

    labels: Labels
    memory: Any


def cpu_clock() -> float:
    """Processor time in seconds of this process and of the child processes that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def module(name: str, install: str) -> Callable[[], str | None]:
    """Look for a Python module; if it is missing, say how to install it."""

    def missing() -> str | None:
        # Looked up, not imported: that may take seconds, and belongs into a process with limits.
        is_there = importlib.util.find_spec(name) is not None
        return None if is_there else f"needs {name}: {install}"

    return missing


@dataclass(frozen=True, slots=True)
class EvaluatedMethod:
    """A way to find communities.

    Attributes:
        find: communities of a task's graph, `(n,)` integers; the runner numbers them 0..K-1.
            A method with memory returns `FollowedWindow` for a task that has a moment.
        learn: learns from past graphs with a seed, or None for a method without learning. The
            result can be pickled. Communities of the past are used if they are there.
        sees_communities: False for a baseline that cannot tell communities apart, whatever it
            learns; it is kept because a paper reports it.
    """

    find: Callable[[Task], Labels | FollowedWindow]
    source: str  # the paper with its equations, or the library that does the work
    k: UseOfK
    weighted: bool  # whether it uses edge weights
    remembers: bool = False  # whether it has a memory from one window to the next
    learn: Callable[[Sequence[LabelledGraph], int], Any] | None = None
    # None if it can run here, else what to install.
    missing: Callable[[], str | None] = lambda: None
    sees_communities: bool = True


OWN = "stream_icd.interfaces.evaluation.methods"
"""The package of the methods that `stream-icd evaluate` offers."""


def methods_in(*packages: str) -> dict[str, EvaluatedMethod]:
    """All methods of these packages, by name, in the order of their files.

    Raises:
        BadSettings: two files define a method of the same name.
    """
    methods: dict[str, EvaluatedMethod] = {}
    for package in packages:
        path = import_module(package).__path__
        for file in sorted(module.name for module in iter_modules(path)):
            defined: dict[str, EvaluatedMethod] = import_module(f"{package}.{file}").METHODS
            if twice := methods.keys() & defined.keys():
                raise BadSettings(f"{package}.{file} defines a second method {min(twice)!r}")
            methods |= defined
    return methods


def chosen(names: Sequence[str], methods: dict[str, EvaluatedMethod]) -> dict[str, EvaluatedMethod]:
    """The methods of these names, in this order.

    Raises:
        BadSettings: a name is unknown, or there is none.
    """
    if not names:
        raise BadSettings(f"no method is named: choose from {', '.join(methods)}")
    for name in names:
        if name not in methods:
            hint = did_you_mean(name, methods)
            raise BadSettings(f"no method {name!r}{hint}: choose from {', '.join(methods)}")
    return {name: methods[name] for name in names}
