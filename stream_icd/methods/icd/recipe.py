"""A recipe: everything needed to train a model again; frozen, typed and validated on creation."""

from __future__ import annotations

import hashlib
import reprlib
import tomllib
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from stream_icd.core.errors import BadSettings

Variant = Literal["ICD-M", "ICD-C"]
"""Which X: the modularity matrix (ICD-M) or the normalised-cut one (ICD-C)."""

Clustering = Literal["fast", "scikit-learn"]
Initialisation = Literal["xavier", "orthogonal", "hadamard"]

_Width = Annotated[int, Field(ge=1, le=2**16)]
_Whole = Annotated[int, Field(ge=0, lt=2**63)]  # as TOML has them
_Positive = Annotated[int, Field(ge=1, lt=2**63)]
_Widths = Annotated[tuple[_Width, ...], Field(min_length=2, max_length=16)]
_MOST_WEIGHTS = 2**28
"""Maximum number of an encoder's weights: 1 GiB, eight times the paper's largest model."""


class _Settings(BaseModel):
    """Frozen settings without unknown names; an invalid value raises BadSettings that names it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="wrap")
    @classmethod
    def _raise_bad_settings(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadSettings(
                f"{cls.__name__.lstrip('_')} {where}: {first['msg']} (got {_short(first['input'])})"
            ) from error


def _short(value: object) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # an integer that Python does not write out: TOML has hexadecimal ones
        return "a number of thousands of digits"


class EncoderSettings(_Settings):
    """Settings of the encoder G, which embeds a graph.

    Attributes:
        widths: L, the hidden widths, and the width d of the embedding.
        initialisation: initial weights. "orthogonal": orthonormal columns, up to 8 points of NMI
            better on validation graphs before training. "hadamard": equally good columns of
            ±1/√width; a seed reproduces them on every machine, so an untrained model stores no
            weights. "xavier": uniform weights, as in the authors' scripts.
        normalise_rows: scale each row to length 1 after every layer. The authors' scripts do
            (modules/layers.py); the paper does not mention it.
        smoothing: number of extra averagings of the final embedding over each node's neighbourhood
            (U ← D̂^-½ Â D̂^-½ U, rows to length 1 if `normalise_rows`): more hops without more
            weights. 0 in the paper.
        coarsening_exponent: of |v*| in the coarsening matrix: -0.5 in the paper (section 4.1), +0.5
            in the authors' scripts (modules/feat_ext.py).
    """

    kind: Literal["gcn", "gat", "gin", "hops", "edges"] = "gcn"
    widths: _Widths
    initialisation: Initialisation = "orthogonal"
    normalise_rows: bool = True
    smoothing: Annotated[int, Field(ge=0, le=100)] = 0
    coarsening_exponent: Annotated[float, Field(ge=-1, le=1)] = -0.5

    @property
    def n_features(self) -> int:
        """L: number of columns of the reduced features."""
        return self.widths[0]

    @model_validator(mode="after")
    def _fits_into_memory(self) -> Self:
        # Before a weight is made: a recipe from a stranger must not take all memory.
        squares = sum(width**2 for width in self.widths[1:]) if self.kind == "gin" else 0
        n_weights = squares + sum(n_in * n_out for n_in, n_out in pairwise(self.widths))
        if n_weights > _MOST_WEIGHTS:
            raise BadSettings(
                f"widths {self.widths} make {n_weights} weights; give at most {_MOST_WEIGHTS}"
            )
        return self


UNTRAINED = EncoderSettings(kind="hops", widths=(4096, 512), initialisation="hadamard")
"""The encoder of a recipe that names none: on validation graphs of each kind the best one that is
not trained (docs/measured/icd.md)."""

EDGES = EncoderSettings(kind="edges", widths=(4096, 64), initialisation="hadamard")
"""The encoder that learns from labels without torch (docs/measured/encoder.md)."""


class _LossSettings(_Settings):
    """The losses that training minimises (paper, section 4.2).

    Attributes:
        adversarial: whether AL is part of G's loss; the weight is 1 in the paper, 0 in an ablation.
        alpha, beta: weights of feature reconstruction (FR) and clustering regularisation (CR).
        discriminator: D's loss. "paper": −mean log D(Uᵍ) − mean log(1 − D(U)). "scripts":
            mean log D(U) − mean log D(Uᵍ) (modules/loss.py).
        scaled_structure: min-max scale X to [-1, 1] for FR, as the authors' scripts do (m_norm).
        rows: number of rows of X for FR and CR in one step, sampled anew each time and weighted to
            represent all rows; None for all rows.
    """

    adversarial: bool = True
    alpha: Annotated[float, Field(ge=0)] = 1.0
    beta: Annotated[float, Field(ge=0)] = 1.0
    discriminator: Literal["paper", "scripts"] = "paper"
    scaled_structure: bool = False
    rows: _Positive | None = None


class _OptimiserSettings(_Settings):
    """How weights are updated: Adam in the paper, RMSprop and 1e-5 in the authors' scripts."""

    kind: Literal["adam", "rmsprop"] = "adam"
    learning_rate: Annotated[float, Field(gt=0)] = 1e-4
    weight_decay: Annotated[float, Field(ge=0)] = 0.0


