"""Find methods: each file of a package that holds methods defines `METHODS`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from stream_icd.errors import BadSettings
from stream_icd.evaluation.method import Method
from stream_icd.suggest import did_you_mean

OWN = "stream_icd.evaluation.methods"
"""The package of the methods that `stream-icd evaluate` offers."""


def methods_in(*packages: str) -> dict[str, Method]:
    """All methods of these packages, by name, in the order of their files.

    Raises:
        BadSettings: two files define a method of the same name.
    """
    found: dict[str, Method] = {}
    for package in packages:
        path = import_module(package).__path__
        for file in sorted(one.name for one in iter_modules(path)):
            defined: dict[str, Method] = import_module(f"{package}.{file}").METHODS
            if twice := found.keys() & defined.keys():
                raise BadSettings(f"{package}.{file} defines a second method {min(twice)!r}")
            found |= defined
    return found


def chosen(names: Sequence[str], methods: dict[str, Method]) -> dict[str, Method]:
    """The methods of these names, in this order.

    Raises:
        BadSettings: a name is unknown.
    """
    for name in names:
        if name not in methods:
            hint = did_you_mean(name, methods)
            raise BadSettings(f"no method {name!r}{hint}: choose from {', '.join(methods)}")
    return {name: methods[name] for name in names}
