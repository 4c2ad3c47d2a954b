"""Commands that are declared as data: the fields of a class are the options.

`@command(app, "mine")` above a class makes the command; its docstring is the help. `@options` makes
a class of options that several commands inherit. A field is an `option(...)`, an `argument(...)` or
annotated as a parameter of a typer command would be.
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args

import typer
from typer.core import TyperCommand

from stream_icd.core.errors import BadSettings

_SHOWN = "shown"
"""Where the metadata of a field have what makes its `typer.Option` or `typer.Argument`."""

_Options = TypeVar("_Options")
_Value = TypeVar("_Value")


def option(default: _Value, help: str, *names: str, **rules: Any) -> _Value:
    """Declare a field that is an option.

    Args:
        names: of the option, such as `--from`. Default: that of the field; a flag then has no
            negation, `--no-NAME`.
        rules: further arguments of `typer.Option`, such as `min`.
    """
    return field(
        default=default, metadata={_SHOWN: partial(typer.Option, *names, help=help, **rules)}
    )


def argument(help: str, *, default: Any = MISSING, **rules: Any) -> Any:
    """Declare a field that is an argument of the command line, required without a default."""
    return field(default=default, metadata={_SHOWN: partial(typer.Argument, help=help, **rules)})


def path(text: str | Path) -> Path:
    """Return the path of an option; refuse an empty one, as by an unset variable, and `-`.

    Raises `OSError` if nobody may look there: `Path.exists` of Python 3.14 says that nothing is.
    """
    if text == "":
        raise BadSettings("the path of a file or folder is empty: give one, or . for this folder")
    if text == "-":
        raise BadSettings("- is not standard input or output here: give a path, such as ./-")
    with suppress(FileNotFoundError, NotADirectoryError):
        Path(text).stat()
    return Path(text)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(argument,))
def options(declared: type[_Options]) -> type[_Options]:
    """Make a class a frozen dataclass whose fields are options."""
    types = inspect.get_annotations(declared, eval_str=True)
    for name, kind in types.items():
        shown = getattr(vars(declared).get(name), "metadata", {}).get(_SHOWN)
        if shown is not None:
            if Path in (kind, *get_args(kind)):
                shown = partial(shown, parser=path)
            names = [f"--{name.replace('_', '-')}"] if kind is bool and not shown.args else []
            types[name] = Annotated[kind, shown(*names)]
    declared.__annotations__ = types
    return dataclass(frozen=True, kw_only=True)(declared)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(argument,))
def command(app: typer.Typer, name: str) -> Callable[[type[_Options]], type[_Options]]:
    """Make a class a frozen dataclass, and a command of the app that calls its method `run`."""

    def made(declared: type[_Options]) -> type[_Options]:
        return app.command(name, cls=_Declared)(options(declared))

    return made


class _Declared(TyperCommand):
    """A command whose callback is a dataclass of options: makes one of them, and runs it.

    What is required comes first; then its own options, and those that it shares with others.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        callback: Any = self.callback
        bases = inspect.getmro(inspect.unwrap(callback))
        order = [name for base in bases for name in inspect.get_annotations(base)]
        self.params.sort(key=lambda param: (not param.required, order.index(param.name)))

    def invoke(self, ctx: Any) -> Any:
        return super().invoke(ctx).run()
