"""Command lines that documents and configuration show, checked against the real commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app

OPERATORS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>"}
ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*")


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
    for start, token in enumerate(tokens):
        if token == "stream-icd" and all(map(ASSIGNMENT.fullmatch, _before(tokens, start))):
            break
    else:
        return None
    arguments = tokens[start + 1 :]
    end = next((i for i, token in enumerate(arguments) if token in OPERATORS), len(arguments))
    return arguments[:end]


def _before(tokens: Sequence[str], start: int) -> Sequence[str]:
    """The words since the last operator: only assignments may stand before a command's name."""
    last = max((i for i in range(start) if tokens[i] in OPERATORS), default=-1)
    return tokens[last + 1 : start]
