"""The repository's folder consumers/ as part of this package.

A wheel has the files of that folder here, and not this one: `consumers` at the top of
site-packages would stand in the way of other people's programs.
"""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "consumers")]
