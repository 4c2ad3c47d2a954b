"""Recipes as the scripts of the paper's authors train."""

from __future__ import annotations

from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.presets import OPTIONS
from stream_icd.methods.icd.recipe import Recipe


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
        recipe = OPTIONS[name].changed(recipe, OPTIONS[name].scripts)
    return recipe
