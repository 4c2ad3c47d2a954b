"""A detector follows the champion, and refuses one that it cannot use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import (
    ModelDamaged,
    ModelForeign,
    ModelNotFound,
    ModelTooNew,
    StoreUnreachable,
    WorkersLost,
)
from stream_icd.core.lineage import Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.aliases import Aliases, champion, current, promote, roll_back
from stream_icd.registry.model import VersionedModel, pack
from stream_icd.registry.versions import publish, version_folder
from stream_icd.streaming.workers.model_swap import (
    _TRY_AGAIN_S,
    ChampionFollower,
    ModelSwap,
    start_with_champion,
)
from tests.streaming.workers.test_model_swap import FakePool
from tests.testbed.brokers import wait_until

NOW = datetime(2026, 1, 31, tzinfo=UTC)
RECIPE = Recipe(name="m", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))
MODELS = [pack(Model(RECIPE, BpParameters(resolution=1.0 + i))) for i in range(3)]
A, B, C = (model.version for model in MODELS)


class Bench:
    """A registry with three versions, of which A is the champion, and a detector that follows."""

    def __init__(self, registry: Store) -> None:
        self.registry = registry
        for model in MODELS:
            publish(registry, model, Lineage("test", NOW, "0"))
        self.crown(A)
        self.refusals: list[tuple[str, Exception]] = []
        self.error: Exception | None = None
        self.now = 0.0
        self.swap = ModelSwap(self._opened)
        self.stop = threading.Event()
        self.start()
        self.follower = ChampionFollower(
            registry, self.swap, self.stop, self.refuse, lambda: self.now
        )

    def start(self) -> str:
        """Start as a new detector does; return its model."""
        start_with_champion(self.registry, self.swap, self.stop, self.refuse)
        return self.swap.current

    def refuse(self, aliases: Aliases, error: Exception) -> None:
        self.refusals.append((aliases.champion, error))

    @contextmanager
    def _opened(self, model: VersionedModel, place: str) -> Iterator[FakePool]:
        if self.error is not None and model.version != A:
            raise self.error
        assert place == version_folder(self.registry, model.version).uri
        yield FakePool(model.version)

    def crown(self, version: str) -> None:
        seen = current(self.registry)
        promote(self.registry, version, "better", NOW, by="test", seen=seen)

    def uncrown(self) -> None:
        roll_back(self.registry, "worse", NOW, by="test", seen=champion(self.registry))

    def spoil(self, version: str, name: str, content: bytes) -> None:
        version_folder(self.registry, version).put(name, pa.py_buffer(content))

    def after_a_look(self) -> str:
        self.follower.look()
        return self.swap.current


@pytest.fixture
def bench(disk: Store) -> Bench:
    return Bench(disk)


def test_promotions_and_rollbacks_are_followed(bench: Bench) -> None:
    assert bench.after_a_look() == A
    bench.crown(B)
    assert bench.swap.current == A
    assert bench.after_a_look() == B
    assert bench.follower.in_use
    bench.crown(C)
    bench.uncrown()
    assert bench.after_a_look() == B
    bench.uncrown()
    assert bench.after_a_look() == A


def test_a_rollback_before_the_next_batch_drops_the_prepared_model(bench: Bench) -> None:
    bench.swap.model()  # a batch is in progress
    bench.crown(B)
    assert bench.after_a_look() == A
    assert not bench.follower.in_use
    bench.uncrown()
    assert bench.after_a_look() == A
    assert bench.swap.newest == A
    assert bench.follower.in_use


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("model.safetensors", lambda content: content[:-1] + b"#", ModelDamaged),
        ("model.safetensors", lambda content: content[:99], ModelDamaged),
        ("model.safetensors", lambda content: content + bytes(2**21), ModelDamaged),
        ("recipe.toml", lambda content: content[:99], ModelDamaged),
        ("recipe.toml", lambda content: content + b"\n", ModelDamaged),
        ("recipe.toml", lambda content: content + bytes(2**21), ModelDamaged),
        ("recipe.toml", lambda content: b"format = 4" + content[10:], ModelTooNew),
        ("recipe.toml", lambda content: content.replace(b"16", b"17"), ModelDamaged),
    ],
    ids=["hash", "truncated", "size", "half", "other hash", "recipe size", "format", "shape"],
)
def test_a_champion_that_cannot_be_loaded_is_refused_and_the_old_one_goes_on(
    bench: Bench, name: str, change: object, error: type[Exception]
) -> None:
    bench.crown(B)
    files = dict(MODELS[1].files)
    bench.spoil(B, name, change(files[name]))  # type: ignore[operator]
    assert bench.after_a_look() == A
    ((version, because),) = bench.refusals
    assert (version, type(because)) == (B, error)
    assert not bench.follower.in_use
    assert bench.after_a_look() == A
    assert len(bench.refusals) == 1
    bench.spoil(B, name, files[name])  # repaired, and tried again after a while
    assert bench.after_a_look() == A
    bench.now += _TRY_AGAIN_S
    assert bench.after_a_look() == B


def test_another_champion_after_a_refused_one_is_used_at_once(bench: Bench) -> None:
    bench.crown(B)
    bench.spoil(B, "recipe.toml", b"")
    assert bench.after_a_look() == A
    bench.crown(C)
    assert bench.after_a_look() == C


def test_a_champion_with_the_number_of_a_deleted_one_is_used_at_once(bench: Bench) -> None:
    bench.crown(B)
    bench.spoil(B, "recipe.toml", b"")
    assert bench.after_a_look() == A
    bench.registry.delete("aliases/00000002.json")
    bench.crown(C)
    assert bench.after_a_look() == C


def test_a_model_that_worker_processes_cannot_use_is_refused(bench: Bench) -> None:
    bench.crown(B)
    bench.error = ZeroDivisionError("in the warm-up")
    assert bench.after_a_look() == A
    assert [str(because) for _, because in bench.refusals] == ["in the warm-up"]


@pytest.mark.parametrize("error", [WorkersLost("no memory"), MemoryError("no memory")])
def test_lack_of_memory_is_not_the_models_fault(bench: Bench, error: Exception) -> None:
    bench.crown(B)
    bench.error = error
    with capture_logs() as logs:
        assert [bench.after_a_look() for _ in range(3)] == [A, A, A]
        bench.error = None
        assert bench.after_a_look() == B
    assert bench.refusals == []
    assert [log["event"] for log in logs] == [
        "cannot follow the champion; the model stays",
        "the champion is followed again",
    ]


@pytest.mark.parametrize("error", [StoreUnreachable("no answer"), AssertionError("a bug")])
def test_a_registry_that_cannot_be_read_is_logged_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    bench.crown(B)

    def down(*_: object) -> None:
        raise error

    with capture_logs() as logs:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_look_up", down)
            assert [bench.after_a_look() for _ in range(3)] == [A, A, A]
        assert bench.after_a_look() == B
    assert [log["log_level"] for log in logs] == ["warning", "info"]
    assert logs[0]["reason"] == f"{type(error).__name__}: {error}"


def test_a_registry_that_vanished_is_logged_once_and_the_model_stays(bench: Bench) -> None:
    path = "aliases/00000001.json"
    content = bench.registry.read(path, bench.registry.size(path))
    assert content is not None
    bench.registry.delete(path)
    with capture_logs() as logs:
        assert [bench.after_a_look() for _ in range(2)] == [A, A]
        bench.registry.put(path, pa.py_buffer(content))
        assert bench.after_a_look() == A
    assert [log["log_level"] for log in logs] == ["warning", "info"]
    assert "has no champion yet" in logs[0]["reason"]


def test_a_generation_that_cannot_be_read_changes_nothing(bench: Bench) -> None:
    bench.registry.put("aliases/00000002.json", pa.py_buffer(b"{"))
    with capture_logs() as logs:
        assert bench.after_a_look() == A
    assert "RegistryDamaged" in logs[0]["reason"]
    assert "aliases/00000002.json" in logs[0]["reason"]


def test_a_detector_starts_with_the_newest_champion_that_can_be_used(bench: Bench) -> None:
    for version in (B, C):
        bench.crown(version)
    assert bench.start() == C
    bench.spoil(C, "recipe.toml", b"")
    assert bench.start() == B
    assert [version for version, _ in bench.refusals] == [C]
    for version in (A, B):
        bench.spoil(version, "recipe.toml", b"")
    with pytest.raises(ModelForeign, match=C.replace("@", "-")):
        bench.start()


def test_a_model_that_was_rolled_back_is_not_used_instead(bench: Bench) -> None:
    for version in (B, C):
        bench.crown(version)
    bench.uncrown()
    bench.spoil(B, "recipe.toml", b"")
    assert bench.start() == A


def test_a_model_that_fails_at_the_start_is_refused_too(bench: Bench) -> None:
    bench.crown(B)
    bench.error = ZeroDivisionError("in the warm-up")
    assert bench.start() == A
    assert [version for version, _ in bench.refusals] == [B]
    bench.error = WorkersLost("no memory")
    with pytest.raises(WorkersLost):
        bench.start()


def test_an_empty_registry_has_no_champion(tmp_path_factory: pytest.TempPathFactory) -> None:
    registry = open_store(str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(ModelNotFound, match="has no champion yet"):
        start_with_champion(registry, ModelSwap(nullcontext), threading.Event(), lambda _: None)


def test_a_nudge_makes_it_look_at_once(bench: Bench) -> None:
    nudged = threading.Event()
    thread = threading.Thread(target=bench.follower.run, args=(nudged, 600.0))
    thread.start()
    bench.crown(B)
    nudged.set()
    wait_until(lambda: bench.swap.current == B)
    bench.stop.set()
    nudged.set()
    thread.join(10)
    assert not thread.is_alive()
