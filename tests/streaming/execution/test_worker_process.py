"""One worker process: the jobs of chains that it runs, and the limits that it runs them within."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from stream_icd.core.errors import BadSettings, OverBudget
from stream_icd.kafka.messages.claims import Claim, MessageReader
from stream_icd.kafka.record import Record
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution import worker_process
from stream_icd.streaming.execution.budget import Allowance, Budget
from stream_icd.streaming.execution.work import IN_HAND, Relay, Waiting, next_jobs
from stream_icd.streaming.execution.worker_process import WorkerProcess, start_fork_server
from stream_icd.wire.limits import Limits
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


def sleep_long(_: str, __: Relay) -> None:
    time.sleep(600)


def sleeping() -> Callable[[str, Relay], None]:
    return sleep_long


@contextlib.contextmanager
def started(opening: Callable[[], Callable[..., object]]) -> Iterator[WorkerProcess]:
    process = WorkerProcess(opening)
    try:
        yield process
    finally:
        process.end()


def test_processes_begin_with_imports_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    start_fork_server()
    with started(loaded) as process:
        assert process.do("stream_icd.streaming.detection.record", ENOUGH) == (True, True)
    for text in ("first", "second"):
        monkeypatch.setenv(VARIABLE, text)
        with started(opened) as process:
            assert process.do("variable", ENOUGH) == (True, text)


def test_limits_of_a_job_grow_with_the_memory_that_it_begins_with() -> None:
    """Else /healthz would have a worker restarted whose jobs are all within their limits."""
    process, memory = WorkerProcess(sleeping), bytes(10**6)
    allowance = Budget(seconds=1, seconds_per_mb=10).allowance(0)
    job = Waiting("job", allowance, "g", Relay(memory))

    def work() -> None:
        with contextlib.suppress(EOFError):  # it is ended meanwhile
            next(process.run([job]))

    waiting = threading.Thread(target=work)
    waiting.start()
    wait_until(lambda: process.at_work)
    assert process.at_work == ("job", allowance.with_state(10**6))
    process.end()
    waiting.join(30)
    assert process.at_work is None


def test_processes_end_and_start_after_their_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "here")
    with started(opened) as first:
        assert first.opened()[0]
        (server,), (worker,) = fork_servers(os.getpid()), worker_processes(os.getpid())
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: not alive(server))
        assert first.is_alive
        with pytest.raises(OverBudget):
            first.do("spin", Allowance(seconds=0.3, memory_bytes=1 << 30))
    wait_until(lambda: not (alive(worker) or first.is_alive))
    with started(opened) as second:
        assert second.do("variable", ENOUGH) == (True, "here")


@pytest.mark.parametrize(
    "program",
    [
        "import functools, operator\n"
        "from stream_icd.streaming.execution.worker_process import WorkerProcess\n"
        "process = WorkerProcess(functools.partial(operator.itemgetter, 0))\n"
        "process.opened()\n"
        "print(process.pid)",
        "import os, time\n"
        "from stream_icd.streaming.execution.worker_process import start_fork_server\n"
        "from tests.testbed.children import fork_servers\n"
        "start_fork_server()\n"
        "while not (servers := fork_servers(os.getpid())): time.sleep(0.01)\n"
        "print(*servers)",
    ],
    ids=["worker process", "server"],
)
def test_a_program_that_ends_waits_for_no_process_and_leaves_none(program: str) -> None:
    """Each prints the id of a process before it ends."""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert not alive(int(ended.stdout))


def test_a_process_whose_parent_ended_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = multiprocessing.Pipe()

    class Line:
        recv = staticmethod(theirs.recv)

        def send(self, answer: object) -> None:
            theirs.send(answer)
            ours.close()  # with the answer in it: to read on is an error, no longer an end

    monkeypatch.setattr(worker_process, "_live_no_longer_than_parent", lambda: None)
    monkeypatch.setattr("stream_icd.core.log.configure_logging", lambda: None)
    worker_process._serve(Line(), opened, dict(os.environ))  # type: ignore[arg-type]


def waiting(names: str) -> list[Waiting[str, None]]:
    """Jobs such as "a1 b1 a2", of the chains a and b; those that begin with "-" are of no chain."""
    relays = {name[0]: Relay() for name in names.split()}
    return [
        Waiting(name, ENOUGH)
        if name.startswith("-")
        else Waiting(name, ENOUGH, name[0], relays[name[0]])
        for name in names.split()
    ]


def names(jobs: list[Waiting[str, None]]) -> str:
    return " ".join(job.job for job in jobs)


@pytest.mark.parametrize(
    ("jobs", "n_processes", "chosen", "left"),
    [
        ("a1 b1 a2 b2 a3", 1, "a1 a2 a3 b1 b2", ""),
        ("-1 -2 -3 -4 -5", 2, "-1 -2", "-3 -4 -5"),
        ("a1 b1 a2 b2 a3 b3", 2, "a1 a2", "b1 b2 a3 b3"),
        ("a1 a2 a3 a4 a5", 2, "a1 a2 a3 a4 a5", ""),
        ("a1 a2 a3 -1", 2, "a1", "a2 a3 -1"),
        ("a1", 4, "a1", ""),
        ("", 2, "", ""),
        ("-1 " * (IN_HAND + 1), 1, "-1 " * IN_HAND, "-1"),  # no more than it may have in hand
    ],
)
def test_a_process_gets_whole_chains(jobs: str, n_processes: int, chosen: str, left: str) -> None:
    queue = waiting(jobs)
    assert names(next_jobs(queue, n_processes, set())) == chosen.strip()
    assert names(queue) == left


def test_one_process_at_a_time_has_the_jobs_of_a_chain() -> None:
    jobs, running = waiting("a1 a2 a3 b1"), set[str]()
    assert names(next_jobs(jobs, 2, running)) == "a1"
    assert names(next_jobs(jobs, 1, running)) == "b1"
    assert next_jobs(jobs, 1, running) == []
    running.remove("a")
    assert names(next_jobs(jobs, 1, running)) == "a2 a3"


class Sums:
    """Adds a number to what the job before left; "bad" raises, "look" leaves nothing."""

    def __call__(self, job: str, relay: Relay) -> str:
        taken = relay.memory or b"0"
        if job == "bad":
            raise ValueError(taken)
        if job != "look":
            relay.memory = b"%d" % (int(taken) + int(job))
        return f"{taken.decode()} and {job}"


@pytest.fixture(scope="module")
def process() -> Iterator[WorkerProcess]:
    with started(Sums) as process:
        yield process


def done(process: WorkerProcess, jobs: list[Waiting[str, None]]) -> list[str]:
    """The results of jobs named "chain+job"; stops where one fails."""
    answers = process.run([Waiting(job.job[1:], ENOUGH, job.chain, job.relay) for job in jobs])
    return [result if succeeded else repr(result) for succeeded, result in answers]


def test_jobs_begin_with_what_the_one_before_left(process: WorkerProcess) -> None:
    jobs = waiting("a1 b5 a2 alook a3 b1 abad a2")
    answers = "0 and 1, 0 and 5, 1 and 2, 3 and look, 3 and 3, 5 and 1, ValueError(b'6')"
    assert done(process, jobs) == answers.split(", ")
    left = [job.relay.memory for job in jobs[4:6] if job.relay is not None]
    assert left == [b"6", b"6"]
    assert done(process, jobs[-1:]) == ["6 and 2"]


@pytest.mark.parametrize(("job", "next_begins_with"), [("look", "5"), ("1", "1")])
def test_what_a_job_begins_with_instead_of_its_memory_is_for_it_alone(
    process: WorkerProcess, monkeypatch: pytest.MonkeyPatch, job: str, next_begins_with: str
) -> None:
    monkeypatch.setattr("stream_icd.methods.memory.encoding.anew", lambda _: b"0")
    first, damaged, last = waiting(f"a5 a{job} a1")
    done(process, [first])
    assert damaged.start_anew("a", "it fails with its memory")
    assert not damaged.start_anew("a", "it fails without, too")
    assert done(process, [damaged]) == [f"0 and {job}"]
    damaged.done(None)
    assert done(process, [last]) == [f"{next_begins_with} and 1"]


def test_a_budget_grows_with_what_was_sent_and_what_is_remembered() -> None:
    budget = Budget(seconds=3, seconds_per_mb=2, memory_bytes=1000, memory_per_byte=10)
    alone = budget.allowance(500_000)
    assert (alone.seconds, alone.clock_seconds) == (4, 40)
    assert alone.memory_bytes == 1000 + 5_000_000
    both = alone.with_state(1_500_000)
    assert both.seconds == 7
    assert both.memory_bytes - alone.memory_bytes == 15_000_000
    with pytest.raises(OverBudget, match="of 500000 bytes and a memory of 1500000 is 7.0"):
        both.check(cpu_seconds=8, clock_seconds=1, memory_bytes=0)


def test_each_of_processor_time_clock_and_memory_counts() -> None:
    allowance = Budget(seconds=3, memory_bytes=10**6).allowance(0)
    allowance.check(cpu_seconds=2.9, clock_seconds=29, memory_bytes=10**6)
    for used, complaint in (
        ((3.1, 4, 0), "3.1 s of processor time"),
        ((0, 31, 0), "31.0 s by the clock"),
        ((0, 0, 1_200_000), "1.2 MB of memory"),
    ):
        cpu_seconds, clock_seconds, n_bytes = used
        with pytest.raises(OverBudget, match=complaint):
            allowance.check(
                cpu_seconds=cpu_seconds, clock_seconds=clock_seconds, memory_bytes=n_bytes
            )


def test_a_claim_counts_as_what_it_claims_up_to_the_limit_of_what_is_read() -> None:
    claim = Claim("s3://somewhere/x", 5000, "ab" * 32)
    claimed = Record("t", 0, 0, 0, b"g", b"", claim.headers())
    malformed = Record("t", 0, 0, 0, b"g", b"abc", claim.headers()[:1])
    assert MessageReader().size_of(claimed) == 5000
    assert MessageReader(limits=Limits(decoded_bytes=100)).size_of(claimed) == 100
    assert MessageReader().size_of(malformed) == 3


def test_the_environment_sets_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_ICD_BUDGET_SECONDS", "7")
    monkeypatch.setenv("STREAM_ICD_BUDGET_MEMORY_PER_BYTE", "0")
    assert DetectSettings().budget.allowance(10**6).seconds == 7 + 60
    assert DetectSettings().budget.allowance(10**6).memory_bytes == 2 << 30
    for name, value in (("SECONDS", "0"), ("SECONDS_PER_MB", "nan")):
        monkeypatch.setenv(f"STREAM_ICD_BUDGET_{name}", value)
        with pytest.raises(BadSettings, match=name.lower()):
            Budget()
        monkeypatch.delenv(f"STREAM_ICD_BUDGET_{name}")
