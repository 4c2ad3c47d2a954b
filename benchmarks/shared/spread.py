"""How a figure of several runs is shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def with_spread(values: Sequence[float] | NDArray[np.float64]) -> str:
    """The mean, and the standard deviation if there are several values.

    >>> with_spread([1.0, 2.0]), with_spread([3.0])
    ('1.5 ± 0.7', '3.0')
    """
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"
