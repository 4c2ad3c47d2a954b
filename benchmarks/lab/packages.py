"""Where the lab's methods are: the library's own, and the lab's."""

from __future__ import annotations

from stream_icd.interfaces.evaluation.method import OWN, EvaluatedMethod, methods_in

PACKAGES = (OWN, "benchmarks.lab.methods")


def lab_methods() -> dict[str, EvaluatedMethod]:
    """All methods that the lab compares: without memory, since its graphs do not depend on each
    other.
    """
    found = methods_in(*PACKAGES)
    return {name: method for name, method in found.items() if not method.remembers}
