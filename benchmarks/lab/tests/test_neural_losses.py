"""The losses of the neural methods are those of their papers, computed here the long way."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from benchmarks.lab.methods import clusnet, gap, lgnn
from benchmarks.lab.neural import tensor_of
from stream_icd.methods.quality.partition import modularity
from stream_icd.methods.synthetic.gn import generate_gn

PLANTED = generate_gn(np.random.default_rng(0), 40, 4, 0.5, 0.1)
ADJACENCY = PLANTED.adjacency()
DENSE = torch.tensor(ADJACENCY.toarray(), dtype=torch.float32)
DEGREES = DENSE.sum(dim=1)
SHARES = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(4), 40), dtype=torch.float32)
TRUTH = torch.nn.functional.one_hot(torch.tensor(PLANTED.communities.astype(np.int64))).float()


def test_gap_counts_the_expected_cut_and_how_uneven_the_communities_are() -> None:
    volumes = SHARES.T @ DEGREES
    cut = ((SHARES / volumes) @ (1 - SHARES).T * DENSE).sum()
    uneven = (SHARES.sum(dim=0) / 10 - 1).square().sum()
    found = gap.expected_cut(SHARES, tensor_of(ADJACENCY), DEGREES)
    torch.testing.assert_close(found, cut + gap.BALANCE * uneven)


def test_clusnet_maximises_the_modularity_of_clear_communities() -> None:
    found = clusnet.expected_modularity(TRUTH, tensor_of(ADJACENCY), DEGREES)
    assert float(found) == pytest.approx(modularity(ADJACENCY, PLANTED.communities), abs=1e-6)


def test_lgnn_takes_the_best_of_all_ways_to_name_the_communities() -> None:
    log_shares = SHARES.log()
    tried = [-(TRUTH[:, list(order)] * log_shares).sum() / 40 for order in permutations(range(4))]
    torch.testing.assert_close(lgnn.best_cross_entropy(log_shares, TRUTH), min(tried))


def test_lgnn_follows_edges_on_but_never_back() -> None:
    starts, ends = ADJACENCY.tocoo().coords
    steps_on = (ends[:, None] == starts[None, :]) & (starts[:, None] != ends[None, :])
    graph = lgnn.prepare(ADJACENCY)
    signal = torch.randn(len(starts), 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(graph.follow(signal), torch.tensor(steps_on).float() @ signal)
    torch.testing.assert_close(graph.line_degrees[:, 0], torch.tensor(steps_on).float().sum(dim=1))
