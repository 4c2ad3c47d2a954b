"""Copy a model out of a registry, to a folder."""

from __future__ import annotations

import pyarrow as pa

from stream_icd.core.errors import BadSettings
from stream_icd.core.store.store import Store, open_store
from stream_icd.registry.model import LINEAGE_FILE, RECIPE_FILE, read_model
from stream_icd.registry.versions import MODEL_FILES, files_in


def export_folder(folder: Store, target: str) -> str:
    """Copy a model and its lineage, byte for byte, to a new folder; return the folder's place.

    Raises:
        BadSettings: the target is a file, or holds more than a copy that was cut short.
        ModelError, StoreError: the model cannot be used, or the copy not be written.
    """
    place = open_store(target)
    read_model(folder)  # nothing is copied of a model that cannot be used
    files = files_in(folder, (LINEAGE_FILE, *MODEL_FILES))
    held = {name: files.get(name, b"") for name in place.files()}  # as by a copy that was cut short
    others = any(place.read(name, len(content)) != content for name, content in held.items())
    if others or RECIPE_FILE in held:  # which is written last
        raise BadSettings(f"{place.place} is not empty: export to a new folder")
    for name, content in files.items():
        place.put(name, pa.py_buffer(content))
    return place.place
