"""A detector changes its model between two batches, and never waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from stream_icd.core.errors import ModelDamaged, WorkersLost
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.record import Record
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.execution.processes import InHand
from stream_icd.streaming.execution.work import First
from stream_icd.streaming.workers.model_swap import _IDLE_AFTER_S, ModelSwap
from tests.testbed.brokers import wait_until

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
        self,
        records: Iterable[Record],
        _first: First,
    ) -> Iterator[tuple[Record, Processed]]:
        for record in records:
            yield record, Processed(self.version)


class Bench:
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
def bench(model: VersionedModel) -> Bench:
    return Bench(model)


def test_a_batch_in_progress_keeps_its_model_and_the_next_one_has_the_new(bench: Bench) -> None:
    version, results = bench.batch()
    first = next(results)
    bench.prepare("b")
    assert (bench.swap.current, bench.swap.newest) == ("a", "b")
    assert bench.open == ["a", "b"]
    assert bench.swap.alive == 2
    assert bench.swap.resident_bytes == 200
    assert [version, first, *results] == ["a"] * 5
    version, results = bench.batch()
    assert [version, *results] == ["b"] * 5
    wait_until(lambda: bench.open == ["b"])
    assert bench.swaps == [("a", "b")]


def test_between_begin_and_work_nothing_changes(bench: Bench) -> None:
    version, results = bench.batch()
    bench.prepare("b")
    assert [version, *results] == ["a"] * 5


def test_an_idle_detector_changes_at_once(bench: Bench) -> None:
    _, results = bench.batch()
    list(results)
    bench.prepare("b")
    assert bench.swap.current == "b"
    bench.swap.model()  # a batch without records of ours is never worked on
    bench.prepare("c")
    assert bench.swap.current == "b"
    bench.now += _IDLE_AFTER_S
    bench.prepare("d")
    assert bench.swap.current == "d"
    wait_until(lambda: bench.open == ["d"])


def test_a_batch_that_fails_lets_the_next_model_in(bench: Bench) -> None:
    _, results = bench.batch()
    next(results)
    bench.prepare("b")
    results.close()  # type: ignore[attr-defined]
    version, results = bench.batch()
    assert version == "b"


def test_of_several_prepared_models_the_last_is_used(bench: Bench) -> None:
    bench.swap.model()
    bench.prepare("b")
    bench.prepare("c")
    wait_until(lambda: bench.open == ["a", "c"])
    assert bench.swap.model().version == "c"
    assert bench.swaps == [("a", "c")]


def test_a_prepared_model_can_be_dropped(bench: Bench) -> None:
    bench.swap.model()
    bench.prepare("b")
    bench.swap.keep()
    wait_until(lambda: bench.open == ["a"])
    assert (bench.swap.newest, bench.swap.model().version) == ("a", "a")


def test_a_model_that_does_not_open_leaves_the_old_one(bench: Bench) -> None:
    with pytest.raises(WorkersLost):
        bench.prepare("bad")
    assert bench.open == ["a"]
    assert bench.swap.newest == "a"


def test_a_stop_during_the_load_changes_nothing(bench: Bench) -> None:
    stopped = threading.Event()
    stopped.set()
    bench.prepare("b", stopped)
    assert bench.open == ["a"]
    assert bench.swap.newest == "a"


def test_nobody_waits_for_the_old_processes_to_end(bench: Bench) -> None:
    held = threading.Event()
    bench.on_close = lambda: held.wait(30)
    bench.swap.model()
    bench.prepare("b")
    assert bench.swap.model().version == "b"
    assert bench.open == ["a", "b"]
    held.set()
    bench.swap.close()
    assert bench.open == []


def test_an_error_of_opening_is_the_callers(model: VersionedModel) -> None:
    @contextmanager
    def never(model: VersionedModel, _place: str) -> Iterator[FakePool]:
        raise ModelDamaged(model.version)
        yield

    with pytest.raises(ModelDamaged):
        ModelSwap(never).start(model, "a", STOP)
