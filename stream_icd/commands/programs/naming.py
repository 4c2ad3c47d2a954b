"""The option `--names`, and what names communities by it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from stream_icd.commands.programs.declared import path
from stream_icd.commands.programs.options import checked_graph
from stream_icd.core.errors import BadSettings

if TYPE_CHECKING:
    from stream_icd.methods.names.attributes import Attributes
    from stream_icd.methods.names.names import Naming

GraphNames = Annotated[
    list[str] | None,
    Option(
        "--names",
        metavar="[GRAPH=]FILE",
        help="Name communities by this table of attributes of nodes: CSV, JSON lines or "
        "Parquet, with the column node and one for each attribute, such as country. If there are "
        "several graphs, name that of each table, as in as733=countries.csv; may be repeated.",
    ),
]


def naming_by(names: list[str] | None, graph: str | None = None) -> Naming | None:
    """Return what names communities, by tables; None without `--names`. Raises as `_tables_of`."""
    if not names:
        return None
    from stream_icd.methods.names.names import Naming

    return Naming(_tables_of(names, graph))


def _tables_of(names: Sequence[str], graph: str | None = None) -> dict[str | None, Attributes]:
    """Read tables of attributes, each given as `FILE` or `GRAPH=FILE`.

    `graph`: that of a table without one; None: the only graph that there is.

    Raises:
        BadSettings: two tables are of one graph, one of several has no graph, or as
            `read_attributes`.
    """
    from stream_icd.sources.node_tables import read_attributes

    files: dict[str | None, Path] = {}
    for name in names:
        of, file = graph_and_file(name, graph)
        if of in files:
            raise BadSettings(
                f"--names {name}: there is a table of "
                f"{'this graph' if of else 'no graph in particular'} already; give each graph one, "
                "as in --names as733=countries.csv"
            )
        files[of] = path(file)
    if None in files and len(files) > 1:
        raise BadSettings(
            f"--names {files[None]} does not say to which graph it belongs: give each of several "
            "tables its graph, as in --names as733=countries.csv"
        )
    return {of: read_attributes(file) for of, file in files.items()}


def graph_and_file(name: str, graph: str | None) -> tuple[str | None, str]:
    """Return both parts of `GRAPH=FILE`; a file may have the whole name."""
    of, equals, file = name.partition("=")
    if not equals or not of or "/" in of or path(name).exists():
        return graph, name
    return checked_graph(of), file
