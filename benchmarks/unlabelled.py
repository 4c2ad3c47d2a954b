"""What is learned without labels and without K, against labels, the defaults and Leiden.

    python -m benchmarks.unlabelled
    python -m benchmarks.unlabelled --data FOLDER    # as733.parquet and labelled/

Simulated: each model learns from three graphs (seeds 1000 on), and is tested on others (seeds 9000
on), on which no choice of the method was made. Real: one graph each, or up to three of a series;
the model learns from the graph that it is tested on, never from its labels. Streams: the model
learns from the first third of the windows. Writes docs/measured/unlabelled.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import csr_array

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED, TRAINING_SEED, BenchmarkGraph
from benchmarks.shared.graphs.known_graphs import labelled_files, labelled_graphs
from benchmarks.shared.methods.stream_methods import remembering
from benchmarks.shared.peers import igraph_peers
from benchmarks.shared.streams.known_streams import (
    KnownStream,
    KnownWindow,
    Purpose,
    known_streams,
)
from benchmarks.shared.streams.stream_scores import scores_of
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.bp.fit_unlabelled import FEWEST, RESOLUTIONS, fit_stream
from stream_icd.learning.training.bp.fitted import SIZE_SPREADS, Fit, candidate
from stream_icd.learning.training.yardstick import DEFAULT
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.likelihood import bounded_mixing, mixing_of
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import description_length, modularity
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.registry.find import open_model

DOCS = Path(__file__).parent.parent / "docs" / "measured"
N_LEARNED, N_TESTED = 3, 6

PLANTED: dict[str, Callable[[np.random.Generator], PlantedGraph]] = {
    "GN, p_in .3": partial(generate_gn, p_in=0.3),
    "GN, p_in .4": partial(generate_gn, p_in=0.4),
    **{
        f"LFR, μ .{m}": partial(generate_lfr, settings=LfrSettings(mixing=m / 10))
        for m in (1, 3, 5, 6, 7)
    },
    "LFR, μ .5, 1,000 nodes": partial(generate_lfr, settings=LfrSettings(1000, mixing=0.5)),
}
SEARCH = BpParameters(search=True)


def main() -> None:
    """Measure all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the real data; left out without it")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder to write to")
    options = parser.parse_args()
    graph = generate_lfr(np.random.default_rng(0)).adjacency()
    find_communities(graph, BpParameters(mixing=0.3))  # compiles
    simulated = [_simulated_row(name, draw) for name, draw in PLANTED.items()]
    real, streams = list[str](), list[str]()
    if options.data is not None:
        real = list(_real_rows(options.data / "labelled"))
        streams = [_stream_row(stream) for stream in known_streams(options.data).values()]
    page = f"{_page(simulated, real, streams)}\n{measured_at()}"
    Console().print(page, markup=False, soft_wrap=True)
    (options.docs / "unlabelled.md").write_text(page)


def _draw(
    draw: Callable[[np.random.Generator], PlantedGraph], first: int, n: int
) -> list[PlantedGraph]:
    return [draw(np.random.default_rng(seed)) for seed in range(first, first + n)]


def _simulated_row(name: str, draw: Callable[[np.random.Generator], PlantedGraph]) -> str:
    past = _draw(draw, TRAINING_SEED, N_LEARNED)
    tests = [
        BenchmarkGraph(graph.adjacency(), graph.communities)
        for graph in _draw(draw, TEST_SEED, N_TESTED)
    ]
    started = time.process_time()
    learned = fit_parameters([LabelledGraph(graph.adjacency()) for graph in past])
    seconds = time.process_time() - started
    labelled = fit_parameters(
        [LabelledGraph(graph.adjacency(), graph.communities) for graph in past]
    )
    shortest = _of_least_description([graph.adjacency() for graph in past])
    scores = [
        _nmi(tests, _bp(BpParameters())),
        _nmi(tests, _bp(SEARCH)),
        _nmi(tests, _bp(shortest)),
        _nmi(tests, _bp(learned.parameters)),
        _nmi(tests, _bp(learned.parameters, given=True)),
        _nmi(tests, _bp(labelled.parameters)),
        _nmi(tests, _converged_leiden),
    ]
    k = _mean(int(test.truth.max()) + 1 for test in tests)
    found = _mean(find_communities(test.adjacency, learned.parameters).max() + 1 for test in tests)
    row = (
        f"| {name} | {' | '.join(scores)} | {found:.0f} of {k:.0f} | {seconds:.0f} "
        f"| {_taken(learned)} |"
    )
    Console(stderr=True).print(row, markup=False, soft_wrap=True)
    return row


