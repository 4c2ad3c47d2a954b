"""Run a job in a process of its own, within a budget of time and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_icd.errors import OverBudget, Overloaded
from stream_icd.execution.budget import Allowance
from stream_icd.execution.worker_process import WorkerProcess

Job = Callable[[], Any]
"""What is done; it and its result can be pickled."""

BUDGET = Allowance(seconds=1800.0, memory_bytes=4 << 30)
"""For each job of a retraining, unless another is given."""


def open_jobs() -> Callable[[Job], Any]:
    """Return what runs a job in the process."""
    return lambda job: job()


def run_job(job: Job, budget: Allowance) -> Any:
    """Run a job, and return its result. The process never outlives this one.

    Raises:
        OverBudget: it exceeded a limit, and was ended.
        Overloaded: it was ended from outside, for example because memory ran out.
    """
    process = WorkerProcess(open_jobs)
    try:
        succeeded, result = process.do(job, budget)
    except OverBudget as error:
        raise OverBudget(
            f"learning {error} (--budget-seconds, --budget-memory). Learn from fewer windows, or "
            "raise it"
        ) from error
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


RunJob = Callable[[Job, Allowance], Any]
"""Runs a job and returns its result, as `run_job` does."""


def run_job_here(job: Job, _budget: Allowance) -> Any:
    """Run a job in this process, without limits: for trials and simulations."""
    return job()
