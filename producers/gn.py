"""`stream-icd produce gn`: simulated graphs of equal communities."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stream_icd.programs.options import (
    Again,
    BootstrapServers,
    Correct,
    GraphName,
    PartitionBy,
    Rate,
)

app = typer.Typer()


@app.command("gn")
def main(
    limit: Annotated[int, typer.Option(min=1, help="Number of snapshots.")] = 100,
    nodes: Annotated[int, typer.Option(min=2, help="Nodes per snapshot.")] = 5000,
    communities: Annotated[int, typer.Option(min=1, help="Communities per snapshot (K).")] = 250,
    p_in: Annotated[
        float, typer.Option(min=0, max=1, help="Probability of an edge within a community.")
    ] = 0.3,
    drift: Annotated[
        Literal["none", "sudden", "gradual"],
        typer.Option(help="Whether --p-in stays, jumps halfway, or moves evenly to --p-in-after."),
    ] = "none",
    p_in_after: Annotated[
        float, typer.Option(min=0, max=1, help="Final value of --p-in, with drift.")
    ] = 0.2,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; the same seed gives the same bytes.")
    ] = 0,
    graph: GraphName = "gn",
    rate: Rate = None,
    again: Again = False,
    correct: Correct = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send GN benchmark graphs (Girvan, Newman 2002): planted communities of equal size.

    The graphs are independent. Each states its K, and its true communities go to icd.labels.v1.
    A pair in different communities has an edge with probability (1 - p_in) / (K - 1).

      stream-icd produce gn --p-in 0.4 --limit 50

      stream-icd produce gn --drift gradual --p-in 0.4 --p-in-after 0.2
    """
    from stream_icd.programs import SendOptions, run_producer
    from stream_icd.sources.generated.gn import independent_gn

    run_producer(
        lambda _run: independent_gn(
            seed,
            limit,
            n_nodes=nodes,
            n_communities=communities,
            p_in=p_in,
            shift=drift,
            p_in_after=p_in_after,
            graph=graph,
        ),
        SendOptions(
            bootstrap_servers=bootstrap_servers,
            rate=rate,
            again=again,
            correct=correct,
            partition_by=partition_by,
        ),
    )
