"""What producers send and have sent of a graph, in topics that all tests share."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import SNAPSHOTS
from stream_icd.sources.generated import independent_gn
from stream_icd.wire.communities import encode_labels
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot
from tests.run_here import run_here
from tests.testbed.brokers import Broker, wait_until


def produce(broker: Broker, *arguments: str, status: int = 0) -> str:
    """The log of a producer, which must end with this status."""
    done = run_here("produce", *arguments, "-b", broker.bootstrap_servers)
    assert done.returncode == status, done.stderr
    return done.stderr


def records(broker: Broker, graph: str, topic: str = SNAPSHOTS) -> list[Record]:
    with open_reader(broker.settings(), topic, until="settled") as found:
        return [record for record in found if record.key == graph.encode()]


def decoded(record: Record) -> Snapshot:
    return decode_snapshot(record.key, record.value, record.headers)


def archived(folder: Path, graph: str, count: int = 4) -> list[str]:
    """Put so many snapshots with labels into an archive; return the arguments of its replay."""
    archive = Archive(open_store(str(folder)))
    source = independent_gn(0, count, n_nodes=100, n_communities=5, graph=graph)
    for snapshot, labels in source.snapshots:
        assert labels is not None
        archive.add("snapshots", encode_snapshot(snapshot))
        archive.add("labels", encode_labels(labels))
    return [str(folder)]


@contextmanager
def pressing_ctrl_c(when: Callable[[], object]) -> Iterator[None]:
    """Interrupt this process, in which a producer runs, once that is true."""

    def press() -> None:
        wait_until(when)
        os.kill(os.getpid(), signal.SIGINT)

    interrupt = threading.Thread(target=press)
    interrupt.start()
    yield
    interrupt.join()


def sent(broker: Broker, graph: str, topic: str = SNAPSHOTS) -> list[Snapshot]:
    return [decoded(record) for record in records(broker, graph, topic)]
