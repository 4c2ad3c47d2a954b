"""A registry: versions are complete or absent, and one is the champion at any time.

Whoever publishes or promotes, races, is killed, or finds the disk full.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.errors import (
    BadSettings,
    ChampionChanged,
    ModelDamaged,
    ModelForeign,
    ModelNotFound,
    RegistryDamaged,
    StoreUnreachable,
    StoreUnwritable,
)
from stream_icd.core.lineage import DataRange, Figure, Gate, Lineage
from stream_icd.core.store import whole_file
from stream_icd.core.store.store import Store, open_store
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry import aliases
from stream_icd.registry.aliases import Aliases, current, history, promote, roll_back
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
"""Small, with a weights file, and a name that no folder could have."""
MODELS = [PackedModel.of(Model(SMALL, BpParameters(resolution=1.0 + i))) for i in range(5)]
PACKED, ANOTHER = MODELS[0], MODELS.pop()
A, B, C, D = (model.version for model in MODELS)
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


@pytest.fixture
def folder(disk: Store) -> Store:
    publish(disk, PACKED, LINEAGE)
    return version_folder(disk, PACKED.version)


def test_a_version_comes_back_with_its_lineage(store: Store) -> None:
    assert versions(store) == []
    assert publish(store, PACKED, LINEAGE)
    assert versions(store) == [PACKED.version]
    opened = open_version(store, PACKED.version)
    assert opened.version == PACKED.version
    weights = Model(SMALL).weights
    assert all(np.array_equal(opened.model.weights[name], w) for name, w in weights.items())
    assert read_lineage(store, PACKED.version) == LINEAGE
    place = version_folder(store, PACKED.version).uri
    by_worker = open_model(place)
    assert by_worker.version == PACKED.version
    assert opened.proved_on == by_worker.proved_on == {"as733", "mails"}
    assert not publish(store, PACKED, Lineage("other", NOW, "9"))  # it is one version
    assert versions(store) == [PACKED.version]
    assert read_lineage(store, PACKED.version) == LINEAGE


def test_a_version_that_no_gate_promoted_is_proved_on_no_graph(disk: Store) -> None:
    lost = replace(GATE, passed=False)
    for at, changed in enumerate(({"gate": None}, {"gate": lost}, {"data": None})):
        registry = disk.below(str(at))
        publish(registry, PACKED, replace(LINEAGE, **changed))
        assert open_version(registry, PACKED.version).proved_on == frozenset()


def test_a_version_of_another_registry_keeps_what_it_learned_from(
    disk: Store, folder: Store
) -> None:
    other = disk.below("other")
    version = import_folder(other, folder, "test", NOW + timedelta(days=9), "one")
    lineage = read_lineage(other, version)
    assert (version, lineage.data, lineage.source) == (PACKED.version, LINEAGE.data, "one")
    assert (lineage.parent, lineage.gate) == (None, None)


def test_what_was_altered_is_not_opened_and_is_healed_by_publishing_again(
    disk: Store, folder: Store
) -> None:
    for name in PACKED.files:
        for spoilt in PACKED.files[name][:-1] + b"#", b"":
            folder.put(name, pa.py_buffer(spoilt))
            with pytest.raises((ModelDamaged, ModelForeign)):
                open_version(disk, PACKED.version)
            assert publish(disk, PACKED, LINEAGE)
            open_version(disk, PACKED.version)
    folder.put(LINEAGE_FILE, pa.py_buffer(b""))
    assert publish(disk, PACKED, LINEAGE)
    assert read_lineage(disk, PACKED.version) == LINEAGE
    # Still a recipe: its hash shows that it is another one.
    folder.put("recipe.toml", pa.py_buffer(PACKED.files["recipe.toml"] + b"# a word\n"))
    for opens in (open_version, lambda registry, version: find_model(version, registry)):
        with pytest.raises(ModelDamaged, match="its recipe was altered"):
            opens(disk, PACKED.version)


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
def test_what_is_no_version_is_never_a_path(disk: Store, folder: Store, version: str) -> None:
    """The first one was a folder outside of the registry."""
    for file in ("recipe.toml", LINEAGE_FILE):
        disk.below("evil").put(file, pa.py_buffer(folder.open(file).read()))
    for read in (open_version, read_lineage, existing_folder):
        with pytest.raises(ModelNotFound, match=f"no version .* it has: {PACKED.version}"):
            read(disk, version)
    with pytest.raises(ModelNotFound, match="is not a version"):
        version_folder(disk, version)


def test_names_that_no_folder_can_have_are_refused_and_folders_of_others_no_versions(
    disk: Store, folder: Store
) -> None:
    long = replace(PACKED, version=f"{'é' * 60}@{'0' * 8}")
    with pytest.raises(BadSettings, match="has 360 bytes when written .*, at most 246"):
        publish(disk, long, LINEAGE)
    recipe = pa.py_buffer(folder.open("recipe.toml").read())
    for name in ("backup", f"{folder.name} (copy)", folder.name.upper(), f"=2{folder.name}"):
        disk.put(f"versions/{name}/recipe.toml", recipe)
    assert versions(disk) == [PACKED.version]


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
    disk: Store, folder: Store
) -> None:
    content = folder.read(LINEAGE_FILE, folder.size(LINEAGE_FILE)) or b""
    more = content.replace(b'"made_by"', b'"colour": "red", "made_by"')
    folder.put(LINEAGE_FILE, pa.py_buffer(more))
    assert read_lineage(disk, PACKED.version) == LINEAGE
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
            read_lineage(disk, PACKED.version)
        assert open_version(disk, PACKED.version).proved_on == frozenset()
    with pytest.raises(BadSettings, match="NMI.*finite"):
        Figure("NMI, %", 70.0, float("nan"))


def test_a_copy_has_the_same_files_and_version_and_is_completed_if_it_was_cut_short(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert open_model(place).version == PACKED.version
    copy = open_store(place)
    assert copy.files() == folder.files()
    assert all(copy.open(name).read() == folder.open(name).read() for name in folder.files())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "card.md").write_text("my cards")
    for taken in (place, str(tmp_path / "mine")):
        with pytest.raises(BadSettings, match="is not empty: export to a new folder"):
            export_folder(folder, taken)
    assert (tmp_path / "mine" / "card.md").read_text() == "my cards"


def with_models(store: Store) -> Store:
    for model in MODELS:
        publish(store, model, LINEAGE)
    return store


@pytest.fixture
def registry(disk: Store) -> Store:
    return with_models(disk)


def crown(registry: Store, version: str) -> Aliases:
    return promote(registry, version, "it is better", NOW, by="test", seen=current(registry))


def uncrown(registry: Store) -> Aliases:
    seen = aliases.champion(registry)
    return roll_back(registry, "it is worse", NOW, by="test", seen=seen)


def test_the_champion_and_the_one_before_it_are_known(store: Store) -> None:
    with_models(store)
    assert current(store) is None
    with pytest.raises(ModelNotFound, match="has no champion yet: stream-icd models import"):
        aliases.champion(store)
    crown(store, A)
    crown(store, B)
    now = current(store)
    assert (now.generation, now.champion, now.previous) == (2, B, A)
    assert (now.change, now.reason, now.by, now.at) == ("promoted", "it is better", "test", NOW)
    assert [generation.champion for generation in history(store)] == [A, B]
    assert find_model("champion", store).uri == version_folder(store, B).uri
    assert find_model("previous", store).uri == version_folder(store, A).uri


@settings(max_examples=10)
@given(st.lists(st.sampled_from([A, B, C, D, None]), max_size=12))
def test_it_is_a_stack_of_champions_and_the_first_one_stays(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str | None]
) -> None:
    registry = with_models(open_store(str(tmp_path_factory.mktemp("registry"))))
    stack: list[str] = []
    for step in steps:
        if step is not None:
            before, after = current(registry), crown(registry, step)
            if stack[-1:] == [step]:
                assert after == before  # it is not promoted again
            else:
                stack.append(step)
        elif len(stack) > 1:
            uncrown(registry)
            stack.pop()
        elif stack:
            with pytest.raises(BadSettings, match="first champion, so there is none to go back to"):
                uncrown(registry)
        now = current(registry)
        names = [] if now is None else [now.champion, now.previous]
        assert stack[:-3:-1] == [name for name in names if name is not None]


def test_a_decision_about_another_champion_changes_nothing(registry: Store) -> None:
    seen = crown(registry, A)
    crown(registry, B)
    late = {"reason": "late", "at": NOW, "by": "late"}
    for version, of in ((C, seen), (A, seen), (C, None)):
        became = rf"{B} became the champion meanwhile \(test, 2026"
        with pytest.raises(ChampionChanged, match=became):
            promote(registry, version, seen=of, **late)
    with pytest.raises((ChampionChanged, BadSettings)):
        roll_back(registry, seen=seen, **late)
    assert aliases.champion(registry).champion == B
    seen = crown(registry, C)
    registry.delete("aliases/00000003.json")  # the generation that it is about is gone
    with pytest.raises(ChampionChanged, match=f"{re.escape(B)} became the champion meanwhile"):
        promote(registry, D, seen=seen, **late)
    for number in 1, 2:
        registry.delete(f"aliases/0000000{number}.json")
    with pytest.raises(ModelNotFound, match="has no champion yet"):
        promote(registry, D, seen=seen, **late)
    assert current(registry) is None


def test_of_many_promotions_at_once_one_wins(store: Store) -> None:
    with_models(store)
    seen = crown(store, A)
    ready = threading.Barrier(8)

    def attempt(i: int) -> str | None:
        ready.wait()
        try:
            return promote(store, (B, C)[i % 2], f"{i}", NOW, by=f"{i}", seen=seen).by
        except ChampionChanged:
            return None

    with ThreadPoolExecutor(8) as threads:
        winners = [by for by in threads.map(attempt, range(8)) if by is not None]
    assert len(winners) == 1
    assert aliases.champion(store).by == winners[0]
    assert len(history(store)) == 2


def test_an_answer_that_was_lost_is_not_taken_for_a_defeat(
    registry: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that repeats its request finds its own file there."""
    create = Store.create

    def twice(self: Store, path: str, content: pa.Buffer) -> bool:
        create(self, path, content)
        return create(self, path, content)

    monkeypatch.setattr(Store, "create", twice)
    assert crown(registry, A).champion == A


