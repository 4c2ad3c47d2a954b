"""The `stream-icd` command: loads only the command that runs, and prints errors in one line."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOSPC
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from io import BufferedWriter, RawIOBase, TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stream_icd.core.errors import Action, StreamIcdError
from stream_icd.core.printable import say

# sysexits.h: what a supervisor or a shell script may act on.
_EXIT_CODES = {
    Action.RETRY: 75,  # EX_TEMPFAIL
    Action.SLOW_DOWN: 75,
    Action.DEAD_LETTER: 65,  # EX_DATAERR
    Action.STOP: 78,  # EX_CONFIG
}

_OS_EXIT_CODES = {EACCES: 78, ELOOP: 78, ENAMETOOLONG: 78, ENOSPC: 75}
"""Errors of the operating system that are the user's to solve, wherever they are raised."""

_HELP = """
Find communities in a stream of graphs.

Producers send one graph per time window to Kafka (a snapshot). Detectors find the communities of
each snapshot and publish them. Subscribers receive them seconds later.

  stream-icd demo    # start here

Set Kafka's address with --bootstrap-servers or STREAM_ICD_BOOTSTRAP_SERVERS (default:
127.0.0.1:9092). Set STREAM_ICD_CLAIMS_URI to a folder or bucket for messages that are too large
for Kafka.
"""

_MARKUP = re.compile(r"(?=\[[a-z#/@])")

_Load = Callable[[], typer.Typer]

_HOMES = {
    "demo": "stream_icd.commands.cli.demo:app",
    "data": "stream_icd.commands.cli.data:app",
    "produce": "stream_icd.commands.cli.main:produce",
    "consume": "stream_icd.commands.cli.main:consume",
    "subscribe": "stream_icd.commands.cli.subscribe:app",
    "view": "stream_icd.commands.cli.view:app",
    "report": "stream_icd.commands.cli.report:report",
    "explain": "stream_icd.commands.cli.report:explain",
    "broker": "stream_icd.commands.cli.topics:broker",
    "topics": "stream_icd.commands.cli.topics:app",
    "train": "stream_icd.commands.cli.train:app",
    "label": "stream_icd.commands.cli.label:label",
    "known": "stream_icd.commands.cli.label:known",
    "retrain": "stream_icd.consumers.retrain:app",
    "evaluate": "stream_icd.commands.cli.evaluate:app",
    "models": "stream_icd.commands.cli.models:app",
    "history": "stream_icd.commands.cli.history:app",
    "replay": "stream_icd.commands.cli.replay:app",
    "dlq": "stream_icd.commands.cli.dlq:app",
    "doctor": "stream_icd.commands.cli.doctor:app",
}
"""The commands of this package, and what loads each."""


@cache  # it reads the metadata of all installed packages, and help asks once for each command
def _offered(group: str) -> dict[str, _Load]:
    entries = sorted(entry_points(group=group), key=lambda entry: entry.name)
    return {entry.name: entry.load for entry in entries}


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


class _BuiltIn(_LazyGroup):
    def members(self) -> dict[str, _Load]:
        return {name: EntryPoint(name, home, "").load for name, home in _HOMES.items()}


class _Producers(_LazyGroup):
    GROUP = "stream_icd.producers"


class _Consumers(_LazyGroup):
    GROUP = "stream_icd.consumers"


def _write_as_it_is(command: Any) -> None:
    """Prepare a command, and those in it, for typer's rich help.

    Typer takes `[local]` for markup, keeps the line ends of the source code, and offers shell
    completion in each command.
    """
    command.help = _flowing(command.help or "")
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


def _flowing(text: str) -> str:
    r"""Paragraphs of one line each, which the terminal wraps; indented lines stay as they are.

    >>> _flowing('''Send it
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
    return _MARKUP.sub(r"\\", text)


app = typer.Typer(
    cls=_BuiltIn,
    help=_flowing(_HELP),
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they may hold a password; early versions show them
)
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


def _show_version(is_given: bool) -> None:
    if is_given:
        from stream_icd.core.version import __version__

        say(f"stream-icd {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Check the environment before a command runs."""
    if not any(name.upper().startswith("STREAM_ICD_") for name in os.environ):
        return
    from stream_icd.commands.cli.environment import check_environment

    for warning in check_environment(os.environ):
        say(f"warning: {warning}", err=True)


def _prepare_output() -> None:
    """Make standard output take all that is written, whatever it is and in any locale."""
    if sys.stdout is None:  # as started with `>&-`; else a connection would get its number
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        # With PYTHONUNBUFFERED, the rest of a write that a signal cuts short would be lost. What a
        # program that calls this put in its place stays its own.
        if sys.stdout is sys.__stdout__ and isinstance(sys.stdout.buffer, RawIOBase):
            encoding, raw = sys.stdout.encoding, sys.stdout.detach()
            sys.stdout = TextIOWrapper(BufferedWriter(raw), encoding, line_buffering=True)
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error does


def main() -> None:
    """Run the command line. An expected error becomes one line of advice and an exit status."""
    _prepare_output()
    try:
        app()
    except StreamIcdError as error:
        # Further lines are indented, so that no name with a line feed looks like a message.
        first, *more = f"{type(error).__name__}: {error}".split("\n")
        say(first, *(f"  {line}" for line in more), err=True)
        raise SystemExit(_EXIT_CODES[error.action]) from error
    except OSError as error:
        if error.errno not in _OS_EXIT_CODES:
            raise
        say(f"OSError: {error}", err=True)
        if error.errno == ENOSPC:  # else Python tries to write the rest when it ends
            with suppress(OSError):
                sys.stdout.close()
        raise SystemExit(_OS_EXIT_CODES[error.errno]) from error
