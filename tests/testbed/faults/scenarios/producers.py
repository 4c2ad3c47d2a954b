"""Two producers are started where one was meant."""

from __future__ import annotations

from threading import Thread

from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.topics import COMMUNITIES
from stream_icd.streaming.subscribers.subscribe import subscribe
from tests.testbed.faults.ground import Ground
from tests.testbed.faults.outcome import Item, Outcome
from tests.testbed.faults.play import Play, record_of, snapshot

N_SNAPSHOTS = 20


def the_same_twice(ground: Ground) -> Outcome:
    """Both send the same snapshots at the same time; what a subscriber sees is what counts."""
    settings = ground.broker.settings()
    with Play(ground, graphs=1) as play:
        other = Thread(target=send_again, args=(ground,))
        other.start()
        play.healed()
        play.send(N_SNAPSHOTS, every_s=0.01)
        other.join()
        play.detector()
        play.wait_published(2 * N_SNAPSHOTS)
        found = subscribe(start="beginning", until="end", settings=settings, topic=COMMUNITIES)
        seen = tuple(
            Item(communities.graph, communities.snapshot_id, len(communities.nodes))
            for communities in found
        )
        return play.outcome_of(seen)


def send_again(ground: Ground) -> None:
    with Publisher(ground.broker.settings()) as publisher:
        for i in range(N_SNAPSHOTS):
            publisher.send(record_of(snapshot("g0", i)))
