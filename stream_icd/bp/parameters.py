"""The parameters of bp, learned from labelled graphs."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from stream_icd.errors import BadSettings
from stream_icd.graphs.weights import EXPONENT

MOST_PASSES = 1000
"""Maximum number of iterations or sweeps: more find nothing, and time must stay bounded."""


@dataclass(frozen=True)
class BpParameters:
    """Settings of `find_communities`; the defaults are for unknown graphs.

    resolution:  γ of the modularity that local moves maximise, above 0.
    mixing:      μ, the fraction of edge weight between communities, in (0, 1): belief propagation
                 follows the local moves and learns μ from each graph. None: no belief propagation;
                 modularity decides.
    size_spread: s in [0, 1], how much the sizes of communities differ: 0 equal, 1 any size.
    iterations:  maximum passes of local moves over all levels, 1 to 1,000.
    sweeps:      maximum sweeps of belief propagation, 1 to 1,000.
    weight_exponent: in [0, 1], of the edge weights (`comparable`): 0 ignores them, 1 keeps their
                 proportions.
    search:      description length chooses the resolution and the method for each graph
                 (`find`); `resolution`, `mixing`, `size_spread` and `iterations` are
                 not used.
    stay:        η in [0, 1), the probability that a node stays in its community from one window of
                 a stream to the next; 0: each window is clustered alone. It is the initial value,
                 which each window corrects: of the weight of what is known in belief propagation,
                 and of how fast nodes without edges are forgotten (`posterior`).
    """

    resolution: float = 1.0
    mixing: float | None = None
    size_spread: float = 1.0
    iterations: int = 10
    sweeps: int = 8
    weight_exponent: float = EXPONENT
    search: bool = False
    stay: float = 0.5

    def __post_init__(self) -> None:
        for name in ("resolution", "mixing", "size_spread", "weight_exponent", "stay"):
            value = getattr(self, name)
            if not (_is_number(value) or (name == "mixing" and value is None)):
                raise BadSettings(f"{name} must be a number, not {value!r}")
        if not 0 < self.resolution < float("inf"):
            raise BadSettings(f"resolution must be positive and finite, not {self.resolution}")
        if self.mixing is not None and not 0 < self.mixing < 1:
            raise BadSettings(f"mixing must be None or between 0 and 1, not {self.mixing}")
        if not isinstance(self.search, bool):
            raise BadSettings(f"search must be true or false, not {self.search!r}")
        for name in ("size_spread", "weight_exponent"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadSettings(f"{name} must be in 0..1, not {getattr(self, name)}")
        if not 0 <= self.stay < 1:
            raise BadSettings(f"stay must be at least 0 and below 1, not {self.stay}")
        for name in ("iterations", "sweeps"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= MOST_PASSES:
                raise BadSettings(
                    f"{name} must be a whole number from 1 to {MOST_PASSES}, not {value!r}"
                )

    @property
    def checksum(self) -> int:
        """Differs for other parameters, with a probability of nearly 1; 31 bits."""
        return crc32(repr(self).encode()) >> 1


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
