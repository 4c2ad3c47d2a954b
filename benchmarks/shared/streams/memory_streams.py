"""Planted streams on which detection with memory is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

N_WINDOWS = 10
SETTLED = 4
"""The fifth window: from there on, memory has had time."""


@dataclass(frozen=True)
class Stream:
    """A kind of drifting LFR stream.

    small: many small communities, of which a fifth of the nodes changes each window, as in the
        streams of Greene, Doyle and Cunningham (ASONAM 2010).
    events: communities also merge, split, begin and end; never where they are small.
    """

    mixing: float = 0.6
    n_nodes: int = 5000
    churn: float = 0.02
    k_given: bool = False
    small: bool = False
    events: bool = True

    @property
    def name(self) -> str:
        name = f"lfr mixing={self.mixing} nodes={self.n_nodes} churn={self.churn}"
        name += f" k={self.k_given}"
        return name + " small" * self.small + " no events" * (not self.events)

    def windows(self, seed: int, n_windows: int = N_WINDOWS) -> list[PlantedGraph]:
        settings = LfrSettings(n_nodes=self.n_nodes, mixing=self.mixing)
        if self.small:
            settings = replace(
                settings, mean_degree=5, max_degree=15, min_community=6, max_community=20
            )
        event_rate = 0.1 if self.events and not self.small else 0.0
        drifting = generate_drifting_lfr(seed, n_windows, settings, self.churn, event_rate)
        return [graph for graph, _ in drifting]

    def parameters(self) -> BpParameters:
        """γ near a seventh of the number of communities, which suits all mixings."""
        resolution = 80.0 if self.small else max(self.n_nodes / 440, 2.0)
        return BpParameters(resolution, self.mixing, size_spread=1.0, iterations=1)
