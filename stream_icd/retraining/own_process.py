"""Run a job in a process of its own, within a budget of time and memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stream_icd.errors import BadSettings, OverBudget, Overloaded
from stream_icd.execution.usage import Usage
from stream_icd.execution.worker_process import WorkerProcess
from stream_icd.retraining.jobs import Job, open_jobs

CLOCK_FACTOR = 10
"""Limit of wall-clock time, as a multiple of the processor time: the machine may be busy."""


@dataclass(frozen=True, slots=True)
class LearningBudget:
    """Limits for each job of a retraining.

    Attributes:
        seconds: processor time.
        memory_bytes: growth of the process's memory.

    Raises:
        BadSettings: a limit is not positive.
    """

    seconds: float = 1800.0
    memory_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.memory_bytes > 0):
            raise BadSettings(f"{self}: both limits must be above 0")

    def check(self, used: Usage) -> None:
        """Compare the limits with what was used.

        Raises:
            OverBudget: a limit is exceeded.
        """
        for taken, limit, unit in (
            (used.cpu_seconds, self.seconds, "s of processor time"),
            (used.clock_seconds, CLOCK_FACTOR * self.seconds, "s by the clock"),
            (used.memory_bytes / 1e6, self.memory_bytes / 1e6, "MB of memory"),
        ):
            if taken > limit:
                raise OverBudget(
                    f"learning took {taken:.1f} {unit}; the limit is {limit:.1f} (--budget-seconds,"
                    " --budget-memory). Learn from fewer windows, or raise it"
                )


def run_job(job: Job, budget: LearningBudget) -> Any:
    """Run a job, and return its result. The process never outlives this one.

    Raises:
        OverBudget: it exceeded a limit, and was ended.
        Overloaded: it was ended from outside, for example because memory ran out.
    """
    process = WorkerProcess(open_jobs)
    try:
        succeeded, result = process.do(job, budget)
    except (EOFError, OSError) as error:
        raise Overloaded(
            f"the learning process ended (exit status {process.end()}), as when memory runs out; "
            "the champion stays"
        ) from error
    finally:
        process.end()
    if not succeeded:
        raise result
    return result


RunJob = Callable[[Job, LearningBudget], Any]
"""Runs a job and returns its result, as `run_job` does."""


def run_job_here(job: Job, _budget: LearningBudget) -> Any:
    """Run a job in this process, without limits: for trials and simulations."""
    return job()
