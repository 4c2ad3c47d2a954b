"""Producers and clocks that mislead: two send the same snapshots; clocks go backwards."""

from __future__ import annotations

import time
from functools import partial
from threading import Thread

from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.topics import COMMUNITIES, EVENTS
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.wire.events import decode_events
from tests.testbed.brokers import wait_until
from tests.testbed.faults.ground import Ground
from tests.testbed.faults.injected import Fault
from tests.testbed.faults.play import Item, Outcome, Play, held, record_of, snapshot

HOUR_S = 3600
N_SNAPSHOTS = 20


def backwards(ground: Ground) -> Outcome:
    """Detector, tracker and archive see times that decrease; each has everything, once."""
    fault = Fault(clock_backwards=True)
    archive = open_store(str(ground.folder / "archive"))
    with Play(ground) as play:
        play.detector(fault=fault)
        play.program("track", fault=fault)
        play.program("archive", archive.uri, "--kind", "communities", fault=fault)
        started = time.time()
        play.healed()
        play.send(40, clock=lambda: started - HOUR_S * len(play.sent))
        play.wait_seen()
        wait_until(lambda: len(held(ground, EVENTS)) >= len(play.sent))
        archived = partial(Archive(archive).windows, Selection("communities"))
        wait_until(lambda: len(list(archived())) >= len(play.sent))
        stamps = [record.timestamp_ms for record in held(ground, COMMUNITIES)]
        assert stamps != sorted(stamps), "no clock went backwards"
        tracked = [decode_events(r.key, r.value, r.headers) for r in held(ground, EVENTS)]
        assert len({events.snapshot_id for events in tracked}) == len(tracked) == len(play.sent)
        return play.outcome()


def the_same_twice(ground: Ground) -> Outcome:
    """Both send the same snapshots at the same time; what a subscriber sees is what counts."""
    settings = ground.broker.settings()
    with Play(ground, graphs=1) as play:
        second = Thread(target=send_again, args=(ground,))
        second.start()
        play.healed()
        play.send(N_SNAPSHOTS, every_s=0.01)
        second.join()
        play.detector()
        play.wait_published(2 * N_SNAPSHOTS)
        results = subscribe(start="beginning", until="end", settings=settings, topic=COMMUNITIES)
        seen = tuple(
            Item(communities.graph, communities.snapshot_id, len(communities.nodes))
            for communities in results
        )
        return play.outcome_of(seen)


def send_again(ground: Ground) -> None:
    with Publisher(ground.broker.settings()) as publisher:
        for i in range(N_SNAPSHOTS):
            publisher.send(record_of(snapshot("g0", i)))