@pytest.mark.parametrize("spoilt", ["recipe.toml", "model.safetensors"])
def test_a_model_that_cannot_be_loaded_is_not_promoted(registry: Store, spoilt: str) -> None:
    crown(registry, A)
    crown(registry, B)
    for version in (A, C):
        folder = version_folder(registry, version)
        folder.put(spoilt, pa.py_buffer(b"half"))
    with pytest.raises(ModelDamaged):
        crown(registry, C)
    with pytest.raises(ModelDamaged):
        uncrown(registry)
    with pytest.raises(ModelNotFound, match="no version 'x@0'"):
        crown(registry, "x@0")
    assert aliases.champion(registry).champion == B


def rewritten(registry: Store, before: bytes, after: bytes) -> None:
    """Promote three versions, and change what the file of the third says."""
    for version in (A, B, C):
        crown(registry, version)
    path = "aliases/00000003.json"
    whole = registry.read(path, registry.size(path)) or b""
    assert before in whole
    registry.put(path, pa.py_buffer(whole.replace(before, after)))


AT = b'"2026-01-31T12:00:00Z"'


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (b"{", b"", "cannot be read"),
        (b'"generation": 3', b'"generation": 7', "says generation 7"),
        (b'"generation": 3', b'"generation": 1e999', "not a finite number"),
        (b'"generation": 3', b'"generation": NaN', "not a finite number"),
        # One that goes back to itself made a detector loop at its start.
        (b'"back_to": 2', b'"back_to": 3', "goes back to 3, which is no earlier"),
        (b'"back_to": 2', b'"back_to": 0', "goes back to 0, which is no earlier"),
        (AT, b'"2026-01-31T12:00:00"', "no time zone"),
        (AT, b'"9999-12-31T23:00:00-23:00"', "out of range"),
    ],
)
def test_a_generation_that_cannot_be_used_is_named_and_nothing_is_guessed(
    registry: Store, before: bytes, after: bytes, reason: str
) -> None:
    rewritten(registry, before, after)
    for read in (current, history, lambda of: list(aliases.champions(of))):
        with pytest.raises(RegistryDamaged, match=f"00000003.json.*{reason}"):
            read(registry)


