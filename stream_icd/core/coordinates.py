"""Where the nodes of a snapshot are: on the Earth, or on any plane. Only pictures use it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats
from stream_icd.core.errors import BadSnapshot

DEGREES = "OGC:CRS84"
"""Coordinate reference system: x is the longitude and y the latitude, in degrees (WGS 84)."""
_FARTHEST = 1e15
"""Greatest absolute value of a coordinate on a plane."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """The places of all nodes of a snapshot, both NaN where one is not known."""

    x: Floats  # (n_nodes,)
    y: Floats  # (n_nodes,)
    crs: str = ""  # coordinate reference system: `DEGREES`; else a plane, with any unit

    @classmethod
    def of_rows(
        cls,
        node: NDArray[np.integer],
        n_nodes: int,
        x: Floats | None,
        y: Floats | None,
        crs: str,
    ) -> Coordinates | None:
        """Return the places of nodes from rows that name some; None if no row names one.

        Each array is `(n_rows,)`; x and y are NaN in rows that name none. Raises `BadSnapshot` if
        one is missing, out of range, or two rows name different places of a node.
        """
        if x is None and y is None:
            return None
        if x is None or y is None:
            raise BadSnapshot("a place has two coordinates: give both x and y, or none")
        columns = x + 0.0, y + 0.0  # -0.0 and 0.0 become the same bytes
        named = ~np.isnan(columns[0])
        if not np.array_equal(named, ~np.isnan(columns[1])):
            raise BadSnapshot("x and y are the place of a node: give both in a row, or none")
        if not named.any():
            return None
        at = node[named]
        places = np.full((2, n_nodes), np.nan)
        ranges = (180.0, 90.0) if crs == DEGREES else (_FARTHEST, _FARTHEST)
        for name, column, most, place in zip("xy", columns, ranges, places, strict=True):
            stated = column[named]
            far = stated[np.abs(stated) > most]
            if len(far):
                raise BadSnapshot(f"{name} is {far[0]:g}; it must be {-most:g} to {most:g}")
            place[at] = stated
            if not np.array_equal(place[at], stated):
                raise BadSnapshot("a node has two different places in x and y; give each node one")
        return cls(places[0], places[1], crs)

    @property
    def known(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.x)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coordinates):
            return NotImplemented
        return (
            self.crs == other.crs
            and np.array_equal(self.x, other.x, equal_nan=True)
            and np.array_equal(self.y, other.y, equal_nan=True)
        )
