"""What knowing the communities of some nodes is worth for the others.

    python -m benchmarks.known

LFR graphs that nothing was chosen on, K unknown, model `default`. Writes its section of
docs/python.md.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.arrays import NOBODY
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.known import find_with_known
from stream_icd.methods.quality.agreement import ami
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.registry.find import open_model

MIXINGS = (0.5, 0.6, 0.65)
SHARES = {"none": 0.0, "a twentieth": 0.05, "a tenth": 0.1, "a fifth": 0.2}
N_NODES = 3000


def score(mixing: float, share: float, *, fixed: bool, seed: int) -> float:
    """AMI in % of the nodes of a graph that are not known."""
    rng = np.random.default_rng(seed)
    planted = generate_lfr(rng, LfrSettings(N_NODES, mixing=mixing))
    truth, parameters = planted.communities, open_model("default").model.bp
    known = np.full(N_NODES, NOBODY, np.int32)
    chosen = rng.permutation(N_NODES)[: round(share * N_NODES)]
    known[chosen] = np.unique(truth[chosen], return_inverse=True)[1]
    if share:
        labels = find_with_known(planted.adjacency(), parameters, known, fixed=fixed)[0]
    else:
        labels = find_communities(planted.adjacency(), parameters)
    return 100 * ami(truth[known < 0], labels[known < 0])


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", type=int, default=5, help="graphs of each cell")
    options = parser.parse_args()
    seeds = range(TEST_SEED, TEST_SEED + options.graphs)
    table = f"| known | {' | '.join(f'μ = {mixing}' for mixing in MIXINGS)} |\n|---|---|---|---|\n"
    for name, share in SHARES.items():
        cells = []
        for mixing in MIXINGS:
            fixed, prior = (
                np.mean([score(mixing, share, fixed=how, seed=seed) for seed in seeds])
                for how in (True, False)
            )
            cells.append(f"{fixed:.1f}; {prior:.1f}" if share else f"{fixed:.1f}")
        table += f"| {name} | {' | '.join(cells)} |\n"
    print(table)
    write_section("python.md", "known.py", table + "\n" + measured_at())


if __name__ == "__main__":
    main()
