"""The documents, their blocks of code, and the command lines in them and in configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import Any
from unittest import mock

import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "measured").glob("*.md")),
]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
OPERATORS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>"}
ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*")


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def fences(document: Path, *languages: str) -> Iterator[str]:
    for language, body in FENCE.findall(document.read_text(encoding="utf-8")):
        if language in languages:
            yield body


def shell_lines(document: Path) -> Iterator[str]:
    for body in fences(document, "sh", "bash", "shell", "console"):
        for line in body.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ ")


def complaint(arguments: Sequence[str], *, complete: bool = True) -> str | None:
    """What `stream-icd ARGUMENTS` is refused for before it does anything, or None.

    Args:
        complete: whether a command and its required arguments must be there too.
    """
    with mock.patch.object(TyperCommand, "invoke", mock.Mock()):
        result = CliRunner().invoke(app, list(arguments))
    only_unfinished = "Missing " in result.output or "Error" not in result.output
    if result.exit_code == 0 or (only_unfinished and not complete):
        return None
    return f"stream-icd {shlex.join(arguments)}: {result.output or result.exception}"


def all_commands() -> Iterator[tuple[str, ...]]:
    """Every command that does something, such as `("produce", "as")`."""
    return _leaves(typer.main.get_command(app), ())


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "list_commands"):
        yield path
        return
    context = command.context_class(command)
    for name in command.list_commands(context):
        yield from _leaves(command.get_command(context, name), (*path, name))


def arguments_of(line: str) -> list[str] | None:
    """The arguments of the `stream-icd` command in a line of shell, or None if there is none."""
    tokens = shlex.split(line, comments=True)
    ends = [at for at, token in enumerate(tokens) if token in OPERATORS]
    for first, last in zip([0, *(end + 1 for end in ends)], [*ends, len(tokens)], strict=True):
        command = list(dropwhile(ASSIGNMENT.fullmatch, tokens[first:last]))
        if command[:1] == ["stream-icd"]:
            return command[1:]
    return None
