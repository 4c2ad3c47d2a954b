"""Why some figures differ from the published ones: methods changed in one respect.

    python -m benchmarks.lab.why --data FOLDER            # all, about ten minutes
    python -m benchmarks.lab.why --data FOLDER --only nrp

Prints a line for each change: on one test graph, the measure with the method as it is, with the
change, and as published. benchmarks/lab/differences.md says what follows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.cluster import _spectral
from sklearn.preprocessing import normalize

import benchmarks.lab.clustering as clustering
from benchmarks.lab.measured import PUBLISHED_AS
from benchmarks.lab.methods import dnr, gap, graclus, m_nmf, mc_sbm, nrp, randne
from benchmarks.lab.packages import lab_methods
from benchmarks.lab.paper.published import means
from benchmarks.lab.run import n_communities
from benchmarks.shared.graphs.data_sets import BenchmarkGraph, data_sets
from stream_icd.interfaces.evaluation.evaluate import measure
from stream_icd.interfaces.evaluation.method import Task


class Changed(NamedTuple):
    """A change of a method.

    Attributes:
        says: what is changed.
        patches: where the change is, its name, and what stands there instead, made for a graph.
        graph: makes the graph to use of the given one.
    """

    says: str
    patches: Sequence[tuple[Any, str, Callable[[csr_array], Any]]] = ()
    graph: Callable[[csr_array], csr_array] = lambda adjacency: adjacency


def _weightless(adjacency: csr_array) -> csr_array:
    return csr_array((np.ones_like(adjacency.data), adjacency.indices, adjacency.indptr))


def _normalised(adjacency: csr_array) -> csr_array:
    scale = diags_array(1 / np.sqrt(adjacency.sum(axis=1)))
    return csr_array(scale @ adjacency @ scale)


def _rows_to_length_1(_: csr_array) -> Callable[[Task, Any], Any]:
    k_means = clustering.clustered
    return lambda task, embedding: k_means(task, normalize(embedding))


def _spectral_rows(change: Callable[[Any, csr_array], Any]) -> Callable[[csr_array], Any]:
    """scikit-learn's K-means of the rows of the eigenvectors, changed."""
    k_means = _spectral.k_means
    return lambda adjacency: lambda rows, *a, **k: k_means(change(rows, adjacency), *a, **k)


as_it_is = Changed("No change.")
as_wide_as_the_paper = Changed(
    "512 columns, as the paper has for GN.", [(clustering, "DIMENSION", lambda _: 512)]
)
few_columns = Changed("32 columns.", [(clustering, "DIMENSION", lambda _: 32)])
one_start = Changed("K-means once.", [(clustering, "RESTARTS", lambda _: 1)])
without_weights = Changed("All weights are 1.", graph=_weightless)
symmetrically_normalised = Changed("D⁻½AD⁻½ instead of A.", graph=_normalised)
rows_not_scaled = Changed(
    "The embedding as the paper has it (NRP: algorithm 3), without rows of length 1.",
    [(module, "normalize", lambda _: lambda rows: rows) for module in (nrp, dnr)],
)
rows_scaled = Changed(
    "Rows of length 1 before K-means.",
    [
        (randne, "clustered", _rows_to_length_1),
        (m_nmf, "clustered", _rows_to_length_1),
        (_spectral, "k_means", _spectral_rows(lambda rows, _: normalize(rows))),
    ],
)
not_divided_by_degrees = Changed(
    "The eigenvectors of D⁻½AD⁻½ as they are; scikit-learn divides their rows by √degree.",
    [
        (
            _spectral,
            "k_means",
            _spectral_rows(lambda rows, graph: rows * np.sqrt(graph.sum(axis=1))[:, None]),
        )
    ],
)
assortative = Changed(
    "A planted partition: all communities are alike, and denser inside than outside.",
    [(mc_sbm, "MODEL", lambda _: "planted")],
)
few_sweeps = Changed(
    "10 moves of each node, from random communities.",
    [(mc_sbm, "MODEL", lambda _: "given-k-by-sweeps")],
)
balanced = Changed(
    "Communities of one size are as important as the cut.", [(gap, "BALANCE", lambda _: 1.0)]
)
without_refinement = Changed(
    "GraClus without moves of single nodes: the clusters of the coarsest graph.",
    [(graclus, "_refine", lambda _: lambda *_: None)],
)

CHANGES: list[tuple[str, str, Changed]] = [
    ("gap", "L(f,.3)", balanced),
    ("dnr", "L(f,.3)", rows_not_scaled),
    ("randne", "GN.3", as_wide_as_the_paper),
    ("randne", "L(f,.6)", rows_scaled),
    ("spectral", "L(f,.6)", not_divided_by_degrees),
    ("spectral", "L(f,.6)", rows_scaled),
    ("spectral", "Reddit", rows_scaled),
    ("mc-sbm", "Taxi", few_sweeps),
    ("mc-sbm", "AS", assortative),
    ("m-nmf", "Reddit", rows_scaled),
    ("m-nmf", "AS", rows_scaled),
    ("nrp", "AS", rows_not_scaled),
    ("nrp", "Reddit", rows_not_scaled),
    ("nrp", "L(f,.6)", rows_not_scaled),
    ("prone", "L(f,.6)", one_start),
    ("prone", "Enron", without_weights),
    ("prone", "Enron", few_columns),
    ("necs", "Enron", without_weights),
    ("snmf", "Enron", without_weights),
    ("snmf", "Enron", symmetrically_normalised),
    ("icd", "Enron", without_weights),
    ("graclus", "GN.3", without_refinement),
    ("graclus", "L(f,.6)", without_refinement),
    ("graclus", "AS", without_refinement),
]
"""Method, data set and change."""


def main() -> None:
    """Run the changes and print what they do."""
    parser = argparse.ArgumentParser(prog="lab.why")
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="these methods only")
    options = parser.parse_args()
    known, published = data_sets(options.data), means()
    for method, name, changed in CHANGES:
        if options.only and method not in options.only:
            continue
        graph = next(iter(known[name].test_graphs()))
        of = "modularity" if graph.truth is None else "nmi"
        before, after = (percent(method, graph, of, one) for one in (as_it_is, changed))
        values = before, after, published[of, PUBLISHED_AS[method], name]
        print(
            f"{method}, {name}, {of}: {values[0]:.1f}; changed {values[1]:.1f}; "
            f"published {values[2]:.1f}. {changed.says}"
        )


def percent(method: str, graph: BenchmarkGraph, of: str, changed: Changed) -> float:
    """The measure of a changed method on a graph, in percent."""
    k = n_communities(graph)
    with ExitStack() as patches:
        for where, name, make in changed.patches:
            patches.enter_context(patch.object(where, name, make(graph.adjacency)))
        found = lab_methods()[method].find(Task(changed.graph(graph.adjacency), k, 0))
    value: float = getattr(measure(graph.adjacency, np.asarray(found), graph.truth), of)
    return 100 * value


if __name__ == "__main__":
    main()
