"""What it costs to know the mixing wrongly: one model, graphs of every mixing.

    python -m benchmarks.mixing

Belief propagation starts from the mixing that the model learned and corrects it by what the graph
shows. Each column is the same model but for the mixing it starts from. Writes
docs/measured/mixing.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

STARTS = (0.1, 0.3, 0.6)
MIXINGS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
LEARNED_ON_LFR = BpParameters(resolution=2**4.5, mixing=0.3, size_spread=1.0, iterations=1)
EQUAL_SIZES = replace(LEARNED_ON_LFR, size_spread=0.0)

Draw = Callable[[np.random.Generator], PlantedGraph]


def families() -> Iterator[tuple[str, float, BpParameters, Draw]]:
    """Name, true mixing, what the model learned, and the generator of each row."""
    for n_nodes in (1000, 5000, 20_000):
        for mixing in MIXINGS:

            def draw(
                rng: np.random.Generator, n_nodes: int = n_nodes, mixing: float = mixing
            ) -> PlantedGraph:
                return generate_lfr(rng, LfrSettings(n_nodes=n_nodes, mixing=mixing))

            yield f"LFR, {n_nodes:,} nodes, μ = {mixing}", mixing, LEARNED_ON_LFR, draw
    for p_in in (0.3, 0.4):

        def draw_gn(rng: np.random.Generator, p_in: float = p_in) -> PlantedGraph:
            return generate_gn(rng, p_in=p_in)

        yield f"GN, p_in = {p_in}, μ = {1 - p_in:.1f}", 1 - p_in, EQUAL_SIZES, draw_gn


def scores(draw: Draw, parameters: BpParameters, n_graphs: int) -> list[float]:
    """NMI in %, K unknown, of graphs that nothing was chosen on."""
    graphs = (draw(np.random.default_rng(TEST_SEED + seed)) for seed in range(n_graphs))
    return [100 * nmi(g.communities, find_communities(g.adjacency(), parameters)) for g in graphs]


def cell(values: list[float]) -> str:
    """Mean and least of one column."""
    return f"{np.mean(values):.2f} ({min(values):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=5, help="graphs of each row")
    parser.add_argument("--out", type=Path, default=Path("docs/measured/mixing.md"))
    options = parser.parse_args()
    rows = []
    for name, true_mixing, learned, draw in families():
        starts = (true_mixing, *STARTS)
        cells = [
            cell(scores(draw, replace(learned, mixing=start), options.graphs)) for start in starts
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    head = " | ".join(["graphs", "right μ", *(f"μ = {start}" for start in STARTS)])
    options.out.write_text(
        f"""# If the mixing of a model is wrong

For those who use a model on graphs that differ from its training graphs. A model learns the
mixing μ, the fraction of edges between communities, from its training graphs. On each new graph,
belief propagation starts with this value and corrects it after each sweep (expectation
maximisation). The table shows that the result hardly depends on the value that the model learned,
except where communities are hard to find.

Made by `python -m benchmarks.mixing`. NMI in %, mean (and minimum) of {options.graphs} test
graphs, K unknown. The columns differ only in the mixing that the model has learned; "right μ" is
that of the row. The resolution is {LEARNED_ON_LFR.resolution:.1f}; the size spread is 1 for LFR
and 0 for GN.

| {head} |
|{" --- |" * (len(STARTS) + 2)}
"""
        + "\n".join([*rows, "", measured_at()]),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
