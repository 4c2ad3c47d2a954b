"""Where scenarios play: Apache Kafka, reachable directly and over a network that can fail."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stream_icd.kafka.settings import KafkaSettings
from stream_icd.methods.model import Model
from stream_icd.registry.model import save_model
from tests.testbed.brokers import (
    QUICK,
    Broker,
    KafkaNode,
    apache_kafka,
    free_ports,
    kafka_classpath,
    node_properties,
)
from tests.testbed.drifting import RECIPE
from tests.testbed.faults.proxy import HOST, Proxy
from tests.testbed.secure_kafka import secure_kafka
from tests.testbed.starting import start_python

# A detector's settings in tests: shorter than in production, and so more often up. It answers
# SIGTERM so soon that a machine that stands still meanwhile does not make it break its promise.
QUICK_WAITS = QUICK["kafka"] | {
    "session_timeout_s": 2.0,
    "request_timeout_s": 4.0,
    "delivery_timeout_s": 8.0,
    "shutdown_timeout_s": 3.0,
}


class CannotPlay(Exception):
    """A scenario needs what this machine does not have; the message says what."""


@dataclass(frozen=True)
class Ground:
    """What all scenarios share.

    Attributes:
        broker: reached directly, by who watches and who sends.
        model: folder of a small model.
        folder: where logs go.
        waits: settings of the programs, in which they wait and log in; empty for those of
            production.
        start: starts programs (`testbed.starting`).
        others: further nodes, if the broker is a cluster.
        proxied: bootstrap servers behind `proxy`; all brokers it names are behind it as well.
        proxy: None: there is none.
    """

    broker: Broker
    model: Path
    folder: Path
    waits: Mapping[str, Any]
    start: Callable[..., Any] = start_python
    others: tuple[KafkaNode, ...] = ()
    proxied: str = ""
    proxy: Proxy | None = None

    @property
    def outage_s(self) -> float:
        """Longer than a session and a transaction last: the group has moved on meanwhile."""
        chosen = KafkaSettings(**self.waits)
        return 1.3 * max(chosen.session_timeout_s, chosen.transaction_timeout_s)

    @property
    def node(self) -> KafkaNode:
        assert self.broker.node is not None, "started with settings of ours"
        return self.broker.node


@contextmanager
def open_ground(
    folder: Path, waits: Mapping[str, float], start: Callable[..., Any] = start_python
) -> Iterator[Ground]:
    """Start it; one Kafka for any number of scenarios.

    Raises:
        NoKafka: it cannot be had here.
    """
    direct, controller, behind, front = free_ports(4)
    with (
        apache_kafka(**_listeners(direct, controller, behind, front)) as broker,
        Proxy(front, behind) as proxy,
    ):
        reached = {"proxied": f"{HOST}:{front}", "proxy": proxy}
        yield Ground(broker, _model(folder), folder, waits, start, **reached)


@contextmanager
def open_secure_ground(folder: Path) -> Iterator[Ground]:
    """Start one where all connections are encrypted and log in, with the waits of production."""
    with secure_kafka() as secure:
        yield Ground(secure.broker, _model(folder), folder, secure.node.let_in)


@contextmanager
def open_cluster_ground(
    folder: Path,
    waits: Mapping[str, float],
    start: Callable[..., Any] = start_python,
    **overrides: str,
) -> Iterator[Ground]:
    """Start three brokers; `overrides` are server properties, with `_` for `.`."""
    with _cluster(**overrides) as nodes:
        servers = ",".join(node.bootstrap_servers for node in nodes)
        broker = Broker("kafka", servers, nodes[0].pid, nodes[0])
        yield Ground(broker, _model(folder), folder, waits, start, others=nodes[1:])


def _model(folder: Path) -> Path:
    save_model(Model(RECIPE), folder / "model")
    return folder / "model"


def _listeners(direct: int, controller: int, behind: int, front: int) -> dict[str, str]:
    """One listener for who comes directly, and one that sends everybody through the proxy."""
    inner = f"PLAINTEXT://{HOST}:{direct},CONTROLLER://{HOST}:{controller}"
    return {
        "controller_quorum_bootstrap_servers": f"{HOST}:{controller}",
        "inter_broker_listener_name": "PLAINTEXT",
        "listeners": f"{inner},PROXIED://{HOST}:{behind}",
        "advertised_listeners": f"{inner},PROXIED://{HOST}:{front}",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "PROXIED:PLAINTEXT",
    }


_REPLICATED = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic", "default")
_WRITTEN = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")


@contextmanager
def _cluster(count: int = 3, **overrides: str) -> Iterator[tuple[KafkaNode, ...]]:
    """Start a cluster in which every partition is on each broker; its nodes are stopped at the end.

    A record counts as written once two brokers have it, so one of three may be lost at any time.
    """
    classpath = kafka_classpath()
    ports = free_ports(2 * count)
    brokers, controllers = ports[:count], ports[count:]
    voters = ",".join(f"{at}@{HOST}:{port}" for at, port in enumerate(controllers, start=1))
    with tempfile.TemporaryDirectory(prefix="stream-icd-cluster-") as name:
        nodes = []
        for at, (broker, controller) in enumerate(zip(brokers, controllers, strict=True), start=1):
            folder = Path(name) / str(at)
            folder.mkdir()
            properties = node_properties(overrides) | {
                "node.id": str(at),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{HOST}:{broker},CONTROLLER://{HOST}:{controller}",
                "advertised.listeners": f"PLAINTEXT://{HOST}:{broker}",
                **{f"{topic}.replication.factor": str(count) for topic in _REPLICATED},
                **dict.fromkeys((*_WRITTEN, "min.insync.replicas"), "2"),
            }
            del properties["controller.quorum.bootstrap.servers"]
            nodes.append(KafkaNode(classpath, folder, properties))
        try:
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(KafkaNode.format, nodes))
            for node in nodes:
                node.launch()
            for node in nodes:  # none answers before most are there
                node.wait_until_up()
            yield tuple(nodes)
        finally:
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(KafkaNode.stop, nodes))
