"""Command groups whose members are loaded when they are asked for, not when we start."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from stream_icd.cli.help_text import write_as_it_is

Load = Callable[[], typer.Typer]


class LazyGroup(TyperGroup):
    """A command group that imports a command's module only to run it or to list it in help."""

    def members(self) -> dict[str, Load]:
        """Name of each command, and what loads it."""
        raise NotImplementedError

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.members())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        members = self.members()
        if cmd_name not in members:
            return None
        command = typer.main.get_command(members[cmd_name]())
        command.name = cmd_name
        write_as_it_is(command)
        return command


class BuiltIn(LazyGroup):
    """The commands of this package: a file each, or a folder where one is large."""

    HOMES = (
        "demo",
        "data",
        "produce",
        "consume",
        "subscribe.command",
        "view",
        "report",
        "explain",
        "broker",
        "topics",
        "train",
        "label",
        "attributes",
        "retrain",
        "evaluate",
        "models.command",
        "history.command",
        "replay.command",
        "dlq.command",
    )

    def members(self) -> dict[str, Load]:
        return {home.partition(".")[0]: _loads(f"stream_icd.cli.{home}") for home in self.HOMES}


def _loads(module: str) -> Load:
    def load() -> typer.Typer:
        app: typer.Typer = import_module(module).app
        return app

    return load


class Installed(LazyGroup):
    """Commands that installed packages offer under the entry point group `GROUP`."""

    GROUP = ""

    def members(self) -> dict[str, Load]:
        found: dict[str, EntryPoint] = {e.name: e for e in entry_points(group=self.GROUP)}
        return {name: found[name].load for name in sorted(found)}


class Producers(Installed):
    """What can be produced: entry points `stream_icd.producers`."""

    GROUP = "stream_icd.producers"


class Consumers(Installed):
    """What can consume: entry points `stream_icd.consumers`."""

    GROUP = "stream_icd.consumers"
