"""Which jobs a process gets, and what a job takes from the one before it in its chain."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import IN_HAND, Chains, First, Relay, Waiting, next_jobs
from stream_icd.streaming.execution.worker_process import AllowedJob, WorkerProcess

ENOUGH = Allowance(seconds=60, memory_bytes=1 << 30)


def waiting(names: str) -> list[Waiting[str, None]]:
    """Jobs such as "a1 b1 a2", of the chains a and b; those that begin with "-" are of no chain."""
    chains = Chains(First())
    return [
        Waiting(name, None if name.startswith("-") else chains.link(name[0]))
        for name in names.split()
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


def test_jobs_wait_for_the_process_that_has_the_memory_of_their_chain() -> None:
    jobs = waiting("a1 a2 a3 b1")
    (begun,) = next_jobs(jobs, 2)
    assert names([begun]) == "a1"
    assert names(next_jobs(jobs, 1)) == "b1"
    assert next_jobs(jobs, 1) == []
    assert begun.link is not None
    begun.link.pass_on(b"memory")
    assert names(next_jobs(jobs, 1)) == "a2 a3"


def test_a_job_that_is_cancelled_hands_on_what_it_could_take() -> None:
    first, second, third = waiting("a1 a2 a3")
    second.future.cancel()
    assert first.link is not None
    assert third.link is not None
    assert not third.link.is_ready
    first.link.pass_on(b"memory")
    assert third.link.take() == b"memory"


class Sums:
    """Adds a number to what the job before handed on; "bad" raises, "look" hands nothing on."""

    def __call__(self, job: str, relay: Relay) -> str:
        taken = relay.take() or b"0"
        if job == "bad":
            raise ValueError(taken)
        if job != "look":
            relay.pass_on(b"%d" % (int(taken) + int(job)))
        return f"{taken.decode()} and {job}"


@pytest.fixture(scope="module")
def process() -> Iterator[WorkerProcess]:
    process = WorkerProcess(Sums)
    yield process
    process.end()


def done(process: WorkerProcess, jobs: list[Waiting[str, None]]) -> list[str]:
    """The results of jobs named "chain+job"; stops where one fails."""
    results = []
    allowed = [AllowedJob(one.job[1:], ENOUGH, one.link) for one in jobs]
    for one, (succeeded, result) in zip(jobs, process.run(allowed), strict=False):
        results.append(result if succeeded else repr(result))
        assert one.link is not None
        one.link.ended()
    return results


def test_jobs_take_what_the_one_before_in_their_chain_handed_on(process: WorkerProcess) -> None:
    jobs = waiting("a1 b5 a2 alook a3 b1")
    assert done(process, jobs) == [
        "0 and 1",
        "0 and 5",
        "1 and 2",
        "3 and look",
        "3 and 3",
        "5 and 1",
    ]
    taken = [job.link.took for job in jobs if job.link is not None]
    assert taken == [None, None, b"1", b"3", b"3", b"5"]


def test_what_follows_a_job_that_fails_is_not_run_until_it_is_decided(
    process: WorkerProcess,
) -> None:
    jobs = waiting("a1 abad a2")
    assert done(process, jobs) == ["0 and 1", "ValueError(b'1')"]
    assert done(process, jobs[2:]) == ["1 and 2"]


def test_what_a_job_takes_instead_is_for_it_alone(process: WorkerProcess) -> None:
    jobs = waiting("a5 alook a1")
    done(process, jobs[:1])
    assert jobs[1].link is not None
    jobs[1].link.instead = b"0"
    assert done(process, jobs[1:]) == ["0 and look", "5 and 1"]
