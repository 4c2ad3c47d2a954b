"""One champion at any time: whoever promotes, races, is killed, or finds the disk full."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.errors import (
    BadSettings,
    ChampionChanged,
    ModelDamaged,
    ModelNotFound,
    RegistryDamaged,
    StoreUnreachable,
    StoreUnwritable,
)
from stream_icd.core.lineage import Lineage
from stream_icd.core.store import whole_file
from stream_icd.core.store.store import Store, open_store
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry import aliases
from stream_icd.registry.aliases import Aliases, current, history, promote, roll_back
from stream_icd.registry.find import find_model
from stream_icd.registry.model import PackedModel
from stream_icd.registry.versions import publish, version_folder, versions

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RECIPE = Recipe(name="m", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))
LINEAGE = Lineage("test", NOW, "0")
MODELS = [PackedModel.of(Model(RECIPE, BpParameters(resolution=1.0 + i))) for i in range(4)]
A, B, C, D = (model.version for model in MODELS)


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
    assert now is not None
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
            publish(registry, _another(), LINEAGE)
    assert aliases.champion(registry).champion == A
    assert len(versions(registry)) == len(MODELS)
    assert crown(registry, B).champion == B
    assert publish(registry, _another(), LINEAGE)


def test_a_registry_that_does_not_answer_is_named(s3: str) -> None:
    registry = open_store(f"s3://no-bucket/x?{s3}")
    with pytest.raises(StoreUnwritable, match="no-bucket"):
        publish(registry, _another(), LINEAGE)
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


def _another() -> PackedModel:
    return PackedModel.of(Model(RECIPE, BpParameters(resolution=9.0)))
