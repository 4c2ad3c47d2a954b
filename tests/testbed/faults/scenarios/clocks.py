"""Clocks go backwards: those of the producer and of every worker."""

from __future__ import annotations

import time

from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Selection, windows
from stream_icd.kafka.topics import COMMUNITIES, EVENTS
from stream_icd.wire.events import decode_events
from tests.testbed.brokers import wait_until
from tests.testbed.faults.ground import Ground
from tests.testbed.faults.injected import Fault
from tests.testbed.faults.outcome import Outcome
from tests.testbed.faults.play import Play, held

HOUR_S = 3600


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
        wait_until(lambda: len(list(windows(archive, Selection("communities")))) >= len(play.sent))
        stamps = [record.timestamp_ms for record in held(ground, COMMUNITIES)]
        assert stamps != sorted(stamps), "no clock went backwards"
        tracked = [decode_events(r.key, r.value, r.headers) for r in held(ground, EVENTS)]
        assert len({events.snapshot_id for events in tracked}) == len(tracked) == len(play.sent)
        return play.outcome()
