"""Differences between the paper, its authors' scripts and this library, option by option.

Paper: Qin, Zhang, Bai, Zhang, Yeung. Scripts: github.com/KuroginQin/ICD. Three differences need no
option, since the values are the same. X and Z are dense there, and sparse plus rank one here.
A⁽ᵍ⁾ = R Rᵀ is dense there, and implicit here. Heavy-edge matching there loops forever when no edges
are left. Their NCut is in `lab/ncut_within.py`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from stream_icd.icd.recipe import Recipe


class Option(NamedTuple):
    """One setting of a recipe that may differ from the paper."""

    place: str  # in the recipe, such as encoder.smoothing
    paper: Any
    scripts: Any
    source: str  # the file of the scripts, and what it does

    def value(self, recipe: Recipe) -> Any:
        """The value in a recipe."""
        return attrgetter(self.place)(recipe)


OPTIONS = {
    "coarsening": Option(
        "encoder.coarsening_exponent", -0.5, 0.5, "modules/feat_ext.py: multiplies by √|v*|"
    ),
    "row-normalisation": Option(
        "encoder.normalise_rows", False, True, "modules/layers.py: F.normalize, every layer"
    ),
    "initialisation": Option("encoder.initialisation", "xavier", "xavier", "modules/layers.py"),
    "smoothing": Option("encoder.smoothing", 0, 0, "modules/models.py"),
    "optimiser": Option(
        "optimiser.kind", "adam", "rmsprop", "ICD_M_*_demo.py: RMSprop; Adam commented out"
    ),
    "weight-decay": Option(
        "optimiser.weight_decay", 0.0, 1e-5, "ICD_M_*_demo.py: weight_decay=1e-5"
    ),
    "idle-epoch": Option(
        "schedule.idle_first_epoch", False, True, "ICD_M_*_demo.py: epoch 0 updates nothing"
    ),
    "scaled-structure": Option(
        "losses.scaled_structure", False, True, "utils.py: m_norm, X to [-1, 1] for FR"
    ),
    "discriminator-loss": Option(
        "losses.discriminator", "paper", "scripts", "modules/loss.py: no log(1 − D)"
    ),
    "rows": Option("losses.rows", None, None, "modules/loss.py"),
    "k-means": Option(
        "clustering", "scikit-learn", "scikit-learn", "ICD_M_*_demo.py: KMeans(n_init=10)"
    ),
}
"""Every option whose value differs between the paper, the scripts and this library, by name."""


def deviations(recipe: Recipe) -> dict[str, str]:
    """Each option of a recipe that differs from the paper, with its value and whose that is."""
    found: dict[str, str] = {}
    for option in OPTIONS.values():
        value = option.value(recipe)
        if value != option.paper:
            theirs = value == option.scripts
            whose = f"authors' scripts, {option.source}" if theirs else "ours"
            found[option.place] = f"{value} (paper: {option.paper}); {whose}"
    return found
