"""The kinds of arrays that signatures name; each says its shape where it is used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers."""

Ids = NDArray[np.int64]
"""Ids, or positions: of nodes, communities or windows."""

Labels = NDArray[np.int32]
"""The community of each node, `(n,)`, 0 or higher."""
