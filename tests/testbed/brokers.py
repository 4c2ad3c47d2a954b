"""The brokers that the tests run on: in-memory, embedded, and Apache Kafka itself.

Apache Kafka is looked for in this order:

1. `STREAM_ICD_TEST_KAFKA`: bootstrap servers of one that runs already (crash tests are skipped);
2. `KAFKA_HOME`: an unpacked distribution, whose jars we start;
3. Maven: the jars of tests/testbed/kafka_pom.xml, fetched once into a cache
   (`STREAM_ICD_TEST_CACHE`, default ~/.cache/stream_icd).

It runs as a single KRaft node on loopback, on free ports, with its data in a temporary folder,
and is stopped by its own process id. `open_cluster_ground` (tests/testbed/faults) starts several.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.core.errors import BrokerUnavailable, MissingExtra
from stream_icd.kafka.connect import connect
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.settings import KafkaSettings

POM = Path(__file__).with_name("kafka_pom.xml")
# Not 4.3.0 to 4.4.0: after a crash they may never end a transaction (KAFKA-20734).
KAFKA_VERSION = "4.2.1"
START_TIMEOUT_S = 60.0
ALONE = ("--standalone",)
INSTRUCTION = (
    "Apache Kafka is needed: set STREAM_ICD_TEST_KAFKA to bootstrap servers, or KAFKA_HOME to an "
    "unpacked distribution, or install Java 17 and Maven (the jars are then fetched and cached)"
)
# Tests should not wait for what people wait for in production. Joining the embedded broker's
# groups takes half a session. A Kafka that we did not start may refuse sessions shorter than 6 s.
QUICK: dict[str, dict[str, float]] = {
    "memory": {"transaction_timeout_s": 2.0},
    "embedded": {"session_timeout_s": 2.0, "heartbeat_interval_s": 0.2},
    "kafka": {"session_timeout_s": 3.0, "heartbeat_interval_s": 0.3, "transaction_timeout_s": 2.0},
}
# On a busy machine a broker may stand still for a while, and is there all the same.
ANSWERS_WITHIN_S = 30.0
_HELD: list[socket.socket] = []
_Opened = TypeVar("_Opened")


class NoKafka(Exception):
    """Apache Kafka cannot be had on this machine; the message says what to set."""


def kafka_is_required() -> bool:
    """In CI a missing Kafka is a failure, elsewhere a skip."""
    return os.environ.get("CI") == "true" or os.environ.get("STREAM_ICD_REQUIRE_KAFKA") == "1"


@dataclass(frozen=True)
class Broker:
    """A broker under test; `node` is there where we started Apache Kafka ourselves."""

    name: str
    bootstrap_servers: str
    pid: int | None = None
    node: KafkaNode | None = None
    prefix: str = ""  # before all names

    def settings(self, **overrides: Any) -> KafkaSettings:
        """How to reach it, with timeouts for tests."""
        own = {} if self.name == "kafka" and self.node is None else QUICK[self.name]
        let_in = self.node.let_in if self.node else {}
        address = {
            "bootstrap_servers": self.bootstrap_servers,
            "connect_timeout_s": ANSWERS_WITHIN_S,
            "topic_prefix": self.prefix,
        }
        return KafkaSettings(**{**address, **own, **let_in, **overrides})

    def steady(self, **overrides: Any) -> KafkaSettings:
        """For a member or a transaction that must outlast a standstill of the machine.

        Kafka's groups are joined as fast with a long session. The embedded broker's are not, and
        need none: there a member that is alone keeps its place.
        """
        lasting = {"session_timeout_s": 30.0, "transaction_timeout_s": 30.0}
        own = {} if self.name == "embedded" else lasting
        return self.settings(**{"shutdown_timeout_s": 30.0, **own, **overrides})


def timeouts(settings: KafkaSettings) -> dict[str, str]:
    """The timeouts of members and transactions, as the environment of a program has them."""
    names = ("session_timeout_s", "heartbeat_interval_s", "transaction_timeout_s")
    return {f"STREAM_ICD_{name.upper()}": str(getattr(settings, name)) for name in names}


@contextmanager
def memory() -> Iterator[Broker]:
    with memory_broker() as broker:
        yield Broker("memory", broker.bootstrap_servers, os.getpid())


@contextmanager
def tenant() -> Iterator[Broker]:
    """An in-memory broker on which all names have a prefix."""
    with memory() as broker:
        yield replace(broker, prefix="team-a.")


@contextmanager
def embedded() -> Iterator[Broker]:
    with embedded_broker() as broker:
        yield Broker("embedded", broker.bootstrap_servers, broker.pid)


@contextmanager
def apache_kafka(**overrides: str) -> Iterator[Broker]:
    """Apache Kafka; `overrides` are server properties, with `_` for `.`.

    Raises:
        NoKafka: it cannot be had here.
    """
    running = os.environ.get("STREAM_ICD_TEST_KAFKA")
    if running and not overrides:
        yield Broker("kafka", running)
        return
    classpath = kafka_classpath()
    with tempfile.TemporaryDirectory(prefix="stream-icd-kafka-") as folder:
        node = KafkaNode(classpath, Path(folder), node_properties(overrides))
        node.format()
        node.start()
        try:
            yield Broker("kafka", node.bootstrap_servers, node.pid, node)
        finally:
            node.stop()


@contextmanager
def kafka_listening(
    name: str, protocol: str, advertised: str | None = None, **properties: str
) -> Iterator[tuple[Broker, str]]:
    """Apache Kafka with one more listener, and the address of that one.

    It tells clients to connect there, or to an `advertised` address.
    """
    address = f"127.0.0.1:{free_ports(1)[0]}"
    own = node_properties(properties)
    own["listeners"] += f",{name}://{address}"
    own["advertised.listeners"] += f",{name}://{advertised or address}"
    own["listener.security.protocol.map"] += f",{name}:{protocol}"
    with apache_kafka(**own) as running:
        yield running, address


@contextmanager
def sleeping_kafka() -> Iterator[Broker]:
    """The same, which may sleep for long (`KafkaNode.awake`), and is not to be killed."""
    ours = not os.environ.get("STREAM_ICD_TEST_KAFKA")
    # Else it would lose the session that it has with itself.
    with apache_kafka(**{"broker_session_timeout_ms": "3600000"} if ours else {}) as broker:
        yield broker


def kafka_classpath() -> str:
    """The jars of Apache Kafka, as Java takes them."""
    if shutil.which("java") is None:
        raise NoKafka(INSTRUCTION)
    home = os.environ.get("KAFKA_HOME")
    libs = Path(home) / "libs" if home else _maven_jars()
    if not any(libs.glob("kafka_*.jar")):
        raise NoKafka(f"{libs} holds no Kafka server. {INSTRUCTION}")
    return f"{libs}/*"


def _maven_jars() -> Path:
    default = Path.home() / ".cache" / "stream_icd"
    cache = Path(os.environ.get("STREAM_ICD_TEST_CACHE", default)) / f"kafka-{KAFKA_VERSION}"
    libs = cache / "libs"
    with _alone(cache):
        if not (cache / "complete").exists():
            if shutil.which("mvn") is None:
                raise NoKafka(INSTRUCTION)
            _fetch_with_maven(libs)
            (cache / "complete").touch()
        if not _class_archive(f"{libs}/*").exists():
            _archive_classes(f"{libs}/*")
    return libs


def _class_archive(classpath: str) -> Path:
    """Where the classes of a server are kept as Java has them in memory, if it could do that."""
    return Path(classpath).parents[1] / "server.jsa"


def _archive_classes(classpath: str) -> None:
    """Start a server once, so that later ones start in half the time: Java keeps its classes."""
    archive = _class_archive(classpath)
    with tempfile.TemporaryDirectory(prefix="stream-icd-kafka-") as folder:
        written = Path(folder) / archive.name
        options = (f"-XX:ArchiveClassesAtExit={written}",)
        node = KafkaNode(classpath, Path(folder), node_properties({}), options=options)
        node.format()
        node.start()
        node.stop(timeout_s=60.0)
        written.touch()  # a Java that cannot do it does not take part, and is not asked again
        shutil.move(written, archive)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other test processes out for the length of the block: one fetches, the rest find."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_with_maven(libs: Path) -> None:
    libs.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode != 0:
        raise NoKafka(f"Maven could not fetch Kafka: {done.stdout[-800:]} {INSTRUCTION}")


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listens on, all different.

    Linux gives them to nobody else as long as we are bound to them, and lets a server listen there
    all the same, where both set SO_REUSEADDR: now, and when it is killed and started again.
    """
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    if sys.platform == "linux":
        _HELD.extend(probes)
    else:
        for probe in probes:
            probe.close()
    return ports


