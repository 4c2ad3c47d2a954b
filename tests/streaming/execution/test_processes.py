"""Worker processes are closed at any time: nobody waits for ever, and none is left."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from concurrent.futures import CancelledError
from errno import EAGAIN
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import CrashedWorker, ModelDamaged, StoreUnwritable, WorkersLost
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel, save_model
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution import worker_process
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.processes import Processes
from stream_icd.streaming.execution.work import IN_HAND, Relay
from stream_icd.streaming.execution.worker_process import WorkerProcess
from tests.testbed.brokers import wait_until


class Sleeping:
    """A job is the name of its chain, and never ends."""

    def __init__(self, model: VersionedModel, settings: DetectSettings) -> None:
        self.model, self.settings = model, settings

    def __call__(self, _: str, __: Relay) -> None:
        time.sleep(600)

    def chain(self, job: str) -> str:
        return job

    def name(self, job: str) -> str:
        return job

    def allowance(self, _: str) -> Allowance:
        return Allowance(60, 1 << 30)

    def warm_up(self) -> None:
        pass


@pytest.fixture
def processes(model: VersionedModel, tmp_path: Path) -> Processes[str, None]:
    save_model(model.model, tmp_path / "model")
    place = str(tmp_path / "model")
    return Processes(Sleeping(open_model(place), DetectSettings()), place, 1)


def test_who_waits_for_a_job_that_has_not_begun_is_told(processes: Processes[str, None]) -> None:
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            list(processes(["first", *["other"] * IN_HAND]))  # the chain with most jobs begins
        except BaseException as error:
            ended.append(error)

    with processes:
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        wait_until(lambda: [job.name for job in processes.in_hand] == ["other"])
    waiting.join(30)
    assert [type(error) for error in ended] == [CancelledError]


def test_a_process_that_ended_since_it_could_not_open_its_model_says_why(
    model: VersionedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(model.model, tmp_path / "model")
    monkeypatch.setattr(WorkerProcess, "is_alive", False)  # it ends before anybody looks
    processes: Processes[str, None] = Processes(
        Sleeping(model, DetectSettings()), str(tmp_path / "model"), 1
    )
    with processes, pytest.raises(ModelDamaged, match=f"was {model.version} and is now"):
        list(processes(["first"]))


def test_a_process_that_ends_just_before_they_are_closed_is_not_replaced(
    processes: Processes[str, None],
) -> None:
    with processes:
        pass
    with pytest.raises(EOFError, match="closed"):
        processes._start()


def test_where_no_more_processes_can_be_started_none_is_left(
    model: VersionedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, attempts = ForkServerProcess.start, list[ForkServerProcess]()

    def start_the_first(process: ForkServerProcess) -> None:
        attempts.append(process)
        if len(attempts) > 1:
            raise BlockingIOError(EAGAIN, "Resource temporarily unavailable")
        start(process)

    monkeypatch.setattr(ForkServerProcess, "start", start_the_first)
    monkeypatch.setattr(worker_process, "PAUSE_S", 0)
    with pytest.raises(WorkersLost, match=r"BlockingIOError: .*unavailable\): give more memory"):
        Processes(Sleeping(model, DetectSettings()), "model", 2)
    assert len(attempts) == 1 + worker_process.ATTEMPTS
    assert not attempts[0].is_alive()


def test_without_a_temporary_folder_it_says_what_to_set(
    model: VersionedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: ForkServerProcess) -> None:
        tempfile.gettempdir()  # as the server that forks does, for its socket

    monkeypatch.setattr(ForkServerProcess, "start", start)
    monkeypatch.setattr(worker_process, "PAUSE_S", 0)
    monkeypatch.setattr(tempfile, "tempdir", None)  # what was found before
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [os.devnull])
    with pytest.raises(StoreUnwritable, match=f"{os.devnull}.*TMPDIR"):
        Processes(Sleeping(model, DetectSettings()), "model", 1)
    with pytest.raises(StoreUnwritable, match="TMPDIR"):
        worker_process.start_fork_server()


def test_the_log_blames_no_job_whose_process_ended_because_of_another(
    model: VersionedModel, tmp_path: Path
) -> None:
    save_model(model.model, tmp_path / "model")
    place = str(tmp_path / "model")
    work = Sleeping(open_model(place), DetectSettings())
    with capture_logs() as log, Processes(work, place, 2, again=False) as processes:

        def end_one() -> None:
            wait_until(lambda: len(processes.in_hand) == 2)
            process = next(at for at in processes._at if at.at_work and at.at_work.job == "first")
            os.kill(process.pid, signal.SIGKILL)

        killer = threading.Thread(target=end_one)
        killer.start()
        with pytest.raises(CrashedWorker, match="worker process, with exit status -9"):
            list(processes(["first", "second"]))
        killer.join()
        wait_until(lambda: len(log) == 2)
    assert {line["job"]: line["reason"] for line in log} == {
        "first": "it ended during its job",
        "second": "another job of the batch failed",
    }
