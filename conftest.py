"""Fixtures that every room's tests share: the brokers, and topics of a test's own."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from stream_icd.core.store.store import Store, open_store
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.topics import create_topics
from tests.testbed import brokers
from tests.testbed.object_store import new_folder, object_store
from tests.testbed.programs import told_missing

pytest_plugins = ("tests.fixtures.history", "tests.fixtures.stream")

# A shell that starts us in the background has us, and what we start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else the machine does, and nothing about the code.
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# Loading the loops is most of what a worker process costs, and tests start some hundred. Here, the
# server that forks them has done it before.
import_module("stream_icd.streaming.execution.worker_process")  # sets what the server imports
_server: Any = forkserver._forkserver
_server._preload_modules.append("tests.testbed.warm")


def pytest_report_header() -> list[str]:
    """Say before the first test what will be skipped for want of a program."""
    return told_missing()


@pytest.fixture(autouse=True)
def own_signals_and_log() -> Iterator[None]:
    """Put back what a command, or Ray, does to the signals and the log of this process.

    Processes that a later test forks would take the handlers over, and not end when asked to. Its
    log would go to where a command before it did, which may be closed by now: a fixture of a whole
    file may have run that command before this one has seen any test.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    handlers = {number: signal.getsignal(number) for number in numbers}
    _forget_the_log_of_commands()
    yield
    _forget_the_log_of_commands()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _forget_the_log_of_commands() -> None:
    """Undo `configure_logging` but for the handlers of pytest, which are of other classes."""
    for handler in logging.root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            logging.root.removeHandler(handler)
    logging.root.setLevel(logging.WARNING)


FIRST = (
    "tests/packaging/",
    "tests/test_",
    "tests/history/replay/",
    "benchmarks/lab/",
    "tests/learning/training/",
    "tests/interfaces/demo/",
    "benchmarks/",
    "tests/interfaces/evaluation/",
    "tests/learning/retraining/",
    "tests/interfaces/interop/",
    "tests/interfaces/view/",
    "tests/methods/bp/",
)
"""Tests that start first, in this order: among them are the longest. If a long one came last, the
other processes of a parallel run would wait for it."""

WAITING = (
    "tests/faults/",
    "tests/streaming/metrics/",
    "tests/history/",
    "tests/kafka/",
    "tests/streaming/workers/",
)
"""Tests that wait for brokers more than they work. Some are always among those that run, so that
the others have the cores; the last of them starts a while before the end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """In a fresh checkout, compile tests and loops before the processes of a parallel run start.

    Else each of them compiles all: the tests, whose assertions pytest rewrites, half a minute long.
    """
    tests = [file for path in config.args for file in sorted(Path(path).rglob("test_*.py"))]
    if not tests or list(tests[0].parent.glob(f"__pycache__/{tests[0].stem}.*")):
        return
    collect = ["-m", "pytest", "--collect-only", "-q"]
    running = [
        subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
        for command in (
            ["-m", "tests.testbed.compile_loops"],
            [*collect, *tests[::2]],
            [*collect, *tests[1::2]],
        )
    ]
    for process in running:
        process.wait()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; `--no-loadscope-reorder` makes parallel runs keep this order."""
    names = dict.fromkeys(item.nodeid.partition("::")[0] for item in items)
    waiting = _begin_with(WAITING, (name for name in names if name.startswith(WAITING)))
    working = _begin_with(FIRST, (name for name in names if not name.startswith(WAITING)))
    place = {name: 0.8 * at / len(waiting) for at, name in enumerate(waiting)}
    place |= {name: at / len(working) for at, name in enumerate(working)}
    items.sort(key=lambda item: place[item.nodeid.partition("::")[0]])


def _begin_with(first: tuple[str, ...], names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: [not name.startswith(one) for one in first])


def _open(name: str) -> Iterator[brokers.Broker]:
    with brokers.or_skip(brokers.OPENERS[name]()) as broker:
        yield broker


@pytest.fixture(scope="session")
def memory() -> Iterator[brokers.Broker]:
    """An in-memory broker, one for the whole run."""
    yield from _open("memory")


@pytest.fixture(scope="session")
def tenant() -> Iterator[brokers.Broker]:
    """An in-memory broker, one for the whole run, on which all names have a prefix."""
    yield from _open("tenant")


@pytest.fixture(scope="session")
def embedded() -> Iterator[brokers.Broker]:
    """The embedded broker, one for the whole run."""
    yield from _open("embedded")


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[brokers.Broker]:
    """Apache Kafka itself, one for the whole run: take `kafka`, for which it is awake."""
    yield from _open("sleeping kafka")


@pytest.fixture
def kafka(kafka_server: brokers.Broker) -> Iterator[brokers.Broker]:
    """Apache Kafka; between the tests of it, its server sleeps: idle, it would use most of all."""
    with nullcontext() if kafka_server.node is None else kafka_server.node.awake():
        yield kafka_server


@pytest.fixture
def mortal_kafka() -> Iterator[brokers.Broker]:
    """Apache Kafka of a test's own, which may kill it."""
    yield from _open("kafka")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `broker` runs on those of its `brokers` mark, or on both real ones."""
    if "broker" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("brokers")
        names = ("embedded", "kafka") if mark is None else mark.args
        chosen = [
            pytest.param(name, marks=[pytest.mark.kafka] if "kafka" in name else ())
            for name in names
        ]
        metafunc.parametrize("broker", chosen, indirect=True)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> brokers.Broker:
    """The broker of this run of the test: see `pytest_generate_tests`."""
    opened: brokers.Broker = request.getfixturevalue(request.param)
    return opened


@pytest.fixture
def topic_name() -> str:
    """A name that no other test uses; the topic does not exist yet."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def make_topic(broker: brokers.Broker) -> Callable[..., str]:
    """`make_topic(partitions=3)`: a topic of this test's own on `broker`, and its name."""

    def make(**spec: object) -> str:
        name = f"test-{uuid.uuid4().hex}"
        create_topics(broker.settings(), [TopicSpec(name, **spec)])  # type: ignore[arg-type]
        return name

    return make


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The options of URIs in an object store with one bucket (tests/testbed/object_store.py)."""
    with object_store() as options:
        yield options


@pytest.fixture
def disk(tmp_path: Path) -> Store:
    """An empty folder on a disk."""
    return open_store(str(tmp_path / "store"))


@pytest.fixture(params=["disk", "s3"])
def store(request: pytest.FixtureRequest) -> Store:
    """An empty folder, on a disk and in an object store: a test that takes it runs on both."""
    if request.param == "s3":
        return open_store(new_folder(request.getfixturevalue("s3")))
    on_disk: Store = request.getfixturevalue("disk")
    return on_disk
