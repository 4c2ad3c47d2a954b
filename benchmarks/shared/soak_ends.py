"""The two ends of the soak: who sends snapshots at a rate, and who counts what comes out.

Both note each snapshot's number and a time in a file of fixed rows, so that anybody can see from
the file's size how far they are.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.snapshots import encode_snapshot

ROW = np.dtype([("number", "<u4"), ("time", "<f8")])
BACKLOG = 64
"""Snapshots that always wait while the highest rate is looked for."""
CATCH_UP_S = 30.0
"""How long the next result is waited for: what has not come by then is lost."""


@dataclass(frozen=True)
class Plan:
    """What the soak does.

    Attributes:
        data: AS topologies, one snapshot a day.
        folder: where what was sent, seen and sampled is noted.
        graph: a name of this soak's own, so that it can share topics.
        seconds: how long to send at the rate.
        calibrate_s: how long to look for the highest rate that the worker sustains.
        share: of that rate, what is sent.
    """

    data: Path
    folder: Path
    bootstrap_servers: str
    graph: str = "soak"
    seconds: float = 1800.0
    calibrate_s: float = 20.0
    share: float = 0.95

    @property
    def settings(self) -> KafkaSettings:
        return KafkaSettings(bootstrap_servers=self.bootstrap_servers)

    @property
    def sent(self) -> Path:
        return self.folder / "sent.rows"

    @property
    def seen(self) -> Path:
        return self.folder / "seen.rows"

    @property
    def offer(self) -> Path:
        return self.folder / "offer.json"


@dataclass(frozen=True)
class Offer:
    """What was sent open loop: from this number on, at this rate, since then."""

    sustained: float
    rate: float
    first: int
    began: float

    @staticmethod
    def read(plan: Plan) -> Offer | None:
        """None until it has begun."""
        return Offer(**json.loads(plan.offer.read_text())) if plan.offer.exists() else None


def rows(path: Path) -> np.ndarray:
    """`(n,)` of ROW."""
    return np.fromfile(path, ROW)


def count(path: Path) -> int:
    return path.stat().st_size // ROW.itemsize if path.exists() else 0


class Sender:
    """Sends the days over and over, each time as a snapshot of its own: deterministic."""

    def __init__(self, plan: Plan, publisher: Publisher) -> None:
        self._plan = plan
        self._records = shuffled_days(plan)
        self._publisher = publisher
        self._log = plan.sent.open("wb", buffering=0)
        self.number = 0

    def send(self, due: float) -> None:
        """Send the next snapshot, and note when it was due."""
        record = self._records[self.number % len(self._records)]
        self._publisher.send(numbered(record, f"{self._plan.graph}/{self.number}"))
        self._log.write(np.array([(self.number, due)], ROW).tobytes())
        self.number += 1


def shuffled_days(plan: Plan) -> Sequence[OutgoingRecord]:
    """All days, in an order in which any stretch of them is as dear as any other."""
    days = [
        outgoing(SNAPSHOTS, encode_snapshot(day))
        for day, _ in read_as_topology(plan.data, graph=plan.graph).snapshots
    ]
    return [days[i] for i in np.random.default_rng(0).permutation(len(days))]


def numbered(record: OutgoingRecord, snapshot_id: str) -> OutgoingRecord:
    """The same graph as another snapshot."""
    headers = dict(record.headers) | {"ce_id": snapshot_id.encode()}
    return replace(record, headers=tuple(headers.items()))


def run_sender(plan: Plan) -> None:
    """Find the highest rate, then send at a share of it whatever comes out (open loop)."""
    with Publisher(plan.settings) as publisher:
        sender = Sender(plan, publisher)
        sustained = highest_rate(plan, sender)
        offer = Offer(sustained, plan.share * sustained, sender.number, time.time())
        plan.offer.write_text(json.dumps(vars(offer)))
        for i in range(round(offer.rate * plan.seconds)):
            due = offer.began + i / offer.rate
            time.sleep(max(0.0, due - time.time()))
            sender.send(due)


def highest_rate(plan: Plan, sender: Sender) -> float:
    """Results a second while a backlog waits, less the first quarter; then lets none wait."""
    keep_a_backlog(plan, sender, lambda: count(plan.seen) > 0)
    warm = time.time() + plan.calibrate_s / 4
    keep_a_backlog(plan, sender, lambda: time.time() > warm)
    seen, began = count(plan.seen), time.time()
    end = began + plan.calibrate_s * 3 / 4
    # Not before a backlog was worked on: a worker that stands still all the while has no rate.
    keep_a_backlog(plan, sender, lambda: time.time() > end and count(plan.seen) - seen >= BACKLOG)
    rate = (count(plan.seen) - seen) / (time.time() - began)
    caught_up_by = time.time() + CATCH_UP_S
    while count(plan.seen) < sender.number and time.time() < caught_up_by:
        time.sleep(0.01)
    return rate


def keep_a_backlog(plan: Plan, sender: Sender, enough: Callable[[], bool]) -> None:
    while not enough():
        if sender.number - count(plan.seen) < BACKLOG:
            sender.send(time.time())
        else:
            time.sleep(0.002)


def run_subscriber(plan: Plan, stop: Event) -> None:
    """Note every committed result, decoded; unlike `subscribe`, this sees what comes twice."""
    key = plan.graph.encode()
    with (
        open_reader(plan.settings, COMMUNITIES, start="latest", stop=stop) as records,
        plan.seen.open("wb", buffering=0) as log,
    ):
        for record in records:
            if record.key == key:
                communities = decode_communities(record.key, record.value, record.headers)
                number = int(communities.snapshot_id.rpartition("/")[2])
                log.write(np.array([(number, time.time())], ROW).tobytes())
