"""`stream-icd explain`: what happened around a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.errors import BadSettings
from stream_icd.printable import printable, say, shortened
from stream_icd.programs.options import NamesFile
from stream_icd.programs.past import parse_time

if TYPE_CHECKING:
    from stream_icd.snapshot import Snapshot
    from stream_icd.tracking.explain import Explanation
    from stream_icd.view.data.window import SeenWindow

app = typer.Typer(help="Explain what happened around a node.")


@app.command()
def explain(
    history: Annotated[
        str, typer.Option(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ],
    node: Annotated[str, typer.Option(help="The node, such as 701.")],
    graph: Annotated[
        str | None,
        typer.Option(help="Its graph. Default: the only one in the archive.", show_default=False),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="The window that holds this time, such as 1999-03-02, or else the last one before "
            "it. Default: the newest window.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Only results of this model, such as gn or gn@2.", show_default=False),
    ] = None,
    names: NamesFile = None,
) -> None:
    """Explain the community of a node: where it was and is, and which edges say so.

    In words first: how probable its community is, what moved with it, and how far back the evidence
    reaches. Then the numbers, with the edges that say most, in bits.

      stream-icd explain --history history/ --graph as733 --node 701 --at 1999-03-02
    """
    from stream_icd.store.store import open_store
    from stream_icd.view.feeds.naming import naming_by
    from stream_icd.view.panels.explanation import explained
    from stream_icd.view.panels.queries import MOST_WINDOWS
    from stream_icd.view.report.report import read_archive

    until = parse_time("--at", at)
    queries, name = read_archive(open_store(history), graph, model, naming=naming_by(names))
    windows = queries.seen.windows(name, MOST_WINDOWS)
    kept = [one for one in windows if until is None or one.result.window.start <= until]
    if not kept:
        raise BadSettings(f"--at {at}: the first window begins at {windows[0].result.window.start}")

    def read(one: SeenWindow) -> Snapshot:
        return queries.snapshots.read(name, one)

    found, called = explained(kept, node, read)
    words = {community: str(one) for community, one in called.items()}
    for sentence in found.sentences(words):
        say(sentence)
    _say_numbers(found)


def _say_numbers(found: Explanation) -> None:
    if found.companions:
        some = ", ".join(printable(shortened(one, 30)) for one in found.companions)
        more = ", …" if found.n_companions > len(found.companions) else ""
        say("", f"moved with it: {some}{more}")
    if found.edges:
        say("", f"{'community':>9} {'probability':>11} {'edges':>8}")
    for one in found.choices:
        say(f"{one.community:>9} {one.probability:>11.4f} {one.edges:>8.2f}")
    if found.edges:
        say("", f"{'edge to':>20} {'community':>9} {'weight':>7} {'bits':>7}")
    for edge in found.edges:
        to = printable(shortened(edge.to, 20))
        say(f"{to:>20} {edge.community:>9} {edge.weight:>7.2f} {edge.bits:>7.2f}")