def test_times_are_read_in_utc_and_files_of_others_are_no_generations(registry: Store) -> None:
    rewritten(registry, AT, b'"2026-01-31T14:00:00+02:00"')
    at = aliases.champion(registry).at
    assert (at, at.tzinfo) == (NOW, UTC)
    for name in (
        *("README", "_0f.part", "00000004.json.bak", "4.json"),
        "\N{ARABIC-INDIC DIGIT ZERO}" * 7 + "\N{ARABIC-INDIC DIGIT NINE}.json",
        "0000000\N{FULLWIDTH DIGIT NINE}.json",
        "000000009.json",  # nobody writes nine digits for it
        "9" * 30 + ".json",
    ):
        registry.put(f"aliases/{name}", pa.py_buffer(b"?"))
    assert aliases.champion(registry).champion == C
    assert crown(registry, B).generation == 4


def test_a_full_disk_leaves_the_old_champion(
    registry: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    crown(registry, A)

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(whole_file, "_synchronise", full)
        with pytest.raises(StoreUnwritable, match="No space left on device"):
            crown(registry, B)
        with pytest.raises(StoreUnwritable, match="No space left on device"):
            publish(registry, ANOTHER, LINEAGE)
    assert aliases.champion(registry).champion == A
    assert len(versions(registry)) == len(MODELS)
    assert crown(registry, B).champion == B
    assert publish(registry, ANOTHER, LINEAGE)


def test_a_registry_that_does_not_answer_is_named(s3: str) -> None:
    registry = open_store(f"s3://no-bucket/x?{s3}")
    with pytest.raises(StoreUnwritable, match="no-bucket"):
        publish(registry, ANOTHER, LINEAGE)
    gone = open_store("s3://bucket/x?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1")
    with pytest.raises(StoreUnreachable, match="cannot look into s3://bucket/x"):
        current(gone)


def test_kill_9_at_any_step_leaves_a_whole_registry(tmp_path: Path) -> None:
    """Publish and promote, killed before and after each step on the disk, then done again."""
    champions: list[str] = []  # after each kill
    is_killed = True
    while is_killed:
        registry = open_store(str(tmp_path / str(len(champions))))
        publish(registry, MODELS[0], LINEAGE)
        crown(registry, A)
        child = multiprocessing.get_context("fork").Process(
            target=_killed_at, args=(len(champions), registry)
        )
        child.start()
        child.join(60)
        champions.append(aliases.champion(registry).champion)
        assert set(versions(registry)) <= {A, B}
        _publish_and_crown(registry)
        assert aliases.champion(registry).champion == B
        assert versions(registry) == sorted({A, B})
        assert len(history(registry)) == 2
        assert child.exitcode in (0, -signal.SIGKILL)
        is_killed = child.exitcode != 0
    assert champions.count(A) > 8
    assert champions.count(B) >= 2
    assert len(champions) > 12


def _publish_and_crown(registry: Store) -> None:
    publish(registry, MODELS[1], LINEAGE)
    crown(registry, B)


def _killed_at(step: int, registry: Store) -> None:
    """Publish and promote; this process kills itself at the `step`-th file operation."""
    steps = iter(range(step))

    def counted(operation: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            if next(steps, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **named)

        return run

    whole_file._synchronise = counted(whole_file._synchronise)
    for name in ("replace", "hardlink_to", "unlink"):
        setattr(Path, name, counted(getattr(Path, name)))
    _publish_and_crown(registry)
