"""Names of communities from a file that was given on the command line."""

from __future__ import annotations

from pathlib import Path

from stream_icd.sources.labels.attribute_table import read_attributes
from stream_icd.view.data.naming import Naming


def naming_by(path: Path | None) -> Naming | None:
    """Return what names communities by a table of attributes; None without a file.

    Raises:
        As `read_attributes`.
    """
    return None if path is None else Naming(read_attributes(path))
