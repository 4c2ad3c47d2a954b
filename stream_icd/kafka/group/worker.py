"""One background thread that does one thing at a time, and that may be abandoned."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, TypeVarTuple

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Worker:
    """Runs what is submitted, in order, in one daemon thread.

    Unlike an executor's thread, it does not keep the process alive: work that does not end in time
    dies with the process.
    """

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def close(self) -> None:
        self._tasks.put(None)

    def submit(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> Future[Result]:
        future: Future[Result] = Future()

        def task() -> None:
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

        self._tasks.put(task)
        return future

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
