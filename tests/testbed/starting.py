"""Start programs of ours: in a Python of their own, or forked from a process with all imports.

A forked program is the same as what `python -m MODULE` runs, with a process id, environment, log
and exit status of its own, and it dies with the tests. Only its start differs: it takes a tenth of
the processor time. The server of its worker processes is forked from it, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import util
from pathlib import Path
from typing import Any

from stream_icd.core.child_process import start_child
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.streaming.execution import worker_process
from tests.testbed.brokers import Broker, timeouts
from tests.testbed.compile_loops import warm_up_detection
from tests.testbed.streams import publish

CLI = "stream_icd.commands.cli"
_PRELOADED = (
    f"{CLI}.main",
    *(f"stream_icd.consumers.{name}" for name in ("alert", "archive", "detect", "rows", "track")),
    *(f"stream_icd.streaming.workers.{name}" for name in ("alert", "detect", "rows", "track")),
    "stream_icd.streaming.workers.model_swap",
    "stream_icd.history.archiver",
    "stream_icd.kafka.client.broker",
    "stream_icd.registry.find",
    "stream_icd.streaming.detection.snapshot",
    "stream_icd.streaming.execution.processes",
    "pyarrow.compute",
)
_PR_SET_PDEATHSIG = 1
_ROOT = Path(__file__).parents[2]


class Forked:
    """A started program, with what tests use of `subprocess.Popen`."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self.pid = self._next(None) or 0
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._next(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._next(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _next(self, timeout_s: float | None) -> int | None:
        """The next number that is said of the program: its id, then its exit status."""
        if not select.select([self._line], [], [], timeout_s)[0]:
            return None
        return int(self._line.recv(100))


Program = Forked | subprocess.Popen[bytes]


def start_forked(
    arguments: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, module: str = CLI
) -> Program:
    """Run `MODULE ARGUMENTS`; its output goes to `log`. Only Linux forks it."""
    if sys.platform != "linux":
        return start_python(arguments, log, env=env, module=module)
    log.write_bytes(b"")  # it is there as soon as this returns
    environment = dict(os.environ if env is None else env)
    how = {"env": environment, "log": str(log.absolute()), "cwd": os.getcwd()}
    request = {"module": module, "argv": list(arguments), **how}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(_server(), [json.dumps(request).encode()], [theirs.fileno()])
    return Forked(ours)


def start_python(
    arguments: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, module: str = CLI
) -> subprocess.Popen[bytes]:
    """The same in a Python of its own, as users start it; for tests and measures of the start."""
    return start_child((sys.executable, "-m", module, *arguments), log, env=env)


@contextmanager
def consuming(
    broker: Broker, graph: str, log: Path, worker: str, *options: str, **variables: str
) -> Iterator[Program]:
    """Run `stream-icd consume WORKER` on one graph, in a group of its name, during the block.

    It has the timeouts of tests, unless `variables` say otherwise. It is killed at the end, if it
    still runs.
    """
    of_graph = ("--graph", graph, "--group", graph, "-b", broker.bootstrap_servers)
    environment = os.environ | timeouts(broker.settings()) | variables
    program = start_forked(("consume", worker, *of_graph, *options), log, env=environment)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def kill_and_restart(
    broker: Broker,
    graph: str,
    folder: Path,
    messages: Sequence[OutgoingRecord],
    n_late: int,
    worker: str,
    options: Sequence[str],
    began: Callable[[], object],
    ended: Callable[[], object],
) -> None:
    """Kill -9 a worker that has begun, and let another one go on to the end.

    The last `n_late` messages are sent after the kill: work for the second one, however much the
    first one had done by then.
    """
    publish(broker, messages[:-n_late])
    with consuming(broker, graph, folder / "first.log", worker, *options):
        began()
    publish(broker, messages[-n_late:])
    with consuming(broker, graph, folder / "second.log", worker, *options) as second:
        ended()
        second.terminate()
        assert second.wait(30) == 0, (folder / "second.log").read_text()


@cache
def _server() -> socket.socket:
    """The line to the server; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    # Neither Ctrl-C nor the end of the thread that needs it first ends it.
    subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()], start_new_session=True)
    theirs.close()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return ours


def _serve(requests: socket.socket) -> str:
    """Fork a program for each request; returns only in a program: the name of its module."""
    from stream_icd.core.imports import without_pandas

    without_pandas()
    for module in _PRELOADED:
        importlib.import_module(module)
    warm_up_detection()
    gc.freeze()
    signal.signal(signal.SIGCHLD, lambda *_: _reap())  # those that wait for a program
    while True:
        request, lines, *_ = socket.recv_fds(requests, 1 << 20, 1)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _die_with_parent()
            return _begin(json.loads(request), socket.socket(fileno=lines[0]))
        os.close(lines[0])


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _begin(request: dict[str, Any], line: socket.socket) -> str:
    """Fork a program, and wait for its end; returns in the program."""
    if program := os.fork():
        line.send(b"%d" % program)
        status = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
        with contextlib.suppress(BrokenPipeError):  # nobody wants to know
            line.send(b"%d" % status)
        os._exit(0)
    _die_with_parent()
    line.close()
    os.setsid()
    with open(os.devnull, "rb") as nothing, open(request["log"], "ab") as log:
        for stream, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(stream.fileno(), number)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["argv"]
    # What is registered in one process has no effect in its copies.
    util.Finalize(None, worker_process._end_fork_server, exitpriority=-1)
    util.spawnv_passfds = partial(_spawn, util.spawnv_passfds)
    return str(request["module"])


def _spawn(really: Any, path: Any, arguments: list[Any], descriptors: Sequence[int]) -> int:
    """Fork the server of `multiprocessing`, which has nothing to import then."""
    if b"forkserver" not in os.fsencode(arguments[-1]):
        return int(really(path, arguments, descriptors))
    if child := os.fork():
        return child
    first = 3
    for number in sorted(descriptors):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    try:
        exec(arguments[-1], {})
    finally:  # it ends by SystemExit, which is not the program's
        os._exit(0)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    # The program is the main module of its process, for its worker processes, too.
    runpy.run_module(_serve(socket.socket(fileno=int(sys.argv[1]))), None, "__main__", True)
