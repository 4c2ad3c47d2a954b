"""Names of the communities of windows, while these are read: the page asks for many at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadSettings
from stream_icd.names.attributes import Attributes
from stream_icd.names.names import Name, NamedWindow, named

NAME_BYTES = 400
"""Bytes of a name in memory, measured."""


@dataclass(frozen=True, slots=True)
class WindowNames:
    """What is known of a window's communities besides their members.

    Attributes:
        names: by id; communities without one are left out.
        agreement: AMI of communities and values by attribute; None if no node has a value.
    """

    names: Mapping[int, Name] = field(default_factory=dict)
    agreement: Mapping[str, float | None] = field(default_factory=dict)


NOTHING = WindowNames()


class Naming:
    """Names communities by a table of attributes."""

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.trouble = ""

    def window(self, nodes: pa.Array, ids: NDArray[np.int64]) -> NamedWindow | None:
        """Return the communities beside the attributes; None if no node can be found in them."""
        try:
            return named(nodes, ids, self.attributes)
        except BadSettings as error:
            self.trouble = str(error)
            return None

    def of(self, nodes: pa.Array, ids: NDArray[np.int64]) -> WindowNames:
        """Return what is kept of a window."""
        found = self.window(nodes, ids)
        return NOTHING if found is None else WindowNames(found.names(), found.agreement())
