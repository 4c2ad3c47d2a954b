"""Commands that are declared as data: the fields of a class are the options.

A field is annotated as a parameter of a typer command would be. `@command(app, "mine")` above the
class makes the command; its docstring is the help.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import typer
from typer.core import TyperCommand

from stream_icd.programs.options import Sending, SendOptions

if TYPE_CHECKING:
    from stream_icd.programs.producer import ProducerRun
    from stream_icd.sources.source import Source


class Declared(TyperCommand):
    """A command whose callback is a dataclass of options: makes one of them, and runs it.

    Its own options come before those that it shares with others.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = getattr(self.callback, "__annotations__", {})
        self.params.sort(key=lambda param: param.name not in own)

    def invoke(self, ctx: Any) -> Any:
        return super().invoke(ctx).run()


Options = TypeVar("Options")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def command(app: typer.Typer, name: str) -> Callable[[type[Options]], type[Options]]:
    """Make a class a frozen dataclass, and a command of the app that calls its method `run`."""

    def declared(options: type[Options]) -> type[Options]:
        made = dataclass(frozen=True, kw_only=True)(options)
        app.command(name, cls=Declared)(made)
        return made

    return declared


class Producer(Sending):
    """The options of a producer, and the source that they describe."""

    def open(self, run: "ProducerRun") -> "Source":
        """Open the source of snapshots; see `run_producer`."""
        raise NotImplementedError

    def run(self) -> None:
        """Send the snapshots of the source; see `run_producer`."""
        from stream_icd.programs.producer import run_producer

        run_producer(self.open, self)


class ReadingProducer(Producer, SendOptions):
    """The options of a producer that reads rows."""
