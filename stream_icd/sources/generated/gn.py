"""Streams of GN graphs: communities of equal size, with constant or shifting parameters."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stream_icd.sources.generated.planted import Shift, planted_snapshots, shifted
from stream_icd.sources.source import Source
from stream_icd.synthetic.gn import check_gn, generate_gn
from stream_icd.synthetic.planted_graph import PlantedGraph


def independent_gn(
    seed: int,
    n_snapshots: int,
    *,
    n_nodes: int = 5000,
    n_communities: int = 250,
    p_in: float = 0.3,
    shift: Shift = "none",
    p_in_after: float = 0.2,
    graph: str = "gn",
) -> Source:
    """Generate an independent graph at each step, as the paper's test sets; same seed, same bytes.

    Args:
        p_in: probability of an edge inside a community.
        shift: how it changes from `p_in` to `p_in_after` over the stream.

    Raises:
        BadSettings: a probability is outside 0..1, or there are more communities than nodes.
    """
    check_gn(n_nodes, n_communities, p_in=p_in, p_in_after=p_in_after)

    def graphs() -> Iterator[PlantedGraph]:
        for step in range(n_snapshots):
            p = shifted(shift, step, n_snapshots, p_in, p_in_after)
            rng = np.random.default_rng([seed, step])
            yield generate_gn(rng, n_nodes, n_communities, p)

    source = f"urn:stream_icd:gn?seed={seed}&nodes={n_nodes}&k={n_communities}&p_in={p_in:g}"
    source += f"&shift={shift}&after={p_in_after:g}" if shift != "none" else ""
    return Source(n_snapshots, planted_snapshots(graphs(), graph, source))
