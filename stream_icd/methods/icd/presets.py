"""A recipe for each of the paper's data sets, and how a recipe differs from the paper.

Paper: Qin, Zhang, Bai, Zhang, Yeung. Their scripts: github.com/KuroginQin/ICD. Three differences
need no option, since the values are the same. X and Z are dense there, and sparse plus rank one
here. A⁽ᵍ⁾ = R Rᵀ is dense there, and implicit here. Heavy-edge matching there loops forever when no
edges are left. Their NCut is in `benchmarks/lab/ncut_within.py`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.recipe import EDGES, UNTRAINED, EncoderSettings, Recipe, Variant


class _Networks(NamedTuple):
    """Widths of G and D as in the paper; `normalise_rows` and `smoothing` by validation."""

    generator: tuple[int, ...]
    discriminator: tuple[int, ...]
    normalise_rows: bool
    smoothing: int


_GN = _Networks((2048, 1024, 512), (512, 128, 64, 16, 1), True, 2)
_CLEAR_LFR = _Networks((4096, 2048, 512, 256), (256, 128, 64, 16, 1), True, 2)
_MIXED_LFR = _CLEAR_LFR._replace(normalise_rows=False, smoothing=0)
_TAXI = _Networks((1024, 512, 256), (256, 64, 32, 16, 1), True, 0)
_REDDIT = _Networks((2048, 1024, 512, 256, 100), (100, 64, 16, 1), True, 1)
_AS = _Networks((6000, 4096, 2048, 1024, 512, 256), (256, 128, 64, 16, 1), True, 0)
_ENRON = _Networks((1024, 512, 256), (256, 128, 64, 16, 1), True, 1)

_Tuning = tuple[float, int, float]

_DATA_SETS: dict[str, tuple[_Networks, int, _Tuning, _Tuning]] = {
    # networks, p, and the paper's β, m and η of ICD-M and of ICD-C; α is always 1
    "GN-0.3": (_GN, 1000, (5, 1, 5e-4), (1, 1, 1e-4)),
    "GN-0.4": (_GN, 1000, (1, 1, 5e-4), (1, 1, 1e-4)),
    "L(f,0.3)": (_CLEAR_LFR, 1000, (1, 1, 5e-4), (100, 5, 1e-4)),
    "L(f,0.6)": (_MIXED_LFR, 1000, (3, 1, 1e-4), (1000, 2, 5e-5)),
    "L(n,0.3)": (_CLEAR_LFR, 1000, (1, 1, 5e-4), (100, 5, 1e-4)),
    "L(n,0.6)": (_MIXED_LFR, 1000, (3, 1, 1e-4), (1000, 2, 5e-5)),
    "Taxi": (_TAXI, 2000, (0.1, 1, 5e-5), (100, 1, 5e-5)),
    "Reddit": (_REDDIT, 1000, (0.1, 1, 5e-5), (0.1, 1, 5e-5)),
    "AS": (_AS, 500, (0.1, 1, 5e-5), (100, 1, 5e-5)),
    "Enron": (_ENRON, 300, (5, 1, 5e-5), (100, 1, 5e-5)),
}

PRESETS = tuple(_DATA_SETS)
"""Names of the paper's data sets, each with a recipe for ICD-M and one for ICD-C."""


def preset(data_set: str, variant: Variant = "ICD-M") -> Recipe:
    """The recipe for one of the paper's data sets.

    Widths, loss weights, learning rate and schedule are the paper's. Three settings were chosen by
    validation: orthogonal initial weights, whether rows are normalised, and smoothing (see
    `OPTIONS`); and its K-means is `clustering.fast`. `as_published` has none of these.

    Raises:
        BadSettings: no such data set.

    >>> preset("GN-0.3").encoder.widths
    (2048, 1024, 512)
    """
    if data_set not in _DATA_SETS:
        raise BadSettings(f"no recipe for {data_set!r}: choose from {', '.join(PRESETS)}")
    networks, samples, of_m, of_c = _DATA_SETS[data_set]
    beta, repeats, learning_rate = of_m if variant == "ICD-M" else of_c
    encoder = EncoderSettings(
        widths=networks.generator,
        initialisation="orthogonal",
        normalise_rows=networks.normalise_rows,
        smoothing=networks.smoothing,
    )
    recipe = Recipe(
        name=data_set,
        variant=variant,
        encoder=encoder,
        discriminator_widths=networks.discriminator,
    )
    return recipe.changed(
        losses={"alpha": 1, "beta": beta},
        optimiser={"learning_rate": learning_rate},
        schedule={"samples": samples, "repeats": repeats},
    )


