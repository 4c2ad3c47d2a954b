"""Command groups: members are loaded when they are asked for, and help is shown as written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

_MARKUP = re.compile(r"(?=\[[a-z#/@])")


def _write_as_it_is(command: Any) -> None:
    """Prepare a command, and those in it, for typer's rich help.

    Typer takes `[local]` for markup, keeps the line ends of the source code, and offers shell
    completion in each command.
    """
    command.help = flowing(command.help or "")
    command.short_help = command.short_help and _escaped(command.short_help)
    completion = ("install_completion", "show_completion")
    command.params = [param for param in command.params if param.name not in completion]
    for param in command.params:
        if getattr(param, "help", None):
            param.help = _escaped(param.help)
    _mark_flags([*command.params, command.get_help_option(typer.Context(command))])
    for member in getattr(command, "commands", {}).values():
        _write_as_it_is(member)


def _mark_flags(params: Iterable[Any]) -> None:
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
    return _escaped(
        "\n\n".join(
            paragraph if paragraph.startswith(" ") else paragraph.replace("\n", " ")
            for paragraph in paragraphs
        )
    )


def _escaped(text: str) -> str:
    """Text in which rich finds no markup."""
    return _MARKUP.sub(r"\\", text)


_Load = Callable[[], typer.Typer]

_HOMES = {
    "demo": "stream_icd.commands.cli.demo:app",
    "data": "stream_icd.commands.cli.data:app",
    "produce": "stream_icd.commands.cli.plugins:produce",
    "consume": "stream_icd.commands.cli.plugins:consume",
    "subscribe": "stream_icd.commands.cli.subscribe:app",
    "view": "stream_icd.commands.cli.view:app",
    "report": "stream_icd.commands.cli.report:report",
    "explain": "stream_icd.commands.cli.report:explain",
    "broker": "stream_icd.commands.cli.topics:broker",
    "topics": "stream_icd.commands.cli.topics:app",
    "train": "stream_icd.commands.cli.train:app",
    "label": "stream_icd.commands.cli.label:label",
    "known": "stream_icd.commands.cli.known:known",
    "retrain": "stream_icd.consumers.retrain:app",
    "evaluate": "stream_icd.commands.cli.evaluate:app",
    "models": "stream_icd.commands.cli.models:app",
    "history": "stream_icd.commands.cli.history:app",
    "replay": "stream_icd.commands.cli.replay:app",
    "dlq": "stream_icd.commands.cli.dlq:app",
    "doctor": "stream_icd.commands.cli.doctor:app",
}
"""The commands of this package, and where each is."""


@cache  # it reads the metadata of all installed packages, and help asks once for each command
def _offered(group: str) -> dict[str, _Load]:
    found = sorted(entry_points(group=group), key=lambda entry: entry.name)
    return {entry.name: entry.load for entry in found}


class _LazyGroup(TyperGroup):
    """A command group that imports a command's module only to run it or to list it in help.

    Its commands are the entry points of the group `GROUP`, which packages may add.
    """

    GROUP = ""

    def members(self) -> dict[str, _Load]:
        """Name of each command, and what loads it."""
        return _offered(self.GROUP)

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        _mark_flags(params)
        return params

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.members())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        members = self.members()
        if cmd_name not in members:
            return None
        command = typer.main.get_command(members[cmd_name]())
        command.name = cmd_name
        _write_as_it_is(command)
        return command


class BuiltIn(_LazyGroup):
    """The commands of this package."""

    def members(self) -> dict[str, _Load]:
        return {name: EntryPoint(name, home, "").load for name, home in _HOMES.items()}


class _Producers(_LazyGroup):
    GROUP = "stream_icd.producers"


class _Consumers(_LazyGroup):
    GROUP = "stream_icd.consumers"


produce = typer.Typer(
    cls=_Producers, no_args_is_help=True, help="Make snapshots from data and send them to Kafka."
)
consume = typer.Typer(
    cls=_Consumers,
    no_args_is_help=True,
    help="Run a worker on arriving messages (detector, tracker, alerts, archive, rows) or retrain.",
)


@produce.callback()
@consume.callback()
def _group() -> None:
    """A group, whose commands are entry points."""
