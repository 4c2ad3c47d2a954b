"""Help as it is written: brackets are shown, paragraphs fit the terminal, examples stay whole."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import typer

MARKUP = re.compile(r"(?=\[[a-z#/@])")


def write_as_it_is(command: Any) -> None:
    """Prepare a command, and those in it, for typer's rich help.

    Typer takes `[local]` for markup and leaves it out, and keeps the line ends of the source code.

    Args:
        command: what `typer.main.get_command` made.
    """
    command.help = flowing(command.help or "")
    command.short_help = command.short_help and escaped(command.short_help)
    command.params = [param for param in command.params if not _is_completion(param)]
    for param in command.params:
        if getattr(param, "help", None):
            param.help = escaped(param.help)
    mark_flags([*command.params, command.get_help_option(typer.Context(command))])
    for member in getattr(command, "commands", {}).values():
        write_as_it_is(member)


def mark_flags(params: Iterable[Any]) -> None:
    """Prepare flags: typer says `<bool>` after them, but they take no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""


def flowing(text: str) -> str:
    r"""Paragraphs of one line each, which the terminal wraps; indented lines stay as they are.

    >>> flowing('''Send it
    ... again: x[y].
    ...
    ...   stream-icd demo''')
    'Send it again: x\\[y].\n\n  stream-icd demo'
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return escaped(
        "\n\n".join(one if one.startswith(" ") else one.replace("\n", " ") for one in paragraphs)
    )


def escaped(text: str) -> str:
    """Text in which rich finds no markup."""
    return MARKUP.sub(r"\\", text)


def _is_completion(param: Any) -> bool:
    """Whether it installs shell completion, which the whole program offers once."""
    return param.name in ("install_completion", "show_completion")