def node_properties(overrides: dict[str, str]) -> dict[str, str]:
    """The server properties of a single node on loopback; `overrides` with `_` for `.`."""
    broker, controller = (f"127.0.0.1:{port}" for port in free_ports(2))
    listeners = f"PLAINTEXT://{broker},CONTROLLER://{controller}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": controller,
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "auto.create.topics.enable": "false",
        "log.retention.check.interval.ms": "60000",  # half of what an idle server uses, if often
        "log.segment.delete.delay.ms": "100",
        "metadata.max.idle.interval.ms": "0",  # a third of what an idle server uses
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    } | {name.replace("_", "."): value for name, value in overrides.items()}


@dataclass
class KafkaNode:
    """One Apache Kafka server process: started, paused, killed and started again by tests.

    `let_in` are the settings without which it lets no client in, if any; `options` are Java's.
    """

    classpath: str
    folder: Path
    properties: dict[str, str]
    let_in: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        assert self.process is not None, "start it first"
        return self.process.pid

    @property
    def bootstrap_servers(self) -> str:
        return self.properties["listeners"].split(",")[0].split("://")[1]

    @property
    def _config(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self.folder / "kafka.log"

    def format(self, *options: str) -> None:
        """Write the settings, and make the data folder ready for a first start."""
        lines = [f"{k}={v}" for k, v in self.properties.items()]
        lines.append(f"log.dirs={self.folder / 'data'}")
        self._config.write_text("\n".join(lines))
        tool = ["kafka.tools.StorageTool", "format", "-t", "A" * 21 + "A", "-c", str(self._config)]
        tool += options if "controller.quorum.voters" in self.properties else ALONE + options
        self._java(tool, "-Xmx256M", "-XX:TieredStopAtLevel=1")

    def start(self) -> None:
        """Start the server on its data folder and ports, and wait until it answers."""
        self.launch()
        self.wait_until_up()

    def launch(self) -> None:
        """Start the process, which ends with the thread that starts it."""
        command = self._command(["kafka.Kafka", str(self._config)], "-Xmx1G", *self.options)
        self.process = start_child(command, self._log)

    def wait_until_up(self) -> None:
        settings = KafkaSettings(
            bootstrap_servers=self.bootstrap_servers,
            connect_timeout_s=START_TIMEOUT_S,
            **self.let_in,
        )
        try:
            with connect(settings).admin():
                pass
        except BrokerUnavailable as error:
            self.kill()
            raise NoKafka(f"it did not start: {tail(self._log)}") from error

    def stop(self, timeout_s: float = 20.0) -> None:
        """SIGTERM, and SIGKILL when that takes too long."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            stop_children([self.process], timeout_s)
            self.process = None

    def kill(self) -> None:
        """As if the power went: kill -9."""
        self.process.kill()
        self.process.wait()
        self.process = None

    @contextmanager
    def awake(self) -> Iterator[None]:
        """The server runs for the length of the block, and then sleeps until the next (SIGSTOP)."""
        os.kill(self.pid, signal.SIGCONT)
        yield
        if self.process is not None:
            os.kill(self.pid, signal.SIGSTOP)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The server neither answers nor hangs up for the length of the block (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            wait_until(self._all_threads_stand_still)
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def _all_threads_stand_still(self) -> bool:
        """Each stops by itself, some a moment after the others; only Linux tells when."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)

    def _java(self, arguments: list[str], *options: str) -> None:
        command = self._command(arguments, *options)
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode != 0:
            raise NoKafka(f"{arguments[0]} failed: {done.stdout[-800:]}{done.stderr[-800:]}")

    def _command(self, arguments: list[str], *options: str) -> list[str]:
        archive = _class_archive(self.classpath)
        if archive.exists():
            options += (f"-XX:SharedArchiveFile={archive}",)
        return ["java", *options, "-cp", self.classpath, *arguments]


@contextmanager
def or_skip(opening: AbstractContextManager[_Opened]) -> Iterator[_Opened]:
    """What is opened; if it cannot be had, skip the test, or fail where Kafka is required.

    For fixtures, since an error of the block counts as one of the opening.
    """
    import pytest

    try:
        with opening as opened:
            yield opened
    except UNAVAILABLE as error:
        if isinstance(error, NoKafka) and kafka_is_required():
            pytest.fail(str(error))
        pytest.skip(str(error))


def wait_until(condition: Any, timeout_s: float = 60.0, every_s: float = 0.05) -> None:
    """Poll `condition` until it is true; fail when it has not become true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not true within {timeout_s} s: {condition}"
        time.sleep(every_s)


OPENERS = {
    "memory": memory,
    "tenant": tenant,
    "embedded": embedded,
    "kafka": apache_kafka,
    "sleeping kafka": sleeping_kafka,
}
UNAVAILABLE = (NoKafka, MissingExtra)
