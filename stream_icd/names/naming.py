"""Names of the communities of windows, one after the other, by attributes that may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.errors import BadSettings
from stream_icd.names.attributes import Attributes
from stream_icd.names.live import LiveAttributes
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
    """Names communities by attributes of their nodes.

    Attributes:
        other_ids: why the nodes of a graph have no attributes: its ids are of another type; empty
            if none is like that.
    """

    def __init__(self, attributes: Attributes | LiveAttributes) -> None:
        self.attributes = attributes
        self.other_ids = ""

    @property
    def trouble(self) -> str:
        """Why nodes have no attributes; empty if all is well."""
        return self.other_ids or self.attributes.trouble

    def window(self, graph: str, nodes: pa.Array, ids: NDArray[np.integer]) -> NamedWindow | None:
        """Return the communities beside the attributes; None if no node can be found in them."""
        attributes = self.attributes.of_graph(graph, nodes.type)
        if attributes is None:
            return None
        try:
            return named(nodes, ids, attributes)
        except BadSettings as error:
            self.other_ids = str(error)
            return None

    def of(self, graph: str, nodes: pa.Array, ids: NDArray[np.integer]) -> WindowNames:
        """Return what is kept of a window."""
        found = self.window(graph, nodes, ids)
        return NOTHING if found is None else WindowNames(found.names(), found.agreement())
