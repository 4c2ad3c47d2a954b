"""Recipes as the paper describes training, or as its authors' scripts do it."""

from __future__ import annotations

from typing import Any

from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.presets import OPTIONS, Option
from stream_icd.methods.icd.recipe import Recipe


def as_paper(recipe: Recipe) -> Recipe:
    """The recipe with every option set as in the paper."""
    for option in OPTIONS.values():
        recipe = _with(recipe, option, option.paper)
    return recipe


def as_scripts(recipe: Recipe, *names: str) -> Recipe:
    """The recipe with these options set as in the authors' scripts; all options if none is named.

    Raises:
        BadSettings: no such option.

    >>> from stream_icd.methods.icd.presets import preset
    >>> as_scripts(preset("GN-0.3"), "optimiser").optimiser.kind
    'rmsprop'
    """
    for name in names or OPTIONS:
        if name not in OPTIONS:
            raise BadSettings(f"no option {name!r}: choose from {', '.join(OPTIONS)}")
        recipe = _with(recipe, OPTIONS[name], OPTIONS[name].scripts)
    return recipe


def _with(recipe: Recipe, option: Option, value: Any) -> Recipe:
    group, _, name = option.place.rpartition(".")
    return recipe.changed(**({group: {name: value}} if group else {name: value}))
