"""What a few labels teach, on graphs that nothing was learned from.

    python -m benchmarks.labels
    python -m benchmarks.labels --data FOLDER    # and the streams of labelled/

Graphs: parameters are learned from some graphs of a kind, with their labels, and tested on others;
each repetition draws all of them anew. Streams: learned from the first half of the windows, tested
on the second. Writes docs/measured/labels.md.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.shared.commit import measured_at
from benchmarks.shared.streams.known_streams import (
    NO_CLASS,
    KnownStream,
    Purpose,
    known_streams,
)
from stream_icd.learning.training.bp.fit import fit_labelled, fit_parameters
from stream_icd.learning.training.bp.fitted import FitOptions
from stream_icd.learning.training.yardstick import DEFAULT, judge
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment, numbered
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.registry.find import open_model

DOCS = Path(__file__).parent.parent / "docs" / "measured"
THREADS = os.cpu_count() or 1
REPETITIONS, N_TESTED, N_LEARNED = 12, 6, (2, 5)

KINDS: Mapping[str, Callable[[np.random.Generator], PlantedGraph]] = {
    "20 × 20 nodes, p .6 and .02": partial(
        generate_gn, n_nodes=400, n_communities=20, p_in=0.6, p_out=0.02
    ),
    "50 × 10 nodes, p .6 and .01": partial(
        generate_gn, n_nodes=500, n_communities=50, p_in=0.6, p_out=0.01
    ),
    "4 × 32 nodes, p .3 and .1": partial(
        generate_gn, n_nodes=128, n_communities=4, p_in=0.3, p_out=0.1
    ),
    **{
        f"LFR, {n_nodes} nodes, μ {mixing}": partial(
            generate_lfr, settings=LfrSettings(n_nodes, mixing=mixing)
        )
        for n_nodes, mixing in ((400, 0.3), (400, 0.5), (1000, 0.5), (1000, 0.6))
    },
}


def main() -> None:
    """Measure all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the real data; left out without it")
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder to write to")
    options = parser.parse_args()
    graphs = [_graphs_row(kind, n) for kind in KINDS for n in N_LEARNED]
    streams = list[str]()
    if options.data is not None:
        streams = list(_stream_rows(known_streams(options.data).values()))
    page = PAGE.format(graphs="\n".join(graphs))
    if streams:
        page += STREAMS + "\n".join(streams) + "\n"
    (options.docs / "labels.md").write_text(f"{page}\n{measured_at()}")


def _graphs_row(kind: str, n_learned: int) -> str:
    repetitions = list[list[float]]()
    for number in range(REPETITIONS):
        rng = np.random.default_rng([number, n_learned])
        drawn = [KINDS[kind](rng) for _ in range(n_learned + N_TESTED)]
        graphs = [LabelledGraph(graph.adjacency(), graph.communities) for graph in drawn]
        repetitions.append(_scores(graphs[:n_learned], graphs[n_learned:]))
    scores = np.array(repetitions)
    default, *learned = scores.mean(axis=0)
    changes = (scores - scores[:, :1]).min(axis=0)[1:]
    cells = " | ".join(
        f"{mean:.1f} ({low:+.1f})" for mean, low in zip(learned, changes, strict=True)
    )
    return _said(f"| {kind} | {n_learned} | {default:.1f} | {cells} |")


def _stream_rows(streams: Iterable[KnownStream]) -> Iterator[str]:
    for stream in streams:
        purpose: Purpose = "report" if "report" in stream.purposes else "choose"
        windows = stream.load(stream.seeds(purpose, 1)[0])
        if any((window.classes == NO_CLASS).any() for window in windows):
            continue  # training takes a label of each node
        graphs = [
            LabelledGraph(one.snapshot.adjacency(), numbered(one.classes), Moment.of(one.snapshot))
            for one in windows
        ]
        half = len(graphs) // 2
        cells = " | ".join(f"{score:.1f}" for score in _scores(graphs[:half], graphs[half:]))
        yield _said(f"| {stream.name} | {half} of {len(graphs)} | {cells} |")


def _scores(past: Sequence[LabelledGraph], later: Sequence[LabelledGraph]) -> list[float]:
    """AMI on later graphs, in percent: of `default`, of what labels teach, of what is taken."""
    default, alone = (
        open_model(DEFAULT).model.bp,
        fit_labelled(past, FitOptions(0, THREADS)).parameters,
    )
    taken = fit_parameters(past, 0, THREADS).parameters
    candidates: list[BpParameters] = [default, replace(alone, stay=taken.stay), taken]
    rows = [[one.ami for one in of_graph] for of_graph in judge(later, candidates)]
    return [100 * float(score) for score in np.mean(np.array(rows, np.float64), axis=0)]


def _said(row: str) -> str:
    Console(stderr=True).print(row, markup=False, soft_wrap=True)
    return row


PAGE = f"""\
# What a few labels teach

For those who train with labels (`stream-icd train`, `ICD.fit`, the retrainer). Made by `python -m
benchmarks.labels --data FOLDER`.

Labels of a few graphs teach much that does not hold for others. So what they taught is taken only
if, on the graphs that it was learned from, it agrees better with the labels than the shipped model
`default`, by more than the standard error. That is careful: labels alone are often better on other
graphs, but sometimes far worse, and nobody sees it then. Where two or five graphs mislead by
chance, care does not help: see the numbers in parentheses. AMI in percent, on graphs that nothing
was learned from; K is unknown.

column | meaning
--- | ---
default | the shipped model, which learned nothing
labels alone | the parameters that fit the labels best
**taken** | what training returns

## Graphs

Parameters are learned from two or five graphs, and tested on {N_TESTED} others: means of \
{REPETITIONS} repetitions,
each with graphs of its own. In parentheses: the repetition that lost most, or gained least, against
`default`.

| graphs | learned from | default | labels alone | **taken** |
|---|---|---|---|---|
{{graphs}}
"""

STREAMS = """
## Streams

Parameters are learned from the first half of the windows, and tested on the others with memory.
Left out are streams in which the class of some nodes is unknown.

| stream | learned from | default | labels alone | **taken** |
|---|---|---|---|---|
"""


if __name__ == "__main__":
    main()
