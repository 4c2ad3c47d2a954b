"""Command groups whose members are loaded when they are asked for, not when we start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from stream_icd.cli.help_text import mark_flags, write_as_it_is

Load = Callable[[], typer.Typer]

HOMES = {
    "demo": "stream_icd.cli.demo",
    "data": "stream_icd.cli.data",
    "produce": "stream_icd.cli.plugins:produce",
    "consume": "stream_icd.cli.plugins:consume",
    "subscribe": "stream_icd.cli.subscribe.command",
    "view": "stream_icd.cli.view",
    "report": "stream_icd.cli.report",
    "explain": "stream_icd.cli.explain",
    "broker": "stream_icd.cli.broker",
    "topics": "stream_icd.cli.topics",
    "train": "stream_icd.cli.train",
    "label": "stream_icd.cli.label",
    "attributes": "stream_icd.cli.attributes",
    "retrain": "stream_icd.retraining.command",
    "evaluate": "stream_icd.cli.evaluate",
    "models": "stream_icd.cli.models.command",
    "history": "stream_icd.cli.history.command",
    "replay": "stream_icd.cli.replay.command",
    "dlq": "stream_icd.cli.dlq.command",
}
"""The commands of this package, and the `app` of which module each is."""


class LazyGroup(TyperGroup):
    """A command group that imports a command's module only to run it or to list it in help."""

    def members(self) -> dict[str, Load]:
        """Name of each command, and what loads it."""
        raise NotImplementedError

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        mark_flags(params)
        return params

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
    """The commands of this package."""

    def members(self) -> dict[str, Load]:
        return {name: partial(_loaded, home) for name, home in HOMES.items()}


def _loaded(home: str) -> typer.Typer:
    module, _, name = home.partition(":")
    app: typer.Typer = getattr(import_module(module), name or "app")
    return app


class Installed(LazyGroup):
    """Commands that installed packages offer under the entry point group `GROUP`."""

    GROUP = ""

    def members(self) -> dict[str, Load]:
        found = sorted(entry_points(group=self.GROUP), key=lambda entry: entry.name)
        return {entry.name: entry.load for entry in found}


class Producers(Installed):
    """What can be produced."""

    GROUP = "stream_icd.producers"


class Consumers(Installed):
    """What can consume."""

    GROUP = "stream_icd.consumers"


produce = typer.Typer(
    cls=Producers, no_args_is_help=True, help="Make snapshots from data and send them to Kafka."
)
consume = typer.Typer(
    cls=Consumers,
    no_args_is_help=True,
    help="Run a worker on arriving messages (detector, tracker or archive), or a retrainer.",
)


@produce.callback()
@consume.callback()
def _group() -> None:
    """A group, whose commands are entry points."""