EDGES_NAME, NONE = "edges", "none"
"""What `--encoder` can be besides one of `PRESETS`."""


def encoder_recipe(name: str, variant: Variant = "ICD-M") -> Recipe:
    """The recipe that learns the encoder of this name.

    It is "edges", which learns from labels without torch, "none", which learns none, or one of
    `PRESETS`.

    Raises:
        BadSettings: no such encoder.
    """
    if name in (EDGES_NAME, NONE):
        return Recipe(
            name=name, variant=variant, encoder=EDGES if name == EDGES_NAME else UNTRAINED
        )
    if name not in PRESETS:
        choices = ", ".join((EDGES_NAME, NONE, *PRESETS))
        raise BadSettings(f"no recipe for {name!r}: choose from {choices}")
    return preset(name, variant)


class _Option(NamedTuple):
    """One setting of a recipe that may differ from the paper."""

    place: str  # in the recipe, such as encoder.smoothing
    paper: Any
    scripts: Any
    source: str  # the file of the scripts, and what it does

    def value(self, recipe: Recipe) -> Any:
        return attrgetter(self.place)(recipe)

    def changed(self, recipe: Recipe, value: Any) -> Recipe:
        *group, name = self.place.split(".")
        return recipe.changed(**({group[0]: {name: value}} if group else {name: value}))


OPTIONS = {
    "coarsening": _Option(
        "encoder.coarsening_exponent", -0.5, 0.5, "modules/feat_ext.py: multiplies by √|v*|"
    ),
    "row-normalisation": _Option(
        "encoder.normalise_rows", False, True, "modules/layers.py: F.normalize, every layer"
    ),
    "initialisation": _Option("encoder.initialisation", "xavier", "xavier", "modules/layers.py"),
    "smoothing": _Option("encoder.smoothing", 0, 0, "modules/models.py"),
    "optimiser": _Option(
        "optimiser.kind", "adam", "rmsprop", "ICD_M_*_demo.py: RMSprop; Adam commented out"
    ),
    "weight-decay": _Option(
        "optimiser.weight_decay", 0.0, 1e-5, "ICD_M_*_demo.py: weight_decay=1e-5"
    ),
    "idle-epoch": _Option(
        "schedule.idle_first_epoch", False, True, "ICD_M_*_demo.py: epoch 0 updates nothing"
    ),
    "scaled-structure": _Option(
        "losses.scaled_structure", False, True, "utils.py: m_norm, X to [-1, 1] for FR"
    ),
    "discriminator-loss": _Option(
        "losses.discriminator", "paper", "scripts", "modules/loss.py: no log(1 − D)"
    ),
    "rows": _Option("losses.rows", None, None, "modules/loss.py"),
    "k-means": _Option(
        "clustering", "scikit-learn", "scikit-learn", "ICD_M_*_demo.py: KMeans(n_init=10)"
    ),
}
"""Every option whose value differs between the paper, the scripts and this library, by name."""


def as_published(recipe: Recipe) -> Recipe:
    """The recipe with what the paper says for each of `OPTIONS`, such as Xavier's weights.

    >>> deviations(as_published(preset("L(f,0.6)")))
    {}
    """
    for option in OPTIONS.values():
        recipe = option.changed(recipe, option.paper)
    return recipe


def deviations(recipe: Recipe) -> dict[str, str]:
    """Each option of a recipe that differs from the paper, with its value and whose that is."""
    differences: dict[str, str] = {}
    for option in OPTIONS.values():
        value = option.value(recipe)
        if value != option.paper:
            theirs = value == option.scripts
            whose = f"authors' scripts, {option.source}" if theirs else "ours"
            differences[option.place] = f"{value} (paper: {option.paper}); {whose}"
    return differences
