"""The lineage beside a model: a small JSON file in its folder."""

from __future__ import annotations

from stream_icd.errors import RegistryDamaged
from stream_icd.lineage import Lineage
from stream_icd.registry.json_file import read_json, to_json
from stream_icd.store.store import Store

LINEAGE_FILE = "lineage.json"
LINEAGE_FORMAT = 1


def write_lineage(folder: Store, lineage: Lineage) -> None:
    """Write the lineage of the model in a folder.

    Raises:
        StoreUnwritable, StoreUnreachable: see `Store.put`.
    """
    folder.put(LINEAGE_FILE, to_json(Lineage, lineage, LINEAGE_FORMAT))


def lineage_in(folder: Store) -> Lineage:
    """Return the lineage of the model in a folder.

    Raises:
        FileNotFoundError: the folder holds none.
        RegistryDamaged: it cannot be read.
        StoreUnreachable: the store does not answer.
    """
    return read_json(folder, LINEAGE_FILE, Lineage, LINEAGE_FORMAT)


def proved_on(folder: Store) -> frozenset[str]:
    """Return the graphs that a model learned from before a gate promoted it.

    These need no further check whether the model fits them. A lineage that is missing or damaged
    proves nothing.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    try:
        lineage = lineage_in(folder)
    except (FileNotFoundError, RegistryDamaged):
        return frozenset()
    if lineage.gate is None or not lineage.gate.passed or lineage.data is None:
        return frozenset()
    return frozenset(lineage.data.graphs)
