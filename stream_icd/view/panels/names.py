"""Names of communities, and what one of them is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from stream_icd.names.names import Name, Naming
from stream_icd.view.data.window import SeenWindow, unpacked

MOST_PARTS = 12


def names_in(
    windows: Sequence[SeenWindow], communities: Collection[int], naming: Naming | None
) -> dict[str, dict[str, str]]:
    """Return the last name of each community in these windows, by id; `{}` without attributes."""
    if naming is None:
        return {}
    missing, found = set(communities), {}
    for one in reversed(windows):
        for community in missing & one.known.names.keys():
            found[str(community)] = _as_answer(one.known.names[community])
        missing -= one.known.names.keys()
        if not missing:
            break
    return found


def composition(one: SeenWindow, community: int, naming: Naming | None) -> dict[str, Any]:
    """Return what a community of a window is made of, by attribute."""
    window = None if naming is None else naming.window(one.result.graph, *unpacked(one.members))
    parts = {} if window is None else window.composition(community, MOST_PARTS)
    return {
        "number": one.number,
        "community": community,
        "attributes": {
            attribute: [
                {
                    "value": part.value,
                    "members": part.members,
                    "total": part.total,
                    "names": part.names,
                }
                for part in values
            ]
            for attribute, values in parts.items()
        },
    }


def _as_answer(name: Name) -> dict[str, str]:
    return {"text": str(name), "attribute": name.attribute, "value": name.values[0][0]}
