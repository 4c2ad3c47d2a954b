"""Which jobs a process gets, and what a job begins with that the one before it has left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stream_icd.streaming.execution import work
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import IN_HAND, Chain, Relay, Waiting, next_jobs
from stream_icd.streaming.execution.worker_process import AllowedJob, WorkerProcess

ENOUGH = Allowance(seconds=60, memory_bytes=1 << 30)


def waiting(names: str) -> list[Waiting[str, None]]:
    """Jobs such as "a1 b1 a2", of the chains a and b; those that begin with "-" are of no chain."""
    chains = {name[0]: Chain(name[0], Relay()) for name in names.split()}
    return [
        Waiting(name, None if name.startswith("-") else chains[name[0]]) for name in names.split()
    ]


def names(jobs: list[Waiting[str, None]]) -> str:
    return " ".join(job.job for job in jobs)


@pytest.mark.parametrize(
    ("given", "n_processes", "chosen", "left"),
    [
        ("a1 b1 a2 b2 a3", 1, "a1 a2 a3 b1 b2", ""),
        ("-1 -2 -3", 1, "-1 -2 -3", ""),
        ("-1 -2 -3 -4 -5", 2, "-1 -2", "-3 -4 -5"),
        ("a1 b1 a2 b2", 2, "a1", "b1 a2 b2"),
        ("a1 b1 a2 b2 a3 b3", 2, "a1 a2", "b1 b2 a3 b3"),
        ("a1 a2 a3 a4 a5", 2, "a1 a2 a3 a4 a5", ""),
        ("a1 a2 a3 -1", 2, "a1", "a2 a3 -1"),
        ("a1", 4, "a1", ""),
        ("", 2, "", ""),
    ],
)
def test_a_process_gets_chains_as_a_whole_and_leaves_some_to_others(
    given: str, n_processes: int, chosen: str, left: str
) -> None:
    jobs = waiting(given)
    assert names(next_jobs(jobs, n_processes)) == chosen
    assert names(jobs) == left


def test_a_process_gets_no_more_than_it_may_have_in_hand() -> None:
    jobs = waiting(" ".join(f"-{number}" for number in range(IN_HAND + 1)))
    assert len(next_jobs(jobs, 1)) == IN_HAND


def test_one_process_at_a_time_has_the_jobs_of_a_chain() -> None:
    jobs = waiting("a1 a2 a3 b1")
    (begun,) = next_jobs(jobs, 2)
    assert names([begun]) == "a1"
    assert names(next_jobs(jobs, 1)) == "b1"
    assert next_jobs(jobs, 1) == []
    assert begun.chain is not None
    begun.chain.is_running = False
    assert names(next_jobs(jobs, 1)) == "a2 a3"


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
    process = WorkerProcess(Sums)
    yield process
    process.end()


def done(process: WorkerProcess, jobs: list[Waiting[str, None]]) -> list[str]:
    """The results of jobs named "chain+job"; stops where one fails."""
    results = []
    allowed = [AllowedJob(one.job[1:], ENOUGH, one.chain) for one in jobs]
    for succeeded, result in process.run(allowed):
        results.append(result if succeeded else repr(result))
    return results


def test_jobs_begin_with_what_the_one_before_in_their_chain_left(process: WorkerProcess) -> None:
    jobs = waiting("a1 b5 a2 alook a3 b1")
    assert done(process, jobs) == [
        "0 and 1",
        "0 and 5",
        "1 and 2",
        "3 and look",
        "3 and 3",
        "5 and 1",
    ]
    left = [job.chain.relay.memory for job in jobs[-2:] if job.chain is not None]
    assert left == [b"6", b"6"]


def test_what_follows_a_job_that_fails_is_not_run_until_it_is_decided(
    process: WorkerProcess,
) -> None:
    jobs = waiting("a1 abad a2")
    assert done(process, jobs) == ["0 and 1", "ValueError(b'1')"]
    assert done(process, jobs[2:]) == ["1 and 2"]


@pytest.mark.parametrize(("job", "next_begins_with"), [("look", "5"), ("1", "1")])
def test_what_a_job_begins_with_instead_of_its_memory_is_for_it_alone(
    process: WorkerProcess, monkeypatch: pytest.MonkeyPatch, job: str, next_begins_with: str
) -> None:
    monkeypatch.setattr(work, "started_anew", lambda *_: b"0")
    first, damaged, last = waiting(f"a5 a{job} a1")
    done(process, [first])
    assert damaged.start_anew("a", "it fails with its memory")
    assert not damaged.start_anew("a", "it fails without, too")
    assert done(process, [damaged]) == [f"0 and {job}"]
    damaged.done(None)
    assert done(process, [last]) == [f"{next_begins_with} and 1"]
