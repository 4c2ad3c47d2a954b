"""The parameters of bp, learned from labelled graphs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from zlib import crc32

from stream_icd.core.errors import BadSettings
from stream_icd.methods.graphs.weights import EXPONENT

_MOST_PASSES = 1000
"""Maximum number of iterations or sweeps: more find nothing, and time must stay bounded."""


@dataclass(frozen=True)
class BpParameters:
    """Settings of `find_communities`; the defaults are for unknown graphs.

    mixing: μ, the fraction of edge weight between communities, in (0, 1): belief propagation
        follows the local moves and learns μ from each graph. None: modularity decides.
    search: description length chooses the resolution and the method for each graph (`find`);
        `resolution`, `mixing`, `size_spread` and `iterations` are not used.
    stay: η in [0, 1), the probability that a node stays in its community from one window of a
        stream to the next; 0: each window is clustered alone. It is the initial value, which each
        window corrects: of the weight of what is known in belief propagation, and of how fast
        nodes without edges are forgotten (`posterior`).
    """

    resolution: float = 1.0  # γ of the modularity that local moves maximise, above 0
    mixing: float | None = None
    size_spread: float = 1.0  # s in [0, 1], how much sizes differ: 0 not at all, 1 in any way
    iterations: int = 10  # of local moves over all levels, at most
    sweeps: int = 8  # of belief propagation, at most
    weight_exponent: float = EXPONENT  # in [0, 1] (`comparable`): 0 ignores the weights
    search: bool = False
    stay: float = 0.5

    def __post_init__(self) -> None:
        # Types first: a text would raise a TypeError in the comparisons below.
        for name in ("resolution", "mixing", "size_spread", "weight_exponent", "stay"):
            value = getattr(self, name)
            if not (_is_number(value) or (name == "mixing" and value is None)):
                raise BadSettings(f"{name} must be a number, not {value!r}")
        a_count = f"a whole number from 1 to {_MOST_PASSES}"
        for name, allowed, fits in (
            ("resolution", "positive and finite", 0 < self.resolution < inf),
            ("mixing", "None or between 0 and 1", self.mixing is None or 0 < self.mixing < 1),
            ("size_spread", "in 0..1", 0 <= self.size_spread <= 1),
            ("iterations", a_count, _is_count(self.iterations)),
            ("sweeps", a_count, _is_count(self.sweeps)),
            ("weight_exponent", "in 0..1", 0 <= self.weight_exponent <= 1),
            ("search", "true or false", isinstance(self.search, bool)),
            ("stay", "at least 0 and below 1", 0 <= self.stay < 1),
        ):
            if not fits:
                raise BadSettings(f"{name} must be {allowed}, not {getattr(self, name)!r}")

    @classmethod
    def as_weighted(cls, resolution: float) -> BpParameters:
        """For graphs whose weights say what each edge counts, as those of the encoder `edges`.

        resolution: that of modularity, if one was learned for such graphs; 0: search for it.
        """
        return cls(resolution or 1.0, search=not resolution, weight_exponent=1)

    @cached_property
    def checksum(self) -> int:
        """Differs for other parameters, with a probability of nearly 1; 31 bits."""
        return crc32(repr(self).encode()) >> 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 1 <= value <= _MOST_PASSES
