"""Where the lab's methods are: the library's own, and the lab's."""

from __future__ import annotations

from stream_icd.evaluation.discover import OWN

PACKAGES = (OWN, "lab.methods")