def _of_least_description(graphs: list[csr_array]) -> BpParameters:
    """What training would choose without hidden edges."""
    lengths: dict[BpParameters, float] = {}
    for resolution in RESOLUTIONS:
        plain = [
            find_communities(graph, BpParameters(resolution, iterations=3)) for graph in graphs
        ]
        shares = _mean(map(mixing_of, map(comparable, graphs), plain))
        for spread in SIZE_SPREADS:
            choice = candidate(resolution, spread, bounded_mixing(shares))
            found = [find_communities(graph, choice) for graph in graphs]
            lengths[choice] = _mean(map(description_length, map(comparable, graphs), found))
    return min(lengths, key=lengths.__getitem__)


def _bp(
    parameters: BpParameters, *, given: bool = False
) -> Callable[[BenchmarkGraph], NDArray[np.int32]]:
    def find(graph: BenchmarkGraph) -> NDArray[np.int32]:
        return find_communities(
            graph.adjacency, parameters, len(np.unique(graph.truth)) if given else None
        )

    return find


def _converged_leiden(graph: BenchmarkGraph) -> NDArray[np.int32]:
    built = igraph_peers.build_graph(graph.adjacency)
    return igraph_peers.converged_leiden(built, len(np.unique(graph.truth)), 0)


def _nmi(graphs: list[BenchmarkGraph], find: Callable[[BenchmarkGraph], NDArray[np.int32]]) -> str:
    return f"{100 * _mean(nmi(graph.truth, find(graph)) for graph in graphs):.2f}"


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _taken(fit: Fit) -> str:
    taken = fit.parameters
    if taken.search:
        return "each graph searches"
    if taken.mixing is None:
        return f"γ {taken.resolution:.3g}, no beliefs"
    return f"γ {taken.resolution:.3g}, μ {taken.mixing:.3f}, s {taken.size_spread:g}"


def _real_rows(folder: Path) -> Iterator[str]:
    for edges, labels in labelled_files(folder):
        yield _real_row(edges.stem, list(islice(labelled_graphs(edges, labels), N_LEARNED)))


def _real_row(name: str, graphs: list[BenchmarkGraph]) -> str:
    started = time.process_time()
    learned = fit_parameters([LabelledGraph(graph.adjacency) for graph in graphs])
    seconds = time.process_time() - started
    first = graphs[0]
    found = find_communities(first.adjacency, learned.parameters)
    shortest = _of_least_description([graph.adjacency for graph in graphs])
    scores = [
        _nmi(graphs, _bp(BpParameters())),
        _nmi(graphs, _bp(SEARCH)),
        _nmi(graphs, _bp(shortest)),
        _nmi(graphs, _bp(learned.parameters)),
        _nmi(graphs, _converged_leiden),
    ]
    quality = f"{100 * modularity(first.adjacency, found):.1f}"
    length = f"{description_length(first.adjacency, found):+.2f}"
    row = (
        f"| {name} | {first.adjacency.shape[0]:,} | {' | '.join(scores)} | {found.max() + 1} of "
        f"{len(np.unique(first.truth))} | {quality} | {length} | {seconds:.0f} "
        f"| {_taken(learned)} |"
    )
    Console(stderr=True).print(row, markup=False, soft_wrap=True)
    return row


