"""Every engine gives what the stream gave, in order; and what is killed leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import BadSettings, HistoryDamaged, Overloaded, WorkersLost
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive
from stream_icd.history.replay.ray_engine import RayActors, _connected
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.execution.processes import in_processes
from stream_icd.streaming.execution.work import Engine, InProcess, Relay
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.message import Message
from tests.history.replay.conftest import make_snapshot
from tests.streaming.workers.remembered import records
from tests.testbed.fingerprint import fingerprint

pytestmark = pytest.mark.timeout(900)  # Ray starts slowly beside other tests on two cores


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder that the workers of Ray know of: who is killed leaves a file there."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("killed")
        patch.setenv("ICD_TEST_KILLED", str(folder))
        yield folder


@pytest.fixture(scope="module")
def cluster(killed: Path) -> Iterator[str]:
    """The address of a Ray cluster of one core; to start one takes longer than all tests of it."""
    pytest.importorskip("ray", reason="pip install 'stream-icd[ray]'")
    from ray.cluster_utils import Cluster

    assert killed.is_dir()
    head = {"num_cpus": 1, "include_dashboard": False}
    running = Cluster(initialize_head=True, head_node_args=head)  # type: ignore[no-untyped-call]
    yield running.address
    running.shutdown()  # type: ignore[no-untyped-call]


Make = Callable[[Redetection], Engine[ReplayJob, ReplayOutcome]]


@pytest.fixture
def make_engine(name: str, request: pytest.FixtureRequest, model_folder: Path) -> Make:
    if name == "pool":
        return lambda redetection: in_processes(redetection, str(model_folder), 2)
    if name == "ray":
        address = request.getfixturevalue("cluster")
        return lambda redetection: RayActors(redetection, workers=1, address=address)
    return InProcess


def jobs(archive: Store) -> list[ReplayJob]:
    return [ReplayJob.of_archived(archive.uri, noted) for noted in Archive(archive).windows()]


def found_in(outcomes: Iterable[tuple[ReplayJob, ReplayOutcome]]) -> list[str]:
    return [fingerprint(outcome) for _, outcome in outcomes if isinstance(outcome, Message)]


def streamed(redetection: Redetection, sent: list[Snapshot]) -> list[str]:
    """Fingerprints of what a detector on the stream publishes."""
    runner = Runner(Detector(lambda: redetection.model, redetection.settings), DeadLetterLimit())
    return [
        fingerprint(Message(record.key or b"", record.value or b"", record.headers))
        for record in runner.handle(records(sent))
    ]


def damaged() -> Snapshot:
    raise HistoryDamaged("the file cannot be read")


@pytest.mark.parametrize("name", ["serial", "pool", "ray"])
def test_replayed_is_streamed_to_the_bit_up_to_a_file_that_is_damaged(
    make_engine: Make, archive: Store, redetection: Redetection
) -> None:
    todo = jobs(archive)
    engine = make_engine(redetection)
    outcomes = engine(iter([*todo, replace(todo[0], snapshot=damaged)]), Relay.empty)
    done = list(islice(outcomes, len(todo)))
    with pytest.raises(HistoryDamaged, match="^the file cannot be read$"):
        next(outcomes)
    assert [job for job, _ in done] == todo
    found = found_in(done)
    assert found == streamed(redetection, [make_snapshot(i) for i in range(len(todo))])
    assert len(set(found)) == len(todo)


class Deadly(Redetection):
    """One snapshot takes all memory, so that the system kills who works on it."""

    def __call__(self, job: ReplayJob) -> ReplayOutcome:
        if job.snapshot_id == "past/2":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(job)


def test_a_snapshot_that_kills_every_worker_is_named(
    archive: Store, redetection: Redetection, model_folder: Path
) -> None:
    deadly = Deadly(redetection.model, redetection.settings)
    outcomes = in_processes(deadly, str(model_folder), 2)(jobs(archive), Relay.empty)
    assert [next(outcomes)[0].snapshot_id for _ in range(2)] == ["past/0", "past/1"]
    with pytest.raises(Overloaded, match="snapshot past/2: 3 worker processes .* fewer than "):
        next(outcomes)


def test_actors_hand_on_the_memory_of_a_graph(
    archive: Store, redetection: Redetection, cluster: str
) -> None:
    remembering = replace(redetection, settings=replace(redetection.settings, memory="auto"))
    actors = RayActors(remembering, workers=1, address=cluster)
    engines = (actors, InProcess(remembering), InProcess(redetection))
    found, expected, alone = (found_in(engine(jobs(archive))) for engine in engines)
    assert found == expected != alone


class DeadlyTwice(Redetection):
    """The first and the second that work on one snapshot are killed."""

    def __call__(self, job: ReplayJob) -> ReplayOutcome:
        killed = Path(os.environ["ICD_TEST_KILLED"])
        if job.snapshot_id == "past/2" and len(list(killed.iterdir())) < 2:
            (killed / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(job)


def test_an_actor_that_dies_is_replaced_and_nothing_is_missing(
    archive: Store, redetection: Redetection, cluster: str, killed: Path
) -> None:
    todo = jobs(archive)
    deadly = DeadlyTwice(redetection.model, redetection.settings)
    done = list(RayActors(deadly, workers=1, address=cluster)(todo))
    assert len(list(killed.iterdir())) == 2
    assert [job for job, _ in done] == todo
    assert found_in(done) == found_in(InProcess(redetection)(todo))


class Died(Exception):
    """As Ray reports an actor that died."""


@pytest.fixture
def fake_ray(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """A Ray of one core, whose actors never have an outcome."""
    errors = {"RayActorError": Died, "OutOfMemoryError": Died, "RayTaskError": TypeError}
    ray = MagicMock(exceptions=MagicMock(**errors))
    ray.cluster_resources.return_value = {"CPU": 1.0}
    ray.wait.return_value = [], ["outcome"]
    detect = ray.remote().options().remote().detect
    detect.options().remote.return_value = "outcome", "memory"
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray


def test_a_cluster_that_cannot_be_used_is_said(fake_ray: MagicMock) -> None:
    for raised, error, reason in (
        (ConnectionError("nobody"), WorkersLost, "no Ray cluster answers at auto: nobody"),
        (ValueError("no address"), BadSettings, "cannot use Ray at auto: no address"),
    ):
        fake_ray.init.side_effect = raised
        with pytest.raises(error, match=reason), _connected("auto", 1):
            pass


@pytest.mark.usefixtures("fake_ray")
def test_actors_that_wait_for_cores_are_said_and_a_stop_waits_for_none(
    archive: Store, redetection: Redetection
) -> None:
    stop = threading.Event()
    stop.set()
    with capture_logs() as logs:
        for workers in (1, 3):
            assert list(RayActors(redetection, workers, stop=stop)(jobs(archive))) == []
    assert [(log["cores"], log["workers"]) for log in logs] == [(1, 3)]


def test_a_snapshot_that_kills_every_actor_is_named(
    archive: Store, redetection: Redetection, fake_ray: MagicMock
) -> None:
    fake_ray.wait.return_value = ["outcome"], []
    fake_ray.get.side_effect = Died
    with pytest.raises(Overloaded, match="snapshot past/0: 3 actors died .* fewer than 1 workers"):
        list(RayActors(redetection, 1)(jobs(archive)))
    assert fake_ray.get.call_count == 3


def test_ray_does_not_take_the_signal_that_stops_a_replay(fake_ray: MagicMock) -> None:
    fake_ray.init.side_effect = lambda **_: signal.signal(signal.SIGTERM, signal.SIG_IGN)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with _connected(None, 1):
            assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)
