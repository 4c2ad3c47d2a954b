"""The few numbers that bp learns from labelled graphs."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.errors import BadSettings
from stream_icd.graphs.weights import EXPONENT

STAY = 0.5
"""Of the stay probability, where nothing better was learned."""

MOST_PASSES = 1000
"""Above this, more of them find nothing, and a model would buy time without end."""


@dataclass(frozen=True)
class BpParameters:
    """Settings of `find_communities`; the defaults are for graphs of which nothing is known.

    resolution:  γ of the modularity that local moves maximise, above 0.
    mixing:      μ, the share of edge weight between communities, in (0, 1): belief propagation
                 follows the local moves, and corrects μ by what each graph shows. None: it does
                 not follow, and modularity has the last word.
    size_spread: s in [0, 1], how much the sizes of communities differ: 0 equal, 1 any size.
    iterations:  passes of local moves over all levels at most, 1 to 1,000.
    sweeps:      sweeps of belief propagation at most, 1 to 1,000.
    weight_exponent: in [0, 1], of the edge weights (`comparable`): 0 ignores them, 1 keeps their
                 proportions.
    scale:       nodes for each unit of resolution, above 0: each graph decides between modularity
                 at `resolution` and belief propagation that starts at the resolution n / scale
                 (`by_description`). None: the resolution is that of the model.
    stay:        η in [0, 1), how probable it is that a node stays in its community from one window
                 of a stream to the next; 0: each window is found alone. Where beliefs follow, it
                 is where each stream starts, and corrected by what each window shows. Where
                 modularity decides, its odds are the pull of the past (`remember`).
    """

    resolution: float = 1.0
    mixing: float | None = None
    size_spread: float = 1.0
    iterations: int = 10
    sweeps: int = 8
    weight_exponent: float = EXPONENT
    scale: float | None = None
    stay: float = STAY

    def __post_init__(self) -> None:
        for name in ("resolution", "mixing", "size_spread", "weight_exponent", "scale", "stay"):
            value = getattr(self, name)
            if not (_is_number(value) or (name in ("mixing", "scale") and value is None)):
                raise BadSettings(f"{name} must be a number, not {value!r}")
        if not 0 < self.resolution < float("inf"):
            raise BadSettings(f"resolution must be positive and finite, not {self.resolution}")
        if self.mixing is not None and not 0 < self.mixing < 1:
            raise BadSettings(f"mixing must be None or between 0 and 1, not {self.mixing}")
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise BadSettings(f"scale must be None or positive and finite, not {self.scale}")
        if self.scale is not None and self.mixing is None:
            raise BadSettings("scale needs a mixing: belief propagation follows")
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