def _stream_row(stream: KnownStream) -> str:
    purpose: Purpose = "report" if "report" in stream.purposes else "choose"
    windows = stream.load(stream.seeds(purpose, 1)[0])
    n_learned = max(FEWEST, len(windows) // 3)
    past = [
        LabelledGraph(one.adjacency(), None, Moment.of(one))
        for one in (window.snapshot for window in windows[:n_learned])
    ]
    default, taught, taken = open_model(DEFAULT).model.bp, fit_stream(past), fit_parameters(past)
    choices = (default, default if taught is None else taught.parameters, taken.parameters)
    scores = [f"{_followed(windows, choice, n_learned):.2f}" for choice in choices]
    bits = [f"{score:.3f}" for _, score in taken.compared] or ["", ""]
    row = (
        f"| {stream.name} | {n_learned} of {len(windows)} | {' | '.join([*bits, *scores])} "
        f"| {taken.learned_from} |"
    )
    Console(stderr=True).print(row, markup=False, soft_wrap=True)
    return row


def _followed(windows: list[KnownWindow], parameters: BpParameters, n_learned: int) -> float:
    """Mean AMI, in percent, of the windows that nothing was learned from, with memory."""
    follow = remembering(detect_remembering, Model(Recipe(name="learned"), parameters))
    return _mean(scores_of(windows, follow(windows)).windows[n_learned:])


SIMULATED = f"""\
# Training without labels

For those who train a model (`stream-icd train`, `ICD.fit`) on graphs whose communities are
unknown: how training chooses the parameters, and how good the result is. Made by `python -m
benchmarks.unlabelled --data FOLDER`.

Training tries resolutions γ from 0.5 to 1,024. For each, it tries modularity alone, and belief
propagation with size spreads s of 0, 0.5 and 1; the mixing μ is that of the communities found.
Two criteria, which need no labels, compare these candidates:

- *Hidden edges*: hide a tenth of the edges, find communities on the rest, and measure how well they
  predict the hidden edges, in bits per edge.
- *Description length*: how many bits per edge the communities save in describing the graph, their
  own description included.

Training keeps all candidates that predict hidden edges as well as the best one, within the
standard error of the difference over five splits of each graph. Of these, it takes the one with
the least description length. It compares that in the same way with the search of each graph for its
own resolution, as the model `default` does it, which needs no learning.

Neither part alone is enough. By description length alone, LFR graphs of mixing .7 are one
community each. The search knows nothing of other graphs of the same kind, which tells where
communities are hard to see.

From three or more consecutive windows of one graph, training learns with memory between windows
instead: each window's communities are judged by the bits that they save on those edges of the next
window that are new. With memory, the communities of later windows also show what no single window
does. The stay probability is learned too; if the windows are unrelated, it is 0, and memory is off
([memory.md](memory.md)). What the windows taught is taken only if it saves more of these bits than
the model `default`, by more than the standard error.

## Simulated graphs of 5,000 nodes, or as many as said

NMI in percent, mean of {N_TESTED} test graphs (seeds {TEST_SEED} and up), which were not used to
choose anything. Parameters are learned from {N_LEARNED} other graphs.

column | meaning
--- | ---
defaults | modularity at resolution 1
search | each graph searches for its resolution, as with the model `default`
shortest | parameters chosen by description length alone, without labels
without labels | parameters learned without labels; K unknown, or given in the next column
with labels | parameters learned with labels; K unknown
Leiden, K given | igraph's Leiden: its resolution is searched until it finds K communities, then \
it runs until nothing improves
K | mean number of communities found without labels and K, of the true number
seconds | processor time to learn without labels
taken | the parameters learned without labels


| graphs | defaults | search | shortest | **without labels** | the same, K given | with labels \
| Leiden, K given | K | seconds | taken |
|---|---|---|---|---|---|---|---|---|---|---|
"""

REAL = """
## Graphs with known communities

Parameters are learned from the graph itself, without its labels. NMI (in percent) compares the
result with the labels. K is unknown, except for Leiden. The rule above was chosen while looking
at these graphs, so they only illustrate it. Labels of real graphs are classes that people
assigned; they need not be communities. Q is modularity. DL is the description length in bits per
edge; below 0, it is evidence for communities. s is the learning time in seconds.

| graph | nodes | defaults | search | shortest | **without labels** | Leiden, K given | K | Q, % \
| DL | s | taken |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


STREAMS = """
## Streams with known communities

Parameters are learned from the first third of the windows, without labels. Bits saved per edge of
these windows decide what is taken. AMI (in percent) is that of the other windows, with memory, as a
detector finds them; K is unknown. Nodes of unknown class do not count.

| stream | learned from | bits: `default` | bits: what they taught | AMI: `default` \
| AMI: what they taught | **AMI: what is taken** | taken |
|---|---|---|---|---|---|---|---|
"""


def _page(simulated: list[str], real: list[str], streams: list[str]) -> str:
    parts = (SIMULATED, simulated), (REAL, real), (STREAMS, streams)
    return "".join(head + "\n".join(rows) + "\n" for head, rows in parts if rows)


if __name__ == "__main__":
    main()
