"""Worker processes are forked from a server that has imported what they need."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from stream_icd.core.errors import OverBudget
from stream_icd.streaming.execution import worker_process
from stream_icd.streaming.execution.budget import Allowance, Budget
from stream_icd.streaming.execution.work import Chain, Relay
from stream_icd.streaming.execution.worker_process import (
    AllowedJob,
    WorkerProcess,
    start_fork_server,
)
from tests.testbed.brokers import wait_until
from tests.testbed.children import alive, fork_servers, worker_processes

ENOUGH = Allowance(seconds=60, memory_bytes=1 << 30)
VARIABLE = "STREAM_ICD_TEST_OF_WORKER_PROCESSES"


def spinning_or_variable(job: str) -> str:
    """Never end, or return a variable of the environment."""
    while job == "spin":
        pass
    return os.environ[VARIABLE]


def opened() -> Callable[[str], str]:
    return spinning_or_variable


def loaded() -> Callable[[str], bool]:
    return sys.modules.__contains__


def sleeping() -> Callable[[str, Relay], None]:
    return sleep_long


def sleep_long(_: str, __: Relay) -> None:
    time.sleep(600)


def test_processes_begin_with_what_detection_imports() -> None:
    process = WorkerProcess(loaded)
    try:
        assert process.do("stream_icd.streaming.detection.record", ENOUGH) == (True, True)
    finally:
        process.end()


def test_processes_have_the_environment_of_when_they_start(monkeypatch: pytest.MonkeyPatch) -> None:
    start_fork_server()
    for text in ("first", "second"):
        monkeypatch.setenv(VARIABLE, text)
        process = WorkerProcess(opened)
        try:
            assert process.do("variable", ENOUGH) == (True, text)
        finally:
            process.end()


def test_limits_of_a_job_grow_with_the_memory_that_it_begins_with() -> None:
    """Else /healthz would have a worker restarted whose jobs are all within their limits."""
    process, memory = WorkerProcess(sleeping), bytes(10**6)
    allowance = Budget(seconds=1, seconds_per_mb=10).allowance(0)
    job = AllowedJob("job", allowance, Chain("g", Relay(memory)))

    def work() -> None:
        with contextlib.suppress(EOFError):  # it is ended meanwhile
            next(process.run([job]))

    waiting = threading.Thread(target=work)
    waiting.start()
    wait_until(lambda: process.at_work)
    assert process.at_work == job._replace(allowance=allowance.with_state(10**6))
    process.end()
    waiting.join(30)
    assert process.at_work is None


def test_when_the_server_is_killed_processes_still_end_and_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "here")
    first = WorkerProcess(opened)
    assert first.opened()[0]
    (server,), (worker,) = fork_servers(os.getpid()), worker_processes(os.getpid())
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: not alive(server))
    assert first.is_alive
    with pytest.raises(OverBudget):
        first.do("spin", Allowance(seconds=0.3, memory_bytes=1 << 30))
    first.end()
    wait_until(lambda: not (alive(worker) or first.is_alive))
    second = WorkerProcess(opened)
    try:
        assert second.do("variable", ENOUGH) == (True, "here")
    finally:
        second.end()


def test_a_program_that_ends_does_not_wait_for_a_process_that_is_left() -> None:
    program = (
        "import functools, operator\n"
        "from stream_icd.streaming.execution.worker_process import WorkerProcess\n"
        "process = WorkerProcess(functools.partial(operator.itemgetter, 0))\n"
        "process.opened()\n"
        "print(process.pid)"
    )
    assert not alive(named_by(program))


def test_a_program_that_ends_leaves_no_server() -> None:
    program = (
        "import os, time\n"
        "from stream_icd.streaming.execution.worker_process import start_fork_server\n"
        "from tests.testbed.children import fork_servers\n"
        "start_fork_server()\n"
        "while not (servers := fork_servers(os.getpid())): time.sleep(0.01)\n"
        "print(*servers)"
    )
    assert not alive(named_by(program))


def named_by(program: str) -> int:
    """The id of a process that a program prints before it ends."""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return int(ended.stdout)


def test_a_process_whose_parent_ended_before_it_took_the_answer_ends_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = multiprocessing.Pipe()

    class Line:
        recv = staticmethod(theirs.recv)

        def send(self, answer: object) -> None:
            theirs.send(answer)
            ours.close()  # with the answer in it: to read on is an error, no longer an end

    monkeypatch.setattr(worker_process, "_live_no_longer_than_parent", lambda: None)
    monkeypatch.setattr("stream_icd.core.log.configure_logging", lambda: None)
    worker_process._serve(Line(), opened, dict(os.environ))  # type: ignore[arg-type]
