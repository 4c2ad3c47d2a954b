"""A recipe for each of the paper's data sets: the paper's values, and our choices by validation."""

from __future__ import annotations

from typing import NamedTuple

from stream_icd.errors import BadSettings
from stream_icd.icd.recipe import (
    EncoderSettings,
    LossSettings,
    OptimiserSettings,
    Recipe,
    ScheduleSettings,
)
from stream_icd.icd.structure import Variant


class _DataSet(NamedTuple):
    """Widths of G and D as in the paper; `normalise_rows` and `smoothing` by validation."""

    generator: tuple[int, ...]
    discriminator: tuple[int, ...]
    normalise_rows: bool
    smoothing: int


class _Tuning(NamedTuple):
    """The paper's α, β, m, p and η."""

    alpha: float
    beta: float
    repeats: int
    samples: int
    learning_rate: float


_GN = _DataSet((2048, 1024, 512), (512, 128, 64, 16, 1), True, 2)
_CLEAR_LFR = _DataSet((4096, 2048, 512, 256), (256, 128, 64, 16, 1), True, 2)
_MIXED_LFR = _CLEAR_LFR._replace(normalise_rows=False, smoothing=0)

_DATA_SETS = {
    "GN-0.3": _GN,
    "GN-0.4": _GN,
    "L(f,0.3)": _CLEAR_LFR,
    "L(f,0.6)": _MIXED_LFR,
    "L(n,0.3)": _CLEAR_LFR,
    "L(n,0.6)": _MIXED_LFR,
    "Taxi": _DataSet((1024, 512, 256), (256, 64, 32, 16, 1), True, 0),
    "Reddit": _DataSet((2048, 1024, 512, 256, 100), (100, 64, 16, 1), True, 1),
    "AS": _DataSet((6000, 4096, 2048, 1024, 512, 256), (256, 128, 64, 16, 1), True, 0),
    "Enron": _DataSet((1024, 512, 256), (256, 128, 64, 16, 1), True, 1),
}

_TUNINGS: dict[Variant, dict[str, _Tuning]] = {
    "ICD-M": {
        "GN-0.3": _Tuning(1, 5, 1, 1000, 5e-4),
        "GN-0.4": _Tuning(1, 1, 1, 1000, 5e-4),
        "L(f,0.3)": _Tuning(1, 1, 1, 1000, 5e-4),
        "L(f,0.6)": _Tuning(1, 3, 1, 1000, 1e-4),
        "L(n,0.3)": _Tuning(1, 1, 1, 1000, 5e-4),
        "L(n,0.6)": _Tuning(1, 3, 1, 1000, 1e-4),
        "Taxi": _Tuning(1, 0.1, 1, 2000, 5e-5),
        "Reddit": _Tuning(1, 0.1, 1, 1000, 5e-5),
        "AS": _Tuning(1, 0.1, 1, 500, 5e-5),
        "Enron": _Tuning(1, 5, 1, 300, 5e-5),
    },
    "ICD-C": {
        "GN-0.3": _Tuning(1, 1, 1, 1000, 1e-4),
        "GN-0.4": _Tuning(1, 1, 1, 1000, 1e-4),
        "L(f,0.3)": _Tuning(1, 100, 5, 1000, 1e-4),
        "L(f,0.6)": _Tuning(1, 1000, 2, 1000, 5e-5),
        "L(n,0.3)": _Tuning(1, 100, 5, 1000, 1e-4),
        "L(n,0.6)": _Tuning(1, 1000, 2, 1000, 5e-5),
        "Taxi": _Tuning(1, 100, 1, 2000, 5e-5),
        "Reddit": _Tuning(1, 0.1, 1, 1000, 5e-5),
        "AS": _Tuning(1, 100, 1, 500, 5e-5),
        "Enron": _Tuning(1, 100, 1, 300, 5e-5),
    },
}

PRESETS = tuple(_DATA_SETS)
"""Names of the paper's data sets, each with a recipe for ICD-M and one for ICD-C."""


def preset(data_set: str, variant: Variant = "ICD-M") -> Recipe:
    """The recipe for one of the paper's data sets.

    Widths, loss weights, learning rate and schedule are the paper's. Three settings were chosen by
    validation: orthogonal initial weights, whether rows are normalised, and smoothing (see
    `scripts.OPTIONS`).

    Raises:
        BadSettings: no such data set.

    >>> preset("GN-0.3").encoder.widths
    (2048, 1024, 512)
    """
    if data_set not in _DATA_SETS:
        raise BadSettings(f"no recipe for {data_set!r}: choose from {', '.join(PRESETS)}")
    shape, tuning = _DATA_SETS[data_set], _TUNINGS[variant][data_set]
    return Recipe(
        name=data_set,
        variant=variant,
        encoder=EncoderSettings(
            widths=shape.generator,
            initialisation="orthogonal",
            normalise_rows=shape.normalise_rows,
            smoothing=shape.smoothing,
        ),
        discriminator_widths=shape.discriminator,
        losses=LossSettings(alpha=tuning.alpha, beta=tuning.beta),
        optimiser=OptimiserSettings(learning_rate=tuning.learning_rate),
        schedule=ScheduleSettings(samples=tuning.samples, repeats=tuning.repeats),
    )
