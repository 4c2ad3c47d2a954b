"""Versions of a registry are complete or absent, never change, and say where they come from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stream_icd.core.errors import (
    BadSettings,
    ModelDamaged,
    ModelForeign,
    ModelNotFound,
    RegistryDamaged,
    StoreUnwritable,
)
from stream_icd.core.lineage import DataRange, Figure, Gate, Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.find import find_model, folder_of, open_model
from stream_icd.registry.model import LINEAGE_FILE, About, PackedModel, read_card
from stream_icd.registry.versions import (
    existing_folder,
    export_folder,
    import_folder,
    open_version,
    publish,
    read_lineage,
    version_folder,
    versions,
)

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SMALL = Recipe(name="a/b c@d", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))
GATE = Gate(
    champion="lfr@00000000",
    challenger="x@11111111",
    start=NOW,
    end=NOW + timedelta(days=1),
    windows=10,
    passed=True,
    reason="better on hidden edges",
    figures=(Figure("hidden edges, nats", -7.5, -7.25, 0.2, 0.3), Figure("NMI, %", 70, 71)),
)
LINEAGE = Lineage(
    made_by="retrain",
    made_at=NOW,
    code_version="0.1.0",
    parent="lfr@00000000",
    data=DataRange(("as733", "mails"), NOW - timedelta(days=9), NOW, windows=200, labelled=3),
    gate=GATE,
)


@pytest.fixture(scope="module")
def packed() -> PackedModel:
    """Small, with a weights file, and a name that no folder could have."""
    return PackedModel.of(Model(SMALL))


@pytest.fixture
def folder(disk: Store, packed: PackedModel) -> Store:
    """The folder of a version that was published."""
    publish(disk, packed, LINEAGE)
    return version_folder(disk, packed.version)


def test_a_version_comes_back_with_its_lineage(store: Store, packed: PackedModel) -> None:
    assert versions(store) == []
    assert publish(store, packed, LINEAGE)
    assert versions(store) == [packed.version]
    opened = open_version(store, packed.version)
    assert opened.version == packed.version
    weights = Model(SMALL).weights
    assert all(np.array_equal(opened.model.weights[name], w) for name, w in weights.items())
    assert read_lineage(store, packed.version) == LINEAGE
    place = version_folder(store, packed.version).uri
    by_worker = open_model(place)
    assert by_worker.version == packed.version
    assert opened.proved_on == by_worker.proved_on == {"as733", "mails"}
    assert not publish(store, packed, Lineage("other", NOW, "9"))  # it is one version
    assert versions(store) == [packed.version]
    assert read_lineage(store, packed.version) == LINEAGE


def test_a_version_that_no_gate_promoted_is_proved_on_no_graph(
    disk: Store, packed: PackedModel
) -> None:
    lost = replace(GATE, passed=False)
    for at, changed in enumerate(({"gate": None}, {"gate": lost}, {"data": None})):
        registry = disk.below(str(at))
        publish(registry, packed, replace(LINEAGE, **changed))
        assert open_version(registry, packed.version).proved_on == frozenset()


def test_a_version_of_another_registry_keeps_what_it_learned_from(
    disk: Store, packed: PackedModel, folder: Store
) -> None:
    other = disk.below("other")
    version = import_folder(other, folder, "test", NOW + timedelta(days=9), "one")
    lineage = read_lineage(other, version)
    assert (version, lineage.data, lineage.source) == (packed.version, LINEAGE.data, "one")
    assert (lineage.parent, lineage.gate) == (None, None)


def test_what_was_altered_is_not_opened_and_is_healed_by_publishing_again(
    disk: Store, packed: PackedModel, folder: Store
) -> None:
    for name in packed.files:
        for spoilt in packed.files[name][:-1] + b"#", b"":
            folder.put(name, pa.py_buffer(spoilt))
            with pytest.raises((ModelDamaged, ModelForeign)):
                open_version(disk, packed.version)
            assert publish(disk, packed, LINEAGE)
            open_version(disk, packed.version)
    folder.put(LINEAGE_FILE, pa.py_buffer(b""))
    assert publish(disk, packed, LINEAGE)
    assert read_lineage(disk, packed.version) == LINEAGE
    # Still a recipe: its hash shows that it is another one.
    folder.put("recipe.toml", pa.py_buffer(packed.files["recipe.toml"] + b"# a word\n"))
    for opens in (open_version, lambda registry, version: find_model(version, registry)):
        with pytest.raises(ModelDamaged, match="its recipe was altered"):
            opens(disk, packed.version)


@pytest.mark.parametrize("name", ["about.toml", "card.md"])
def test_a_shipped_model_keeps_its_files_and_a_damaged_one_is_not_imported_and_healed(
    disk: Store, name: str
) -> None:
    registry, shipped = disk.below("registry"), folder_of("lfr")
    source = open_store(export_folder(shipped, disk.below("source").uri))
    version = import_folder(registry, source, "test", NOW, "lfr")
    assert version == open_model("lfr").version
    imported = version_folder(registry, version)
    for folder in source, imported:
        folder.put(name, pa.py_buffer(b"\xff"))
    with pytest.raises(ModelDamaged, match=name):
        import_folder(registry, source, "test", NOW, "lfr")
    import_folder(registry, shipped, "test", NOW, "lfr")
    assert all(imported.open(file).read() == shipped.open(file).read() for file in shipped.files())


@pytest.mark.parametrize(
    "version",
    ["x@/../../../evil", "x@../../evil0", "@", "x@", "x@ABCDEF01", "x@0123456", "no version"],
)
def test_what_is_no_version_is_never_a_path(
    disk: Store, packed: PackedModel, folder: Store, version: str
) -> None:
    """The first one was a folder outside of the registry."""
    for file in ("recipe.toml", LINEAGE_FILE):
        disk.below("evil").put(file, pa.py_buffer(folder.open(file).read()))
    for read in (open_version, read_lineage, existing_folder):
        with pytest.raises(ModelNotFound, match=f"no version .* it has: {packed.version}"):
            read(disk, version)
    with pytest.raises(ModelNotFound, match="is not a version"):
        version_folder(disk, version)


def test_names_that_no_folder_can_have_are_refused_and_folders_of_others_no_versions(
    disk: Store, packed: PackedModel, folder: Store
) -> None:
    long = replace(packed, version=f"{'é' * 60}@{'0' * 8}")
    with pytest.raises(BadSettings, match="has 360 bytes when written .*, at most 246"):
        publish(disk, long, LINEAGE)
    recipe = pa.py_buffer(folder.open("recipe.toml").read())
    for name in ("backup", f"{folder.name} (copy)", folder.name.upper(), f"=2{folder.name}"):
        disk.put(f"versions/{name}/recipe.toml", recipe)
    assert versions(disk) == [packed.version]


def test_a_description_or_a_card_that_cannot_be_read_is_damage(folder: Store) -> None:
    broken = (b"purpose = 1", b"purpose = " + b"9" * 5000, b"[" * 5000, b'x = "y"')
    for content in (*broken, b"\xff", b" " * 2**21):
        folder.put("about.toml", pa.py_buffer(content))
        with pytest.raises(ModelDamaged, match="about.toml"):
            About.read(folder)
    for content in (b"\xff", b" " * 2**21):
        folder.put("card.md", pa.py_buffer(content))
        with pytest.raises(ModelDamaged, match="card.md"):
            read_card(folder)


def test_a_lineage_may_have_later_fields_and_must_be_there_and_whole(
    disk: Store, packed: PackedModel, folder: Store
) -> None:
    content = folder.read(LINEAGE_FILE, folder.size(LINEAGE_FILE)) or b""
    more = content.replace(b'"made_by"', b'"colour": "red", "made_by"')
    folder.put(LINEAGE_FILE, pa.py_buffer(more))
    assert read_lineage(disk, packed.version) == LINEAGE
    for wrong, reason in (
        (b"", "lineage.json cannot be read"),
        (b'{"format": 1}', "lineage.json .*made_by"),
        (b'{"format": 2}', "lineage.json has format 2 and this version reads up to 1; upgrade"),
        (b"[1]", "lineage.json cannot be read"),
        (b"[" * 100_000, "lineage.json cannot be read"),
        (b" " * (2**24 + 1), "lineage.json .*at most 16777216 are read"),
        (None, "holds no lineage.json"),
    ):
        if wrong is None:
            folder.delete(LINEAGE_FILE)
        else:
            folder.put(LINEAGE_FILE, pa.py_buffer(wrong))
        with pytest.raises(RegistryDamaged, match=reason):
            read_lineage(disk, packed.version)
        assert open_version(disk, packed.version).proved_on == frozenset()
    with pytest.raises(BadSettings, match="NMI.*finite"):
        Figure("NMI, %", 70.0, float("nan"))


def test_a_copy_has_the_same_files_and_version_and_is_completed_if_it_was_cut_short(
    packed: PackedModel, folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(place: Store, path: str, content: pa.Buffer) -> None:
        if path == "recipe.toml":
            raise StoreUnwritable("the disk is full")
        whole(place, path, content)

    whole, place = Store.put, str(tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full_disk)
        with pytest.raises(StoreUnwritable):
            export_folder(folder, place)
    assert export_folder(folder, place) == place
    assert open_model(place).version == packed.version
    copy = open_store(place)
    assert copy.files() == folder.files()
    assert all(copy.open(name).read() == folder.open(name).read() for name in folder.files())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "card.md").write_text("my cards")
    for taken in (place, str(tmp_path / "mine")):
        with pytest.raises(BadSettings, match="is not empty: export to a new folder"):
            export_folder(folder, taken)
    assert (tmp_path / "mine" / "card.md").read_text() == "my cards"