class _ScheduleSettings(_Settings):
    """The length of the training (paper, algorithm 2)."""

    epochs: _Whole = 100  # rounds of training, each with a validation
    samples: _Positive = 1000  # p, graphs drawn with replacement in an epoch, one per step
    repeats: _Positive = 1  # m, updates of D and G for each graph drawn
    idle_first_epoch: bool = False  # update nothing in the first epoch, as the scripts do


class Recipe(_Settings):
    """How to train a model.

    A model for bp needs a name only. A discriminator trains the encoder; without one, the encoder
    stays as its seed makes it, and `losses`, `optimiser` and `schedule` are not used.

    Raises:
        BadSettings: a value out of range, an unknown name, widths that do not fit together.
    """

    name: Annotated[str, Field(min_length=1)]  # what the model is for, such as "GN-0.3"
    variant: Variant = "ICD-M"  # which X the features and the losses use
    encoder: EncoderSettings = UNTRAINED
    discriminator_widths: _Widths | None = None  # from the embedding's width down to 1
    losses: _LossSettings = _LossSettings()
    optimiser: _OptimiserSettings = _OptimiserSettings()
    schedule: _ScheduleSettings = _ScheduleSettings()
    clustering: Clustering = "fast"  # or "scikit-learn" (n_init=10, float64) as the scripts do
    seed: _Whole = 0  # of every random choice
    split: tuple[float, float, float] = (0.8, 0.1, 0.1)  # training, validation, test, in order
    data: str = ""  # where the graphs come from
    every_kind: bool = False  # for graphs of every kind: each searches for its own resolution

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        first, *_, last = self.discriminator_widths or (self.encoder.widths[-1], 1)
        if first != self.encoder.widths[-1]:
            raise BadSettings(
                f"the discriminator reads {first} columns, but the encoder writes "
                f"{self.encoder.widths[-1]}: make both equal"
            )
        if last != 1:
            raise BadSettings(f"the discriminator's last width is {last}; it must be 1")
        if min(self.split) < 0 or abs(sum(self.split) - 1) > 1e-9:
            raise BadSettings(f"split {self.split} must be fractions that add up to 1")
        return self

    @property
    def trains_encoder(self) -> bool:
        """Whether the paper's losses train the encoder."""
        return self.discriminator_widths is not None and self.schedule.epochs > 0

    @property
    def learns_edges(self) -> bool:
        """Whether the encoder is `edges`, which learns from labels (`learn_edges`)."""
        return self.encoder.kind == "edges"

    @property
    def encoder_stays(self) -> bool:
        """Whether nothing is learned but bp's parameters."""
        return not (self.trains_encoder or self.learns_edges)

    def changed(self, **changes: Any) -> Recipe:
        """This recipe with other values; for a group, give a dict of its changes.

        >>> recipe = Recipe(name="toy", encoder={"widths": (8, 4)}, discriminator_widths=(4, 1))
        >>> recipe.changed(losses={"alpha": 5}).losses.alpha
        5.0
        """
        values = self.model_dump()
        for name, change in changes.items():
            values[name] = {**values[name], **change} if isinstance(change, dict) else change
        # Validated anew: pydantic's own copy with changes checks nothing.
        return Recipe.model_validate(values)

    def values(self) -> dict[str, Any]:
        """The values of the recipe as its file has them, without None.

        Without a discriminator, only those that are not the defaults: a default never changes.
        """
        short = self.discriminator_widths is None
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=short)

    def digest(self) -> str:
        """Hash of the recipe without its number of epochs, so that a training can be extended."""
        whole = self.changed(schedule={"epochs": 0}).values()
        return hashlib.sha256(tomli_w.dumps(whole).encode()).hexdigest()

    @classmethod
    def from_toml(cls, content: bytes) -> Recipe:
        """Read a recipe's own TOML file, or the recipe in a saved model's `recipe.toml`.

        Raises `BadSettings` if it is no TOML, or not a valid recipe.
        """
        try:
            values = tomllib.loads(content.decode())
        except (ValueError, RecursionError) as error:  # from both decoders, and very long numbers
            raise BadSettings(f"the recipe is not TOML: {error}") from error
        return cls.model_validate(values.get("recipe", values))
