"""`stream-icd produce gn`: simulated graphs of equal communities."""

from typing import Literal

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import GraphName, Producer, Seed

app = typer.Typer()


@command(app, "gn")
class Gn(Producer):
    """Send GN benchmark graphs (Girvan, Newman 2002): planted communities of equal size.

    The graphs are independent. Each states its K, and its true communities go to icd.labels.v1.
    A pair in different communities has an edge with probability (1 - p_in) / (K - 1).

      stream-icd produce gn --p-in 0.4 --limit 50
      stream-icd produce gn --drift gradual --p-in 0.4 --p-in-after 0.2
    """

    limit: int = option(100, "Number of snapshots.", min=1)
    nodes: int = option(5000, "Nodes per snapshot.", min=2)
    communities: int = option(250, "Communities per snapshot (K).", min=1)
    p_in: float = option(0.3, "Probability of an edge within a community.", min=0, max=1)
    drift: Literal["none", "sudden", "gradual"] = option(
        "none", "Whether --p-in stays, jumps halfway, or moves evenly to --p-in-after."
    )
    p_in_after: float = option(0.2, "Final value of --p-in, with drift.", min=0, max=1)
    seed: Seed = 0
    graph: GraphName = "gn"

    def open(self, _run: "programs.ProducerRun") -> "programs.Source":
        from stream_icd.sources.generated import independent_gn

        return independent_gn(
            self.seed,
            self.limit,
            n_nodes=self.nodes,
            n_communities=self.communities,
            p_in=self.p_in,
            shift=self.drift,
            p_in_after=self.p_in_after,
            graph=self.graph,
        )
