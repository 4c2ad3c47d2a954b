"""Where the authors' published scripts differ from their paper, as changes to a recipe.

Paper: Qin, Zhang, Bai, Zhang, Yeung. Scripts: github.com/KuroginQin/ICD. Three of their rows
need no option, since ours gives the same values: X and Z are dense there and sparse plus rank
one here, A⁽ᵍ⁾ = R Rᵀ is dense there and implicit here, and heavy-edge matching would loop for
ever there when edges run out. The two forms of NCut are in `stream_icd.quality.ncut`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_icd.errors import BadSettings
from stream_icd.icd.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the scripts do otherwise.

    Attributes:
        group, option: where in a recipe it is said; group is "" at the top.
        paper: the value that the paper describes.
        scripts: the value that the scripts use.
        source: the file of the scripts, and what is seen there.
    """

    group: str
    option: str
    paper: Any
    scripts: Any
    source: str

    def value(self, recipe: Recipe) -> Any:
        """What a recipe says."""
        holder = getattr(recipe, self.group) if self.group else recipe
        return getattr(holder, self.option)

    def changes(self) -> dict[str, Any]:
        """What to give `Recipe.changed` to do as the scripts."""
        change = {self.option: self.scripts}
        return {self.group: change} if self.group else change


DIFFERENCES: dict[str, Difference] = {
    "coarsening": Difference(
        "encoder", "coarsening_exponent", -0.5, 0.5, "modules/feat_ext.py: multiplies by √|v*|"
    ),
    "row-normalisation": Difference(
        "encoder", "normalise_rows", False, True, "modules/layers.py: F.normalize, every layer"
    ),
    "optimiser": Difference(
        "optimiser", "kind", "adam", "rmsprop", "ICD_M_*_demo.py: RMSprop; Adam commented out"
    ),
    "weight-decay": Difference(
        "optimiser", "weight_decay", 0.0, 1e-5, "ICD_M_*_demo.py: weight_decay=1e-5"
    ),
    "idle-epoch": Difference(
        "schedule", "idle_first_epoch", False, True, "ICD_M_*_demo.py: epoch 0 updates nothing"
    ),
    "scaled-structure": Difference(
        "losses", "scaled_structure", False, True, "utils.py: m_norm, X to [-1, 1] for FR"
    ),
    "discriminator-loss": Difference(
        "losses", "discriminator", "paper", "scripts", "modules/loss.py: no log(1 − D)"
    ),
    "k-means": Difference(
        "", "clustering", "scikit-learn", "scikit-learn", "ICD_M_*_demo.py: KMeans(n_init=10)"
    ),
}
"""Every difference that an option can switch, by name."""

OURS: tuple[Difference, ...] = (
    Difference("encoder", "initialisation", "xavier", "xavier", "modules/layers.py"),
    Difference("encoder", "smoothing", 0, 0, "modules/models.py"),
    Difference("losses", "rows", None, None, "modules/loss.py"),
)
"""Options that neither the paper nor the scripts have another value for."""


def as_scripts(recipe: Recipe, *names: str) -> Recipe:
    """The recipe with these differences as the scripts have them; all of them if none is named.

    Raises:
        BadSettings: no such difference.

    >>> from stream_icd.icd.presets import preset
    >>> as_scripts(preset("GN-0.3"), "optimiser").optimiser.kind
    'rmsprop'
    """
    for name in names or DIFFERENCES:
        if name not in DIFFERENCES:
            raise BadSettings(f"no difference {name!r}; there are {', '.join(DIFFERENCES)}")
        recipe = recipe.changed(**DIFFERENCES[name].changes())
    return recipe


def deviations(recipe: Recipe) -> dict[str, str]:
    """Each option of a recipe that is not the paper's, and whose it is.

    The keys name the option, the values its value and source: the authors' scripts, or us.
    """
    found: dict[str, str] = {}
    for difference in (*DIFFERENCES.values(), *OURS):
        value = difference.value(recipe)
        if value == difference.paper:
            continue
        name = f"{difference.group}.{difference.option}".lstrip(".")
        theirs = value == difference.scripts
        whose = f"authors' scripts, {difference.source}" if theirs else "ours"
        found[name] = f"{value} (paper: {difference.paper}); {whose}"
    return found
