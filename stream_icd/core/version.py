"""The installed version, which is `stream_icd.__version__`."""

from __future__ import annotations

from importlib.metadata import version

__version__ = version("stream-icd")
