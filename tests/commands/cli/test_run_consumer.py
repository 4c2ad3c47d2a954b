"""What every worker sees to: memory that stays flat for weeks, and an end when it is asked for."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys

import pytest

from stream_icd.commands.programs.options import WorkerOptions
from stream_icd.core.errors import BadSettings

FORGOTTEN = """
import gc, weakref
from stream_icd.commands.programs.process import FreezeWhatStays

class Fetch:
    def __init__(self):
        self.me = self

loaded = [[] for _ in range(200_000)]
watcher = FreezeWhatStays()
for batch in range(3):
    watcher.done(batch)
fetches = [Fetch() for _ in range(10)]
gc.collect(1)  # now they count as old
left = [weakref.ref(fetch) for fetch in fetches]
del fetches
for _ in range(200):
    work = [[] for _ in range(5000)]  # more than Python 3.13 waits for before it looks
print(sum(fetch() is not None for fetch in left))
"""

HEAPS = """
import ctypes, threading
from stream_icd.commands.programs.process import share_one_heap

share_one_heap()
together = threading.Barrier(4)

def work():
    together.wait()
    kept.append(bytes(10_000))
    together.wait()

kept = []
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


def run(program: str, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if k != "MALLOC_ARENA_MAX"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=plain | environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    return done


def test_what_a_client_forgets_in_cycles_is_found_soon_however_much_is_loaded() -> None:
    assert run(FORGOTTEN).stdout == "0\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap a thread")
def test_threads_share_one_heap_unless_the_environment_says_otherwise() -> None:
    assert run(HEAPS).stderr.count("Arena ") == 1
    assert run(HEAPS, MALLOC_ARENA_MAX="4").stderr.count("Arena ") > 1


def test_a_signal_is_heard_whenever_it_comes_and_a_second_one_ends_the_program() -> None:
    program = """
import os, signal, sys, threading
from stream_icd.commands.programs.process import stop_on_signals

stop = stop_on_signals()

def when_the_lock_is_held(frame, event, _):
    if event == "call" and frame.f_code is threading.Condition.wait.__code__:
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGTERM)

sys.settrace(when_the_lock_is_held)
assert stop.wait(120)
os.kill(os.getpid(), signal.SIGTERM)
"""
    run(program, status=128 + signal.SIGTERM)


def test_ctrl_c_does_not_end_what_arrow_reads() -> None:
    program = """
import io, os, signal
import pyarrow as pa
from pyarrow import csv
from stream_icd.commands.programs.process import stop_on_signals

class Interrupted(io.BytesIO):
    def read(self, size=-1):
        os.kill(os.getpid(), signal.SIGINT)
        self.read = super().read
        return super().read(size)

stop = stop_on_signals()
rows = b"7,8" + bytes([10])
assert csv.read_csv(pa.PythonFile(Interrupted(rows * 100_000), mode="r")).num_rows == 99_999
assert stop.wait(30)
"""
    run(program)


def test_an_empty_group_is_refused() -> None:
    with pytest.raises(BadSettings, match="--group is empty"):
        WorkerOptions(group="")
