"""`stream-icd produce lfr`: simulated graphs with known communities that drift."""

from __future__ import annotations

from typing import Annotated

import typer

from stream_icd.cli.options import BootstrapServers, Rate

app = typer.Typer(add_completion=False)


@app.command("lfr")
def main(
    limit: Annotated[int, typer.Option(min=1, help="How many snapshots.")] = 100,
    nodes: Annotated[int, typer.Option(min=20, help="Nodes of each snapshot.")] = 5000,
    mixing: Annotated[
        float,
        typer.Option(min=0, max=1, help="μ: share of a node's edges that leave its community."),
    ] = 0.3,
    churn: Annotated[
        float,
        typer.Option(min=0, max=1, help="Share of nodes offered another community each step."),
    ] = 0.02,
    event_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Chance of a merge, split, birth, death each step.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bytes.")] = 0,
    graph: Annotated[str, typer.Option(help="Name of the graph: the key.")] = "lfr",
    rate: Rate = None,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send LFR benchmark graphs (Lancichinetti, Fortunato, Radicchi 2008) whose communities drift.

    Each snapshot says its K, and the true communities go to icd.labels.v1. Mixing 0.3 is easy to
    detect, 0.6 hard.

      stream-icd produce lfr --limit 50 --mixing 0.6 --seed 7
    """
    from stream_icd.cli.run_producer import run_producer
    from stream_icd.sources.lfr import drifting_lfr
    from stream_icd.synthetic.lfr import LfrSettings

    run_producer(
        lambda _on_bad_row: drifting_lfr(
            seed,
            limit,
            LfrSettings(n_nodes=nodes, mixing=mixing),
            churn=churn,
            event_rate=event_rate,
            graph=graph,
        ),
        bootstrap_servers=bootstrap_servers,
        rate=rate,
    )
