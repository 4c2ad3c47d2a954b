"""Whether the probabilities of nodes are right: of those with 0.9, is it nine in ten?

    python -m benchmarks.probabilities

Planted streams that nothing was chosen on. A node is right if its community is the one that is
matched with its planted one; as many nodes as possible agree (the assignment problem). Writes
docs/measured/probabilities.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.communities import Communities
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.memory.recent import RecentMemories
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.registry.find import open_model
from stream_icd.sources.generated import drifting_lfr, independent_gn
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.detection.snapshot import SnapshotMemory, detect_snapshot
from stream_icd.streaming.execution.work import Relay

BOUNDS = (0.0, 0.5, 0.8, 0.95, 1.01)
"""Of the groups of nodes, by their probability."""
FEW = 30
"""Fewer nodes say too little of a share."""
N_WINDOWS, ENOUGH = 8, 3
"""Windows of a stream; from this one on, memory has had time."""

HEAD = (
    "| stream | detection | right | with p < 0.5 | 0.5 to 0.8 | 0.8 to 0.95 | from 0.95 "
    "| mean difference | wrong, but the second is right |\n" + "|---" * 9 + "|\n"
)


@dataclass(frozen=True)
class Case:
    """A planted stream, and how it is detected."""

    stream: str
    mixing: float
    model: str = "default"
    memory: bool = True
    churn: float = 0.02
    k_given: bool = False

    def __str__(self) -> str:
        how = "memory" if self.memory else "each window alone"
        return f"{self.model}, {how}{', K given' * self.k_given}"

    def windows(self, seed: int) -> Iterator[tuple[Snapshot, NDArray[np.int32]]]:
        if self.stream.startswith("GN"):
            source = independent_gn(seed, N_WINDOWS, p_in=1 - self.mixing)
        else:
            settings = LfrSettings(n_nodes=5000, mixing=self.mixing)
            source = drifting_lfr(seed, N_WINDOWS, settings, churn=self.churn)
        for snapshot, labels in source.snapshots:
            assert labels is not None  # planted
            k = int(labels.labels.max()) + 1 if self.k_given else None
            yield replace(snapshot, n_communities=k), labels.labels


def cases() -> Iterator[Case]:
    for mixing in (0.4, 0.6, 0.7):
        for churn in (0.02, 0.2):
            name = f"LFR, μ = {mixing}, {churn:.0%} move"
            yield Case(name, mixing, churn=churn)
            if churn == 0.2 and mixing < 0.7:
                yield Case(name, mixing, memory=False)
                yield Case(name, mixing, "lfr", memory=False)
    yield Case("LFR, μ = 0.6, 2% move", 0.6, k_given=True)
    yield Case("LFR, μ = 0.4, 2% move", 0.4, "gn")
    yield Case("GN, p_in = 0.3", 0.7, memory=False)
    yield Case("GN, p_in = 0.3", 0.7, "gn", memory=False)


def matched(labels: NDArray[np.int32], truth: NDArray[np.int32]) -> NDArray[np.int64]:
    """The planted community that each found one is matched with, (K,); -1 for none."""
    found, planted = linear_sum_assignment(-contingency_matrix(labels, truth))
    of_found = np.full(int(labels.max()) + 1, -1)
    of_found[found] = planted
    return of_found


@dataclass
class Scores:
    """How probable communities are, and whether they are right, of all nodes so far."""

    probable: list[NDArray[np.float32]]
    right: list[NDArray[np.bool_]]
    second: list[NDArray[np.bool_]]

    def add(self, found: Communities, truth: NDArray[np.int32]) -> None:
        assert found.probabilities is not None  # of bp
        planted = matched(found.labels, truth)
        right = planted[found.labels] == truth
        second = np.zeros(len(right), np.bool_)
        if found.second_ids is not None and found.community_ids is not None:
            of_ids = dict(zip(found.community_ids.tolist(), planted.tolist(), strict=True))
            second = np.array([of_ids.get(one, -1) for one in found.second_ids]) == truth
        self.probable.append(found.probabilities)
        self.right.append(right)
        self.second.append(second & ~right)

    def row(self, case: Case) -> str:
        p, right = np.concatenate(self.probable), np.concatenate(self.right)
        cells, difference = [], 0.0
        for least, most in pairwise(BOUNDS):
            of = (p >= least) & (p < most)
            said, is_so = float(p[of].mean()) if of.any() else 0.0, right[of]
            if of.any():
                difference += abs(said - float(is_so.mean())) * of.mean()
            enough = of.sum() >= FEW
            cells.append(f"{said:.2f}: {is_so.mean():.2f} ({of.mean():.1%})" if enough else "")
        second = (
            "" if not case.memory else f"{np.concatenate(self.second).sum() / (~right).sum():.0%}"
        )
        columns = [case.stream, str(case), f"{right.mean():.1%}", *cells, f"{difference:.3f}"]
        return f"| {' | '.join([*columns, second])} |\n"


def follow(case: Case, seed: int) -> Iterator[tuple[Communities, NDArray[np.int32]]]:
    """Each result, and the planted communities."""
    model = open_model(case.model)
    settings = DetectSettings(memory="auto" if case.memory else "off", group="x", threads=1)
    relay, recent = Relay(), RecentMemories()
    for snapshot, truth in case.windows(seed):
        remembering = SnapshotMemory(relay, settings, recent) if case.memory else None
        found = detect_snapshot(snapshot, model, settings, memory=remembering)
        if remembering is not None:
            remembering.hand_on(found)
        yield found, truth


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, default=3, help="streams of each row")
    options = parser.parse_args()
    rows = []
    for case in cases():
        scores = Scores([], [], [])
        for seed in range(TEST_SEED, TEST_SEED + options.streams):
            for at, (found, truth) in enumerate(follow(case, seed)):
                if at >= ENOUGH or not case.memory:
                    scores.add(found, truth)
        rows.append(scores.row(case))
        print(rows[-1], end="", flush=True)
    write_section(
        "measured/probabilities.md", "probabilities.py", HEAD + "".join(rows) + "\n" + measured_at()
    )


if __name__ == "__main__":
    main()
