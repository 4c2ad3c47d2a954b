"""One page for each command of `stream-icd`, generated from the program's own help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.cli import get_docs_for_click

from stream_icd.commands.cli.main import app

PROGRAM = "stream-icd"
EXAMPLES = re.compile(r"(?:^(?: {2,}\S|stream-icd ).*\n+)+", re.MULTILINE)
"""What `--help` shows as examples: indented lines, and commands that begin a line."""


def write_command_pages(folder: Path) -> None:
    """Write `folder/<command>.md` for each command, and an index of them.

    A page that says what it said before is not written again, so that a build after a build has
    nothing to do.
    """
    folder.mkdir(exist_ok=True)
    pages = dict(_pages(typer.main.get_command(app), None, ()))
    names = "\n".join(pages)
    pages["index"] = (
        "# Commands\n\nWhat `stream-icd COMMAND --help` says, a page a command.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"
    )
    for stale in {page.stem for page in folder.glob("*.md")} - pages.keys():
        (folder / f"{stale}.md").unlink()
    for name, text in pages.items():
        page = folder / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def _pages(command: Any, parent: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Name and text of the page of each command that does something."""
    context = command.context_class(command, info_name=path[-1] if path else PROGRAM, parent=parent)
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from _pages(command.get_command(context, name), context, (*path, name))
        return
    name = " ".join((PROGRAM, *path))
    text = get_docs_for_click(
        obj=command, ctx=context, name=path[-1], call_prefix=" ".join((PROGRAM, *path[:-1]))
    )
    body = EXAMPLES.sub(_as_code, text.partition("\n")[2])
    yield "-".join(path), f"# {name}\n{body}"


def _as_code(examples: re.Match[str]) -> str:
    lines = (line.strip() for line in examples[0].splitlines() if line.strip())
    return "```sh\n" + "\n".join(lines) + "\n```\n\n"
