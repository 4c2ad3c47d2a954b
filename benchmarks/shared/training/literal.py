"""The paper's recipe for a set of graphs to train on."""

from __future__ import annotations

from benchmarks.shared.graphs.training_sets import TrainingSet
from benchmarks.shared.training.published import as_scripts
from stream_icd.methods.icd import presets
from stream_icd.methods.icd.recipe import Recipe, Variant

ROWS = 128
"""Rows of X in a step on small graphs, sampled anew: an unbiased estimate of FR and CR."""


def literal(graphs: TrainingSet, variant: Variant = "ICD-M") -> Recipe:
    """The paper's recipe at the set's widths, with rows of length 1 as in the authors' scripts."""
    recipe = as_published(graphs.preset, variant)
    if graphs.widths is None:
        return recipe
    return recipe.changed(
        encoder={"widths": graphs.widths},
        discriminator_widths=(graphs.widths[-1], 32, 16, 1),
        losses={"rows": ROWS},
    )


def as_published(name: str, variant: Variant = "ICD-M") -> Recipe:
    """The paper's recipe at full size, with rows of length 1, and the fast K-means."""
    recipe = presets.as_published(presets.preset(name, variant))
    recipe = as_scripts(recipe, "row-normalisation")
    return recipe.changed(clustering="fast")
