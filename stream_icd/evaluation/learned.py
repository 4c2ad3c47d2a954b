"""What methods learn from the windows before the evaluated ones, and whether it is worth using."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_icd.bp.parameters import BpParameters
from stream_icd.errors import OverBudget, Overloaded
from stream_icd.evaluation.limits import MethodProcess, MethodRun
from stream_icd.evaluation.method import OWN, methods_in
from stream_icd.evaluation.windows import Windows
from stream_icd.execution.budget import Allowance
from stream_icd.retraining.own_process import run_job
from stream_icd.training.comparison import Comparison
from stream_icd.training.yardstick import compared_with_default


@dataclass(frozen=True, slots=True)
class Learned:
    """What methods learned.

    Attributes:
        of_method: what became of each method; one that cannot learn has learned nothing.
        names: methods that learned something.
        n_windows: number of windows that they learned from.
    """

    of_method: dict[str, MethodRun]
    names: tuple[str, ...]
    n_windows: int


def learners(names: Sequence[str], packages: Sequence[str] = (OWN,)) -> list[str]:
    """The methods of these that can learn."""
    methods = methods_in(*packages)
    return [name for name in names if methods[name].learn is not None]


def learn(
    windows: Windows,
    names: Sequence[str],
    limits: Allowance,
    seed: int = 0,
    packages: Sequence[str] = (OWN,),
) -> Learned:
    """Let the methods learn from the past windows; those that learn alike do it once."""
    methods, process = methods_in(*packages), MethodProcess(packages, limits)
    past, done = windows.past(), dict[object, MethodRun]()
    try:
        for name in learners(names, packages) if past else ():
            if methods[name].learn not in done:
                done[methods[name].learn] = process.learn(name, past, seed)
    finally:
        process.end()
    of_method = {name: done.get(methods[name].learn, MethodRun("ok")) for name in names}
    known = tuple(name for name in names if of_method[name].learned is not None)
    return Learned(of_method, known, len(past) if known else 0)


def worth(windows: Windows, learned: Learned, limits: Allowance, seed: int = 0) -> list[Comparison]:
    """Compare what bp learned with the model `default`, with memory, on the evaluated windows.

    Empty if bp learned nothing, or if the comparison exceeds the limits.
    """
    found = (learned.of_method[name].learned for name in learned.names)
    bp = next((one for one in found if isinstance(one, BpParameters)), None)
    if bp is None:
        return []
    try:
        compared: list[Comparison] = run_job(_Comparing(windows, bp, seed), limits)
    except (OverBudget, Overloaded):
        return []
    return compared


@dataclass(frozen=True, slots=True)
class _Comparing:
    """A job: compare parameters with those of `default`."""

    windows: Windows
    bp: BpParameters
    seed: int

    def __call__(self) -> list[Comparison]:
        newest = (one.graph(by_labels=True) for one in self.windows.newest())
        past = self.windows.past()
        return compared_with_default(self.bp, past, newest, self.seed, memory=True)
