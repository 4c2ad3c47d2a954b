"""Where the nodes of a snapshot are: on the Earth, or on any plane. Only pictures use it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_icd.errors import BadSnapshot

DEGREES = "OGC:CRS84"
"""Coordinate reference system: x is the longitude and y the latitude, in degrees (WGS 84)."""
FARTHEST = 1e15
"""Greatest absolute value of a coordinate on a plane."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """The places of all nodes of a snapshot.

    Attributes:
        x, y: `(n_nodes,)`; both NaN where the place of a node is not known.
        crs: coordinate reference system: `DEGREES`; anything else is a plane, with any unit.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    crs: str = ""

    @property
    def known(self) -> NDArray[np.bool_]:
        """`(n_nodes,)`."""
        return ~np.isnan(self.x)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coordinates):
            return NotImplemented
        return (
            self.crs == other.crs
            and np.array_equal(self.x, other.x, equal_nan=True)
            and np.array_equal(self.y, other.y, equal_nan=True)
        )


def coordinates_of_rows(
    node: NDArray[np.integer], n_nodes: int, x: ArrayLike, y: ArrayLike, crs: str
) -> Coordinates | None:
    """Return the places of nodes from rows that name some; None if no row names one.

    Args:
        node: the node of each row, `(n_rows,)`, from 0 to n_nodes - 1.
        x, y: its place, `(n_rows,)`; both null or NaN in rows that name none.

    Raises:
        BadSnapshot: a row has only one coordinate, a coordinate is out of range, or two rows name
            different places of one node.
    """
    # Adding 0 makes -0.0 and 0.0 the same bytes.
    given = [numbers(name, one, len(node)) + 0.0 for name, one in (("x", x), ("y", y))]
    named = ~np.isnan(given[0])
    if not np.array_equal(named, ~np.isnan(given[1])):
        raise BadSnapshot("x and y are the place of a node: give both in a row, or none")
    if not named.any():
        return None
    ranges = (180.0, 90.0) if crs == DEGREES else (FARTHEST, FARTHEST)
    for name, one, most in zip("xy", given, ranges, strict=True):
        far = np.flatnonzero(np.abs(one[named]) > most)
        if len(far):
            raise BadSnapshot(f"{name} is {one[named][far[0]]:g}; it must be {-most:g} to {most:g}")
    at = node[named]
    found = np.full((2, n_nodes), np.nan)
    for place, one in zip(found, given, strict=True):
        place[at] = one[named]
        if not np.array_equal(place[at], one[named]):
            raise BadSnapshot("a node has two different places in x and y; give each node one")
    return Coordinates(found[0], found[1], crs)


def numbers(name: str, values: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """Return a column of the pairs, `(n_rows,)`, as numbers.

    Raises:
        BadSnapshot: it is none, or has another length.
    """
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadSnapshot(f"{name} is not a column of numbers: {error}") from error
    if column.shape != (n_rows,):
        raise BadSnapshot(f"{name} has shape {column.shape}; {n_rows} pairs need one each")
    return column
