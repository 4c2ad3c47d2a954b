"""Why some figures differ from the published ones: methods changed in one respect.

    python -m lab.why --data FOLDER            # all, about ten minutes
    python -m lab.why --data FOLDER --only nrp

Prints a line for each change: on one test graph, the measure with the method as it is, with the
change, and as published. lab/differences.md says what follows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.preprocessing import normalize

import lab.clustering as clustering
from benchmarks.shared.graphs.data_sets import BenchmarkGraph, data_sets
from lab.measured import PUBLISHED_AS
from lab.methods import dnr, gap, graclus, m_nmf, mc_sbm, nrp, randne
from lab.packages import lab_methods
from lab.paper.published import means
from lab.run import n_communities
from stream_icd.evaluation.measures import measure
from stream_icd.evaluation.method import Task

Changed = Callable[[csr_array], Any]
"""Changes a method within a context; what it yields is the graph to use."""


@contextmanager
def as_it_is(adjacency: csr_array) -> Iterator[csr_array]:
    """No change."""
    yield adjacency


@contextmanager
def as_wide_as_the_paper(adjacency: csr_array) -> Iterator[csr_array]:
    """512 columns, as the paper has for GN."""
    with patch.object(clustering, "DIMENSION", 512):
        yield adjacency


@contextmanager
def few_columns(adjacency: csr_array) -> Iterator[csr_array]:
    """32 columns."""
    with patch.object(clustering, "DIMENSION", 32):
        yield adjacency


@contextmanager
def one_start(adjacency: csr_array) -> Iterator[csr_array]:
    """K-means once."""
    with patch.object(clustering, "RESTARTS", 1):
        yield adjacency


@contextmanager
def without_weights(adjacency: csr_array) -> Iterator[csr_array]:
    """All weights are 1."""
    yield csr_array((np.ones_like(adjacency.data), adjacency.indices, adjacency.indptr))


@contextmanager
def symmetrically_normalised(adjacency: csr_array) -> Iterator[csr_array]:
    """D⁻½AD⁻½ instead of A."""
    scale = diags_array(1 / np.sqrt(adjacency.sum(axis=1)))
    yield csr_array(scale @ adjacency @ scale)


@contextmanager
def rows_not_scaled(adjacency: csr_array) -> Iterator[csr_array]:
    """The embedding as the paper has it (NRP: algorithm 3), without rows of length 1."""
    with (
        patch.object(nrp, "normalize", lambda rows: rows),
        patch.object(dnr, "normalize", lambda rows: rows),
    ):
        yield adjacency


@contextmanager
def rows_scaled(adjacency: csr_array) -> Iterator[csr_array]:
    """Rows of length 1 before K-means."""
    from sklearn.cluster import _spectral

    def clustered(task: Task, embedding: Any) -> Any:
        return clustering.clustered(task, normalize(embedding))

    k_means = _spectral.k_means
    with (
        patch.object(randne, "clustered", clustered),
        patch.object(m_nmf, "clustered", clustered),
        patch.object(_spectral, "k_means", lambda rows, *a, **k: k_means(normalize(rows), *a, **k)),
    ):
        yield adjacency


@contextmanager
def not_divided_by_degrees(adjacency: csr_array) -> Iterator[csr_array]:
    """The eigenvectors of D⁻½AD⁻½ as they are; scikit-learn divides their rows by √degree."""
    from sklearn.cluster import _spectral

    roots = np.sqrt(adjacency.sum(axis=1))[:, None]
    k_means = _spectral.k_means
    with patch.object(_spectral, "k_means", lambda rows, *a, **k: k_means(rows * roots, *a, **k)):
        yield adjacency


@contextmanager
def assortative(adjacency: csr_array) -> Iterator[csr_array]:
    """A planted partition: all communities are alike, and denser inside than outside."""
    with patch.object(mc_sbm, "MODEL", "planted"):
        yield adjacency


@contextmanager
def few_sweeps(adjacency: csr_array) -> Iterator[csr_array]:
    """10 moves of each node, from random communities."""
    with patch.object(mc_sbm, "MODEL", "given-k-by-sweeps"):
        yield adjacency


@contextmanager
def balanced(adjacency: csr_array) -> Iterator[csr_array]:
    """Communities of one size are as important as the cut."""
    with patch.object(gap, "BALANCE", 1.0):
        yield adjacency


@contextmanager
def without_refinement(adjacency: csr_array) -> Iterator[csr_array]:
    """GraClus without moves of single nodes: the clusters of the coarsest graph."""
    with patch.object(graclus, "_refine", lambda *_: None):
        yield adjacency


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
            f"published {values[2]:.1f}. {changed.__doc__}"
        )


def percent(method: str, graph: BenchmarkGraph, of: str, changed: Changed) -> float:
    """The measure of a changed method on a graph, in percent."""
    k = n_communities(graph)
    with changed(graph.adjacency) as adjacency:
        found = lab_methods()[method].find(Task(adjacency, k, 0))
    value: float = getattr(measure(graph.adjacency, np.asarray(found), graph.truth), of)
    return 100 * value


if __name__ == "__main__":
    main()
