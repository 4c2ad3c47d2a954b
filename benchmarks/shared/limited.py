"""A call that may take no more than so much processor time."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

Result = TypeVar("Result")


def within(seconds: int, call: Callable[[], Result]) -> Result | None:
    """Return what `call` returns, or None if it did not end in these seconds of processor time.

    It runs in a forked process, so that code of others can be ended too.

    Raises:
        RuntimeError: the process ended without a result, for another reason.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(call, seconds, sender))
    child.start()
    sender.close()
    try:
        result: Result = receiver.recv()
    except EOFError:
        child.join()
        if child.exitcode != -signal.SIGXCPU:
            raise RuntimeError(f"no result: exit status {child.exitcode}") from None
        return None
    child.join()
    return result


def _send(call: Callable[[], Result], seconds: int, sender: Connection) -> None:
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, most))
    sender.send(call())
