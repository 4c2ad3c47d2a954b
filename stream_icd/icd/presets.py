"""The paper's own recipes, one a data set and variant (section 5 and appendix B)."""

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


class _Widths(NamedTuple):
    generator: tuple[int, ...]
    discriminator: tuple[int, ...]


class _Tuning(NamedTuple):
    alpha: float
    beta: float
    repeats: int
    samples: int
    learning_rate: float


_GN = _Widths((2048, 1024, 512), (512, 128, 64, 16, 1))
_LFR = _Widths((4096, 2048, 512, 256), (256, 128, 64, 16, 1))
_TAXI = _Widths((1024, 512, 256), (256, 64, 32, 16, 1))
_REDDIT = _Widths((2048, 1024, 512, 256, 100), (100, 64, 16, 1))
_AS = _Widths((6000, 4096, 2048, 1024, 512, 256), (256, 128, 64, 16, 1))
_ENRON = _Widths((1024, 512, 256), (256, 128, 64, 16, 1))

_TABLE: dict[str, tuple[_Widths, dict[Variant, _Tuning]]] = {
    "GN-0.3": (
        _GN,
        {"ICD-M": _Tuning(1, 5, 1, 1000, 5e-4), "ICD-C": _Tuning(1, 1, 1, 1000, 1e-4)},
    ),
    "GN-0.4": (
        _GN,
        {"ICD-M": _Tuning(1, 1, 1, 1000, 5e-4), "ICD-C": _Tuning(1, 1, 1, 1000, 1e-4)},
    ),
    "L(f,0.3)": (
        _LFR,
        {"ICD-M": _Tuning(1, 1, 1, 1000, 5e-4), "ICD-C": _Tuning(1, 100, 5, 1000, 1e-4)},
    ),
    "L(f,0.6)": (
        _LFR,
        {"ICD-M": _Tuning(1, 3, 1, 1000, 1e-4), "ICD-C": _Tuning(1, 1000, 2, 1000, 5e-5)},
    ),
    "L(n,0.3)": (
        _LFR,
        {"ICD-M": _Tuning(1, 1, 1, 1000, 5e-4), "ICD-C": _Tuning(1, 100, 5, 1000, 1e-4)},
    ),
    "L(n,0.6)": (
        _LFR,
        {"ICD-M": _Tuning(1, 3, 1, 1000, 1e-4), "ICD-C": _Tuning(1, 1000, 2, 1000, 5e-5)},
    ),
    "Taxi": (
        _TAXI,
        {"ICD-M": _Tuning(1, 0.1, 1, 2000, 5e-5), "ICD-C": _Tuning(1, 100, 1, 2000, 5e-5)},
    ),
    "Reddit": (
        _REDDIT,
        {"ICD-M": _Tuning(1, 0.1, 1, 1000, 5e-5), "ICD-C": _Tuning(1, 0.1, 1, 1000, 5e-5)},
    ),
    "AS": (
        _AS,
        {"ICD-M": _Tuning(1, 0.1, 1, 500, 5e-5), "ICD-C": _Tuning(1, 100, 1, 500, 5e-5)},
    ),
    "Enron": (
        _ENRON,
        {"ICD-M": _Tuning(1, 5, 1, 300, 5e-5), "ICD-C": _Tuning(1, 100, 1, 300, 5e-5)},
    ),
}

PRESETS = tuple(_TABLE)
"""Names of the paper's data sets, each with a recipe for ICD-M and one for ICD-C."""


def preset(data_set: str, variant: Variant = "ICD-M") -> Recipe:
    """The paper's recipe for one of its data sets.

    Raises:
        BadSettings: no such data set.

    >>> preset("GN-0.3").encoder.widths
    (2048, 1024, 512)
    """
    if data_set not in _TABLE:
        raise BadSettings(f"no recipe for {data_set!r}; there are {', '.join(PRESETS)}")
    widths, tunings = _TABLE[data_set]
    tuning = tunings[variant]
    return Recipe(
        name=data_set,
        variant=variant,
        encoder=EncoderSettings(widths=widths.generator),
        discriminator_widths=widths.discriminator,
        losses=LossSettings(alpha=tuning.alpha, beta=tuning.beta),
        optimiser=OptimiserSettings(learning_rate=tuning.learning_rate),
        schedule=ScheduleSettings(samples=tuning.samples, repeats=tuning.repeats),
    )
