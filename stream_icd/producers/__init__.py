"""The repository's folder producers/ as part of this package.

A wheel has the files of that folder here, and not this one: `producers` at the top of
site-packages would stand in the way of other people's programs.
"""

from pathlib import Path

__path__ = [str(Path(__file__).parents[2] / "producers")]
