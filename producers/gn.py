"""`stream-icd produce gn`: simulated graphs of equal communities."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.programs.declared import Producer, command
from stream_icd.programs.options import GraphName, Seed

if TYPE_CHECKING:
    from stream_icd.programs import ProducerRun, Source

app = typer.Typer()


@command(app, "gn")
class Gn(Producer):
    """Send GN benchmark graphs (Girvan, Newman 2002): planted communities of equal size.

    The graphs are independent. Each states its K, and its true communities go to icd.labels.v1.
    A pair in different communities has an edge with probability (1 - p_in) / (K - 1).

      stream-icd produce gn --p-in 0.4 --limit 50

      stream-icd produce gn --drift gradual --p-in 0.4 --p-in-after 0.2
    """

    limit: Annotated[int, typer.Option(min=1, help="Number of snapshots.")] = 100
    nodes: Annotated[int, typer.Option(min=2, help="Nodes per snapshot.")] = 5000
    communities: Annotated[int, typer.Option(min=1, help="Communities per snapshot (K).")] = 250
    p_in: Annotated[
        float, typer.Option(min=0, max=1, help="Probability of an edge within a community.")
    ] = 0.3
    drift: Annotated[
        Literal["none", "sudden", "gradual"],
        typer.Option(help="Whether --p-in stays, jumps halfway, or moves evenly to --p-in-after."),
    ] = "none"
    p_in_after: Annotated[
        float, typer.Option(min=0, max=1, help="Final value of --p-in, with drift.")
    ] = 0.2
    seed: Seed = 0
    graph: GraphName = "gn"

    def open(self, _run: "ProducerRun") -> "Source":
        """Generate the graphs."""
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
