"""A detector changes its model between two batches, follows the champion, and refuses bad ones."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
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
from stream_icd.core.store.store import Store
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.record import Record
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.model import Model
from stream_icd.registry.aliases import Aliases, champion, current, promote, roll_back
from stream_icd.registry.model import VersionedModel, pack
from stream_icd.registry.versions import publish, version_folder
from stream_icd.streaming.execution.processes import InHand
from stream_icd.streaming.execution.work import First
from stream_icd.streaming.workers.model_swap import (
    _IDLE_AFTER_S,
    _TRY_AGAIN_S,
    ChampionFollower,
    ModelSwap,
)
from tests.testbed.brokers import wait_until
from tests.testbed.drifting import RECIPE

STOP = threading.Event()
RECORDS = [Record("snapshots", 0, offset, 0, b"g", b"") for offset in range(4)]


@dataclass(frozen=True)
class FakePool:
    """Answers each record with the version of its model."""

    version: str
    alive: int = 1
    resident_bytes: int = 100
    in_hand: list[InHand] = field(default_factory=list)

    def wait_until_warm(self, _stop: threading.Event) -> None:
        if self.version.startswith("bad"):
            raise WorkersLost("no memory")

    def __call__(
        self, records: Iterable[Record], _first: First
    ) -> Iterator[tuple[Record, Processed]]:
        for record in records:
            yield record, Processed(self.version)


class Swapping:
    """A swap over fake pools, and what happened to them."""

    def __init__(self, model: VersionedModel) -> None:
        self._model = model
        self.open: list[str] = []
        self.swaps: list[tuple[str, str]] = []
        self.now = 0.0
        self.on_close: Callable[[], object] = lambda: None
        self.swap = ModelSwap(
            self._opened,
            lambda old, new: self.swaps.append((old.version, new.version)),
            lambda: self.now,
        )
        self.swap.start(self.versioned("a"), "a", STOP)

    def versioned(self, version: str) -> VersionedModel:
        return VersionedModel(version, self._model.model)

    @contextmanager
    def _opened(self, model: VersionedModel, place: str) -> Iterator[FakePool]:
        assert place == model.version
        self.open.append(place)
        try:
            yield FakePool(model.version)
        finally:
            self.on_close()
            self.open.remove(place)

    def prepare(self, version: str, stop: threading.Event = STOP) -> None:
        self.swap.prepare(self.versioned(version), version, stop)

    def batch(self) -> tuple[str, Iterator[str]]:
        """Begin a batch: the model that it has, and the versions of its results as they come."""
        version = self.swap.model().version
        return version, (outcome.event for _, outcome in self.swap(RECORDS))


@pytest.fixture
def bench(model: VersionedModel) -> Swapping:
    return Swapping(model)


@pytest.mark.parametrize("n_done", [0, 1])
def test_a_batch_in_progress_keeps_its_model_and_the_next_one_has_the_new(
    bench: Swapping, n_done: int
) -> None:
    version, results = bench.batch()
    done = [next(results) for _ in range(n_done)]
    bench.prepare("b")
    assert (bench.swap.current, bench.swap.newest) == ("a", "b")
    assert bench.open == ["a", "b"]
    assert (bench.swap.alive, bench.swap.resident_bytes) == (2, 200)
    assert [version, *done, *results] == ["a"] * 5
    version, results = bench.batch()
    assert [version, *results] == ["b"] * 5
    wait_until(lambda: bench.open == ["b"])
    assert bench.swaps == [("a", "b")]


def test_an_idle_detector_changes_at_once(bench: Swapping) -> None:
    list(bench.batch()[1])
    bench.prepare("b")
    assert bench.swap.current == "b"
    bench.swap.model()  # a batch without records of ours is never worked on
    bench.prepare("c")
    assert bench.swap.current == "b"
    bench.now += _IDLE_AFTER_S
    bench.prepare("d")
    assert bench.swap.current == "d"
    wait_until(lambda: bench.open == ["d"])


def test_a_batch_that_fails_lets_the_next_model_in(bench: Swapping) -> None:
    _, results = bench.batch()
    next(results)
    bench.prepare("b")
    results.close()  # type: ignore[attr-defined]
    assert bench.batch()[0] == "b"


def test_of_several_prepared_models_the_last_is_used(bench: Swapping) -> None:
    bench.swap.model()
    bench.prepare("b")
    bench.prepare("c")
    wait_until(lambda: bench.open == ["a", "c"])
    assert bench.swap.model().version == "c"
    assert bench.swaps == [("a", "c")]


def test_a_prepared_model_can_be_dropped(bench: Swapping) -> None:
    bench.swap.model()
    bench.prepare("b")
    bench.swap.keep()
    wait_until(lambda: bench.open == ["a"])
    assert (bench.swap.newest, bench.swap.model().version) == ("a", "a")


def test_a_model_that_does_not_open_or_a_stop_meanwhile_leaves_the_old_one(bench: Swapping) -> None:
    with pytest.raises(WorkersLost):
        bench.prepare("bad")
    stopped = threading.Event()
    stopped.set()
    bench.prepare("b", stopped)
    assert (bench.open, bench.swap.newest) == (["a"], "a")


def test_nobody_waits_for_the_old_processes_to_end(bench: Swapping) -> None:
    held = threading.Event()
    bench.on_close = lambda: held.wait(30)
    bench.swap.model()
    bench.prepare("b")
    assert bench.swap.model().version == "b"
    assert bench.open == ["a", "b"]
    held.set()
    bench.swap.close()
    assert bench.open == []


NOW = datetime(2026, 1, 31, tzinfo=UTC)
MODELS = [pack(Model(RECIPE, BpParameters(resolution=1.0 + i))) for i in range(3)]
A, B, C = (model.version for model in MODELS)


class Following:
    """A registry with three versions, of which A is the champion, and a detector that follows."""

    def __init__(self, registry: Store) -> None:
        self.registry = registry
        for model in MODELS:
            publish(registry, model, Lineage("test", NOW, "0"))
        self.crown(A)
        self.refusals: list[tuple[str, Exception]] = []
        self.error: Exception | None = None
        self.now = 0.0
        self.swap, self.stop = ModelSwap(self._opened), threading.Event()
        self.start()
        self.follower = ChampionFollower(
            registry, self.swap, self.stop, self.refuse, lambda: self.now
        )

    def start(self) -> str:
        """Start as a new detector does; return its model."""
        self.swap.start_with_champion(self.registry, self.stop, self.refuse)
        return self.swap.current

    def refuse(self, aliases: Aliases, error: Exception) -> None:
        self.refusals.append((aliases.champion, error))

    @contextmanager
    def _opened(self, model: VersionedModel, place: str) -> Iterator[FakePool]:
        if self.error is not None and model.version != A:
            raise self.error
        assert place == version_folder(self.registry, model.version).uri
        yield FakePool(model.version)

    def crown(self, *versions: str) -> None:
        for version in versions:
            seen = current(self.registry)
            promote(self.registry, version, "better", NOW, by="test", seen=seen)

    def uncrown(self) -> None:
        roll_back(self.registry, "worse", NOW, by="test", seen=champion(self.registry))

    def spoil(self, version: str, name: str = "recipe.toml", content: bytes = b"") -> None:
        version_folder(self.registry, version).put(name, pa.py_buffer(content))

    def after_a_look(self) -> str:
        self.follower.look()
        return self.swap.current


@pytest.fixture
def following(disk: Store) -> Following:
    return Following(disk)


def test_promotions_and_rollbacks_are_followed(following: Following) -> None:
    assert following.after_a_look() == A
    following.crown(B)
    assert following.swap.current == A
    assert following.after_a_look() == B
    assert following.follower.in_use
    following.crown(C)
    following.uncrown()
    assert following.after_a_look() == B
    following.uncrown()
    assert following.after_a_look() == A


def test_a_rollback_before_the_next_batch_drops_the_prepared_model(following: Following) -> None:
    following.swap.model()  # a batch is in progress
    following.crown(B)
    assert following.after_a_look() == A
    assert not following.follower.in_use
    following.uncrown()
    assert following.after_a_look() == following.swap.newest == A
    assert following.follower.in_use


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
    following: Following, name: str, change: Callable[[bytes], bytes], error: type[Exception]
) -> None:
    following.crown(B)
    content = dict(MODELS[1].files)[name]
    following.spoil(B, name, change(content))
    assert following.after_a_look() == A
    ((version, because),) = following.refusals
    assert (version, type(because)) == (B, error)
    assert not following.follower.in_use
    assert following.after_a_look() == A
    assert len(following.refusals) == 1
    following.spoil(B, name, content)  # repaired, and tried again after a while
    assert following.after_a_look() == A
    following.now += _TRY_AGAIN_S
    assert following.after_a_look() == B


@pytest.mark.parametrize("is_deleted", [False, True])
def test_another_champion_after_a_refused_one_is_used_at_once(
    following: Following, is_deleted: bool
) -> None:
    following.crown(B)
    following.spoil(B)
    assert following.after_a_look() == A
    if is_deleted:  # another one gets its number
        following.registry.delete("aliases/00000002.json")
    following.crown(C)
    assert following.after_a_look() == C


def test_a_model_that_worker_processes_cannot_use_is_refused(following: Following) -> None:
    following.crown(B)
    following.error = ZeroDivisionError("in the warm-up")
    assert following.after_a_look() == A
    assert following.start() == A  # also of a detector that starts
    because = [(version, str(error)) for version, error in following.refusals]
    assert because == [(B, "in the warm-up")] * 2


@pytest.mark.parametrize("error", [WorkersLost("no memory"), MemoryError("no memory")])
def test_lack_of_memory_is_not_the_models_fault(following: Following, error: Exception) -> None:
    following.crown(B)
    following.error = error
    with capture_logs() as logs:
        assert [following.after_a_look() for _ in range(3)] == [A, A, A]
        with pytest.raises(type(error)):
            following.start()
        following.error = None
        assert following.after_a_look() == B
    assert following.refusals == []
    assert [log["event"] for log in logs] == [
        "cannot follow the champion; the model stays",
        "the champion is followed again",
    ]


@pytest.mark.parametrize("error", [StoreUnreachable("no answer"), AssertionError("a bug")])
def test_a_registry_that_cannot_be_read_is_logged_once(
    following: Following, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    following.crown(B)

    def down(*_: object) -> None:
        raise error

    with capture_logs() as logs:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "_look_up", down)
            assert [following.after_a_look() for _ in range(3)] == [A, A, A]
        assert following.after_a_look() == B
    assert [log["log_level"] for log in logs] == ["warning", "info"]
    assert logs[0]["reason"] == f"{type(error).__name__}: {error}"


def test_a_registry_that_vanished_or_is_damaged_is_logged_once_and_the_model_stays(
    following: Following,
) -> None:
    path = "aliases/00000001.json"
    content = following.registry.read(path, following.registry.size(path))
    assert content is not None
    following.registry.delete(path)
    with capture_logs() as logs:
        assert [following.after_a_look() for _ in range(2)] == [A, A]
        following.registry.put(path, pa.py_buffer(content))
        assert following.after_a_look() == A
        following.registry.put("aliases/00000002.json", pa.py_buffer(b"{"))
        assert following.after_a_look() == A
    assert [log["log_level"] for log in logs] == ["warning", "info", "warning"]
    assert "has no champion yet" in logs[0]["reason"]
    assert re.search("RegistryDamaged.*aliases/00000002.json", logs[2]["reason"])


def test_a_detector_starts_with_the_newest_champion_that_can_be_used(following: Following) -> None:
    following.crown(B, C)
    assert following.start() == C
    following.spoil(C)
    assert following.start() == B
    assert [version for version, _ in following.refusals] == [C]
    following.spoil(A)
    following.spoil(B)
    with pytest.raises(ModelForeign, match=C.replace("@", "-")):
        following.start()


def test_a_model_that_was_rolled_back_is_not_used_instead(following: Following) -> None:
    following.crown(B, C)
    following.uncrown()
    following.spoil(B)
    assert following.start() == A


def test_an_empty_registry_has_no_champion(disk: Store) -> None:
    with pytest.raises(ModelNotFound, match="has no champion yet"):
        ModelSwap(nullcontext).start_with_champion(disk, STOP, lambda *_: None)


def test_a_nudge_makes_it_look_at_once(following: Following) -> None:
    nudged = threading.Event()
    thread = threading.Thread(target=following.follower.run, args=(nudged, 600.0))
    thread.start()
    following.crown(B)
    nudged.set()
    wait_until(lambda: following.swap.current == B)
    following.stop.set()
    nudged.set()
    thread.join(10)
    assert not thread.is_alive()
