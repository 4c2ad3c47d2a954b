"""The paper's method in its other variants: NCut's features, other encoders. None is trained."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task, module
from stream_icd.interfaces.evaluation.methods.bp_and_icd import by_icd
from stream_icd.methods.icd.recipe import Variant
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model


@cache
def model_of(variant: Variant, kind: str) -> Model:
    """The shipped model `default` with another variant and encoder; weights of the same seed."""
    recipe = open_model("default").model.recipe
    return Model(recipe.changed(variant=variant, encoder={"kind": kind}))


def _find(variant: Variant, kind: str) -> Callable[[Task], Labels]:
    return lambda task: by_icd(task, model_of(variant, kind))


def _method(variant: Variant, kind: str) -> EvaluatedMethod:
    source = f"ICD paper, {variant} with {kind.upper()}, untrained"
    library = "numpy" if kind in ("gcn", "hops") else "torch"
    missing = module(library, "pip install 'stream-icd[lab]'")
    return EvaluatedMethod(
        _find(variant, kind), source, k="optional", weighted=True, missing=missing
    )


METHODS = {
    "icd-c": _method("ICD-C", "gcn"),
    "icd-hops": _method("ICD-M", "hops"),
    "icd-gat": _method("ICD-M", "gat"),
    "icd-gin": _method("ICD-M", "gin"),
}
