"""`stream-icd report` and `stream-icd explain`: what an archived graph holds, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from stream_icd.commands.programs.declared import command, option, options
from stream_icd.commands.programs.naming import GraphNames, naming_by
from stream_icd.commands.programs.options import (
    ArchivedGraph,
    FromOption,
    HistoryUri,
    Last,
    Zone,
    parse_time,
)
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import listed, printable, say, shortened

if TYPE_CHECKING:
    from stream_icd.interfaces.view.report import Report
    from stream_icd.methods.tracking.explain import Explanation
    from stream_icd.methods.tracking.explain_community import CommunityExplanation

report, explain = typer.Typer(), typer.Typer()

_A_FEW = 3


@options
class _ArchivedGraph:
    history: HistoryUri
    model: str | None = option(
        None,
        "Only results of this model, such as gn or gn@cabbaec5. Default: all, one after the other.",
    )
    names: GraphNames = None
    graph: ArchivedGraph = None

    def read(
        self, start: datetime | None = None, end: datetime | None = None, zone: str = "UTC"
    ) -> Report:
        """Return what the archive holds of the graph; see `Report.read`."""
        from stream_icd.core.store.store import open_store
        from stream_icd.history.archive import Selection
        from stream_icd.interfaces.view.report import Report

        store = open_store(self.history)
        chosen = Selection("communities", self.graph, start=start, end=end)
        naming = naming_by(self.names, self.graph)
        archived = Report.read(store, chosen, self.model, naming, zone)
        tables = ", ".join(self.names or ())
        if naming is not None and naming.trouble:
            raise BadSettings(f"{tables}: {naming.trouble}")
        if naming is not None and not naming.found:
            say(f"{tables} has no node of the graph: no community has a name", err=True)
        return archived


@command(report, "report")
class _Report(_ArchivedGraph):
    """Write the communities of an archived graph to one file that opens anywhere.

    The file holds the flow of communities, the map of the last window, numbers over time, events,
    and the past of every node. It needs no server and no network.

      stream-icd report --history history/ --graph as733 --out report.html
      stream-icd report --history history/ --names countries.csv
      stream-icd report --history history/ --graph as733 --format svg --out svg/
    """

    out: Path = option(
        Path("report.html"), "File to write; with --format png or svg, the folder for the pictures."
    )
    first: FromOption = None
    last: Last = None
    zone: Zone = "UTC"
    form: Literal["html", "png", "svg"] = option(
        "html",
        "html: the page as one file, which opens without a network; png, svg: the pictures flow, "
        "map and life.",
        "--format",
    )

    def run(self) -> None:
        start, end = parse_time("--from", self.first), parse_time("--to", self.last)
        archived = self.read(start, end, self.zone)
        if self.form == "html":
            written = [archived.write_html(self.out)]
        else:
            written = archived.write_pictures(self.out, self.form)
        say(*(f"written: {path}" for path in written), *archived.left_out())


@command(explain, "explain")
class _Explain(_ArchivedGraph):
    """Explain the community of a node, or a community: where it was and is, which edges say so.

    In words first: how probable the community of a node is, what moved with it, and how far back
    the memory reaches. Then the numbers, with the edges that say most, in bits.

      stream-icd explain --history history/ --node 701 --at 1999-03-02

    Of a community: who is in it, where they were before and are after, and the edges that tell it
    from the nearest other community:

      stream-icd explain --history history/ --community 12 --at 1999-03-02
    """

    node: str | None = option(None, "Explain this node, such as 701.")
    community: int | None = option(None, "Explain the community with this stable id.", min=0)
    at: str | None = option(
        None,
        "The window that holds this time, such as 1999-03-02, or else the last one before it. "
        "Default: the newest window.",
    )

    def run(self) -> None:
        if (self.node is None) == (self.community is None):
            raise BadSettings("give --node or --community, one of them")
        from stream_icd.interfaces.view.panels.details import (
            explained,
            explained_community,
            names_like,
        )

        until = parse_time("--at", self.at)
        archived = self.read()
        windows = archived.windows()
        shown = [w for w in windows if until is None or w.result.window.start <= until]
        if not shown:
            raise BadSettings(
                f"--at {self.at}: the first window begins at {windows[0].result.window.start}"
            )

        read = partial(archived.queries.sources.snapshot, archived.name)
        if self.community is not None:
            after = windows[len(shown)] if len(shown) < len(windows) else None
            about, called = explained_community(shown, self.community, read, after)
            say(*about.sentences(called))
            _say_numbers_of_community(about)
        elif self.node is not None:
            explanation, called = explained(shown, self.node, read)
            if explanation.now is None and explanation.before is None:
                some = listed(names_like(shown[-1], "", _A_FEW))
                raise BadSettings(
                    f"no window up to {explanation.at} has node {self.node!r}; nodes of that "
                    f"window are, for example, {some}"
                )
            sentences = explanation.sentences(called)
            say(next(sentences))
            _say_numbers(explanation)
            say("", *sentences)


def _say_numbers_of_community(explanation: CommunityExplanation) -> None:
    for title, where in (("before", explanation.before), ("after", explanation.after)):
        if where:
            say("", f"{'community ' + title:>16} {'members':>8}")
        for place in where or ():
            say(f"{'-' if place.community is None else place.community:>16} {place.members:>8,}")
    if explanation.apart is not None:
        apart = explanation.apart
        cost = apart.bits - apart.inside - apart.inside_nearest - apart.across
        say("", f"bits for two communities rather than one with community {apart.nearest}:")
        for bits, part in (
            (apart.inside, "edges inside"),
            (apart.inside_nearest, f"edges inside community {apart.nearest}"),
            (apart.across, "edges between the two"),
            (cost, "to say which nodes are in which"),
            (apart.bits, "together"),
        ):
            say(f"{bits:>12,.1f}  {part}")
    if explanation.members:
        title, *names = _column("member", [member.node for member in explanation.members])
        say("", f"{title} {'inside':>8} {'across':>8}")
        for name, member in zip(names, explanation.members, strict=True):
            say(f"{name} {member.inside:>8.2f} {member.across:>8.2f}")
    if explanation.links:
        starts = _column("edge", [link.one for link in explanation.links])
        ends = _column("and", [link.other for link in explanation.links])
        say("", f"{starts[0]} {ends[0]} {'weight':>7} {'bits':>7}")
        for start, end, link in zip(starts[1:], ends[1:], explanation.links, strict=True):
            say(f"{start} {end} {link.weight:>7.2f} {link.bits:>7.2f}")


def _column(title: str, nodes: Sequence[str]) -> list[str]:
    """Return a title and the names of nodes, all of one width."""
    texts = [title, *(printable(shortened(node, 40)) for node in nodes)]
    width = max(20, *map(len, texts))
    return [f"{text:>{width}}" for text in texts]


def _say_numbers(explanation: Explanation) -> None:
    if explanation.edges:
        say("", f"{'community':>9} {'probability':>11} {'edges':>8}")
    for choice in explanation.choices:
        say(f"{choice.community:>9} {choice.probability:>11.4f} {choice.edges:>8.2f}")
    for title, own in (("edges for its community:", True), ("edges for others:", False)):
        edges = [edge for edge in explanation.edges if (edge.community == explanation.now) == own]
        if edges:
            head, *names = _column("edge to", [edge.to for edge in edges])
            say("", title, f"{head} {'community':>9} {'weight':>7} {'bits':>7}")
            for to, edge in zip(names, edges, strict=True):
                say(f"{to} {edge.community:>9} {edge.weight:>7.2f} {edge.bits:>7.2f}")
    if explanation.companions:
        some = ", ".join(
            printable(shortened(companion, 30)) for companion in explanation.companions
        )
        more = ", …" if explanation.n_companions > len(explanation.companions) else ""
        say("", f"moved with it: {some}{more}")
