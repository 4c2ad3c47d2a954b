"""`stream-icd produce lfr`: simulated graphs with known communities that drift."""

import re
from typing import TYPE_CHECKING, Literal

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import GraphName, Producer, Seed
from stream_icd.core.errors import BadSettings

if TYPE_CHECKING:
    from stream_icd.methods.synthetic.lfr import LfrSettings

app = typer.Typer()


@command(app, "lfr")
class Lfr(Producer):
    """Send LFR benchmark graphs (Lancichinetti et al. 2008) with drifting communities.

    Each snapshot states its K, and its true communities go to icd.labels.v1. Mixing 0.3 is easy to
    detect, 0.6 is hard.

      stream-icd produce lfr --limit 50 --mixing 0.6 --seed 7

    The paper's L(n, 0.3), independent graphs of 5,000 to 6,000 nodes:

      stream-icd produce lfr --drift none --most-nodes 6000

    Detection gets harder halfway, so that a model should be trained again:

      stream-icd produce lfr --drift sudden --mixing-after 0.6 --rate 1

    The same nodes, which form other and larger communities after 40 snapshots:

      stream-icd produce lfr --sizes 5-50 --change-at 40 --sizes-after 10-200
    """

    limit: int = option(100, "Number of snapshots.", min=1)
    nodes: int = option(5000, "Nodes per snapshot.", min=20)
    most_nodes: int | None = option(
        None, "Draw the number of nodes from --nodes to this; not with --drift communities.", min=20
    )
    mixing: float = option(
        0.3, "Share of a node's edges that leave its community (μ).", min=0, max=1
    )
    sizes: str = option("10-200", "Smallest and largest number of nodes of a community.")
    drift: Literal["communities", "none", "sudden", "gradual"] = option(
        "communities",
        "communities: the same nodes, whose communities change. Otherwise the graphs are "
        "independent, and the mixing stays, jumps halfway, or moves evenly to --mixing-after.",
    )
    mixing_after: float = option(
        0.6, "Final mixing, with --drift sudden or gradual or with --change-at.", min=0, max=1
    )
    change_at: int | None = option(
        None,
        "With --drift communities: after this number of snapshots, the mixing is --mixing-after, "
        "the sizes are --sizes-after, and all communities are new. Default: never.",
        min=1,
    )
    sizes_after: str | None = option(None, "Sizes after --change-at. Default: --sizes.")
    churn: float = option(0.02, "Share of nodes that may change community per step.", min=0, max=1)
    event_rate: float = option(
        0.1, "Probability of a merge, split, birth or death per step.", min=0, max=1
    )
    seed: Seed = 0
    graph: GraphName = "lfr"

    def open(self, _run: "programs.ProducerRun") -> "programs.Source":
        from stream_icd.sources.generated import drifting_lfr, independent_lfr

        settings = self._settings("--sizes", self.sizes, self.mixing)
        change = None
        if self.sizes_after is not None and self.change_at is None:
            raise BadSettings("--sizes-after needs --change-at")
        if self.change_at is not None:
            sizes = self.sizes_after or self.sizes
            later = self._settings("--sizes-after", sizes, self.mixing_after)
            change = self.change_at, later
        if self.drift != "communities":
            if change is not None:
                raise BadSettings("--change-at needs --drift communities")
            return independent_lfr(
                self.seed,
                self.limit,
                settings,
                most_nodes=self.most_nodes,
                shift=self.drift,
                mixing_after=self.mixing_after,
                graph=self.graph,
            )
        if self.most_nodes is not None:
            raise BadSettings(
                "--most-nodes needs --drift none, sudden or gradual: with --drift "
                "communities, all snapshots have the same nodes"
            )
        return drifting_lfr(
            self.seed,
            self.limit,
            settings,
            churn=self.churn,
            event_rate=self.event_rate,
            change=change,
            graph=self.graph,
        )

    def _settings(self, option: str, sizes: str, mixing: float) -> "LfrSettings":
        """Settings with these community sizes; the largest degree fits community and graph."""
        from stream_icd.methods.synthetic.lfr import LfrSettings

        match = re.fullmatch(r"(\d{1,9})-(\d{1,9})", sizes)
        if match is None:
            raise BadSettings(f"{option} {sizes!r}: give two numbers, such as 10-200")
        least, most = int(match[1]), int(match[2])
        return LfrSettings(
            n_nodes=self.nodes,
            mixing=mixing,
            min_community=least,
            max_community=most,
            max_degree=min(LfrSettings.max_degree, most, self.nodes - 1),
        )
