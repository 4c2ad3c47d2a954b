"""What knowing the communities of some nodes is worth for the others.

    python -m benchmarks.known

LFR graphs that nothing was chosen on, model `default`: bp with K unknown, and K-means (icd), whose
seeds they are, with K given. Writes its section of docs/measured/known.md.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.arrays import NOBODY
from stream_icd.methods.model import Method
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect

METHODS: tuple[Method, ...] = ("bp", "icd")
MIXINGS = (0.5, 0.6, 0.65)
SHARES = {"none": 0.0, "a twentieth": 0.05, "a tenth": 0.1, "a fifth": 0.2}
N_NODES = 3000


def score(method: Method, mixing: float, share: float, *, fixed: bool, seed: int) -> float:
    """AMI in % of the nodes of a graph that are not known."""
    rng = np.random.default_rng(seed)
    planted = generate_lfr(rng, LfrSettings(N_NODES, mixing=mixing))
    truth, k = planted.communities, planted.n_communities if method == "icd" else None
    known = np.full(N_NODES, NOBODY, np.int32)
    chosen = rng.permutation(N_NODES)[: round(share * N_NODES)]
    known[chosen] = np.unique(truth[chosen], return_inverse=True)[1]
    given = known if share else None
    model, graph = open_model("default").model, planted.adjacency()
    found = detect(graph, model, k, method=method, threads=1, known=given, fixed=fixed).communities
    return 100 * ami(truth[known < 0], found[known < 0])


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=5, help="graphs of each cell")
    options = parser.parse_args()
    seeds = range(TEST_SEED, TEST_SEED + options.graphs)
    ways = [(method, mixing) for method in METHODS for mixing in MIXINGS]
    table = f"| known | {' | '.join(f'{name}, μ = {mixing}' for name, mixing in ways)} |\n"
    table += f"|---|{'---|' * len(ways)}\n"
    for name, share in SHARES.items():
        cells = []
        for method, mixing in ways:
            fixed, prior = (
                np.mean([score(method, mixing, share, fixed=how, seed=seed) for seed in seeds])
                for how in (True, False)
            )
            cells.append(f"{fixed:.1f}; {prior:.1f}" if share else f"{fixed:.1f}")
        table += f"| {name} | {' | '.join(cells)} |\n"
    print(table)
    write_section("measured/known.md", "known.py", table + "\n" + measured_at())


if __name__ == "__main__":
    main()
