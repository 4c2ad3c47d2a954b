"""A model that is exported is the same model elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from stream_icd.core.errors import BadSettings, StoreUnwritable
from stream_icd.core.lineage import Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.registry.find import folder_of, open_model
from stream_icd.registry.versions import export_folder, pack_folder, publish, version_folder

LINEAGE = Lineage("test", datetime(2026, 1, 31, tzinfo=UTC), "0")


@pytest.fixture
def folder(disk: Store) -> Store:
    """A version in a registry."""
    model = pack_folder(folder_of("lfr"))
    publish(disk, model, LINEAGE)
    return version_folder(disk, model.version)


def test_a_copy_has_the_same_files_and_version(folder: Store, tmp_path: Path) -> None:
    place = export_folder(folder, str(tmp_path / "copy"))
    assert open_model(place).version == open_model("lfr").version
    copy = open_store(place)
    assert copy.files() == folder.files()
    assert all(copy.open(name).read() == folder.open(name).read() for name in folder.files())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "card.md").write_text("my cards")
    for taken in (place, str(tmp_path / "mine")):
        with pytest.raises(BadSettings, match="is not empty: export to a new folder"):
            export_folder(folder, taken)
    assert (tmp_path / "mine" / "card.md").read_text() == "my cards"


def test_a_copy_that_was_cut_short_is_completed(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(place: Store, path: str, content: pa.Buffer) -> None:
        if path == "recipe.toml":
            raise StoreUnwritable("the disk is full")
        whole(place, path, content)

    whole, copy = Store.put, str(tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full_disk)
        with pytest.raises(StoreUnwritable):
            export_folder(folder, copy)
    assert export_folder(folder, copy) == copy
    assert open_model(copy).version == open_model("lfr").version
