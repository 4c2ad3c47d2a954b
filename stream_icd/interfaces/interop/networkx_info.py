"""What NetworkX shows of this backend in its documentation; read when NetworkX is imported."""

from __future__ import annotations

from typing import Any

_MODEL = {
    "model : str or path, optional": (
        "Name of a shipped model, such as 'default', or the folder of one. The communities are "
        "then those of stream_icd's own method, by description length, whatever the metric; "
        "`resolution` must be 1."
    )
}


_DIFFERENCES = {
    "louvain_communities": (
        "Leiden's scheme instead of Louvain's: communities are connected. Directed graphs, "
        "negative weights, `threshold` and `max_level` are not supported."
    ),
    "leiden_communities": (
        "The metrics are modularity and CPM. Directed graphs, negative weights, `max_level` and "
        "`theta` are not supported."
    ),
    "leiden_partitions": (
        "Partitions of rising quality, one after each pass over all levels; the last is that of "
        "`leiden_communities`. Directed graphs, negative weights and `theta` are not supported."
    ),
}


def get_info() -> dict[str, Any]:
    """Return the `backend_info` of NetworkX: the functions, and how they differ."""
    return {
        "backend_name": "stream_icd",
        "project": "stream-icd",
        "package": "stream_icd",
        "short_summary": "Communities of undirected graphs, compiled.",
        "functions": {
            function: {"additional_docs": difference, "additional_parameters": _MODEL}
            for function, difference in _DIFFERENCES.items()
        },
    }
