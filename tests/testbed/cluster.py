"""A cluster of Apache Kafka on this machine: every partition is on each broker.

A record counts as written once two brokers have it, so one of three may be lost at any time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.brokers import KafkaNode, free_ports, kafka_classpath, node_properties

HOST = "127.0.0.1"
REPLICATED = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic", "default")
WRITTEN = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")


@contextmanager
def kafka_cluster(count: int = 3, **overrides: str) -> Iterator[tuple[KafkaNode, ...]]:
    """Start it; its nodes are stopped at the end of the block.

    `overrides` are server properties, with `_` for `.`.

    Raises:
        NoKafka: it cannot be had here.
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
                **{f"{what}.replication.factor": str(count) for what in REPLICATED},
                **dict.fromkeys((*WRITTEN, "min.insync.replicas"), "2"),
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
