"""What communities are: named by what is over-represented among their members.

`sources.node_tables.read_attributes` reads a table of attributes from a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_icd.core.imports import lazy_imports

if TYPE_CHECKING:
    from stream_icd.methods.names.attributes import Attributes, attributes_of
    from stream_icd.methods.names.names import Name, NamedWindow, Part, named

__all__ = ["Attributes", "Name", "NamedWindow", "Part", "attributes_of", "named"]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        "stream_icd.methods.names.attributes": ("Attributes", "attributes_of"),
        "stream_icd.methods.names.names": ("Name", "NamedWindow", "Part", "named"),
    },
)
