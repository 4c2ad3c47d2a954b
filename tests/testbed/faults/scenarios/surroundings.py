"""What surrounds a detector fails: broker, network, topics, disk, producers, clocks."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from threading import Thread

from kafka import TopicPartition

from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, SNAPSHOTS, create_topics
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.wire.events import decode_events
from stream_icd.wire.snapshots import decode_snapshot
from tests.testbed.brokers import wait_until
from tests.testbed.faults.ground import CannotPlay, Ground
from tests.testbed.faults.injected import Fault
from tests.testbed.faults.play import (
    PATIENCE_S,
    TOPICS,
    Item,
    Outcome,
    Play,
    Scenario,
    delete_topics,
    held,
    record_of,
    result,
    snapshot,
)
from tests.testbed.faults.proxy import Proxy
from tests.testbed.streams import publish

N_GONE = 2
DISK = "16m"
ROOM_BYTES = 96 * 1024
INSTRUCTION = "a small disk needs user namespaces (unshare -rm), or to be root"
HOUR_S = 3600
N_SNAPSHOTS = 20


def outage(ground: Ground, away: Callable[[Ground], None], **settings: object) -> Outcome:
    """A detector is at work, and snapshots are sent, while `away` takes something away."""
    with Play(ground) as play:
        play.detector(**settings)
        with play.sending(80, every_s=0.04):
            play.wait_seen(10)
            away(ground)
            play.healed()
        return play.outcome()


def cut(ground: Ground, by: Callable[[Proxy], AbstractContextManager[None]]) -> Outcome:
    """The network fails for so long that the group has moved on; producers and readers have
    another."""

    def away(ground: Ground) -> None:
        assert ground.proxy is not None
        with by(ground.proxy):
            time.sleep(ground.outage_s)

    return outage(ground, away, bootstrap_servers=ground.proxied)


def killed(ground: Ground) -> None:
    """The broker is killed with -9, and started again on the same data."""
    ground.node.kill()
    ground.node.start()


def stopped(ground: Ground) -> None:
    """The broker is stopped in order, and started again."""
    ground.node.stop()
    ground.node.start()


def paused(ground: Ground, seconds: float = 20.0) -> None:
    """The broker neither answers nor hangs up (SIGSTOP)."""
    with ground.node.paused():
        time.sleep(seconds)


def topic_deleted(ground: Ground) -> Outcome:
    """While a snapshot is in hand; then it is made again, and more is sent."""
    with Play(ground) as play:
        play.send(40)
        first = play.detector(fault=play.long("g1/7", 3))
        play.in_hand()
        delete_topics(ground, [SNAPSHOTS])
        play.wait_stopped(first)
        done = {result(record) for record in held(ground, COMMUNITIES, until="settled")}
        play.removed = [item for item in play.sent if item not in done]
        create_topics(ground.broker.settings(), TOPICS)
        play.healed()
        play.detector()
        play.send(40)
        return play.outcome()


def offsets_gone(ground: Ground) -> Outcome:
    """Records go while no detector runs; the next one stops, until the group is moved on."""
    with Play(ground) as play:
        play.send(20)
        first = play.detector()
        play.wait_seen()
        first.terminate()
        assert first.wait(60) == 0, play.log(first)
        play.send(40)
        play.removed = remove_unread(play)
        last_words = play.wait_stopped(play.detector())
        wait_until_left(play)
        follow_the_way_out(play, last_words)
        return play.recovered()


def wait_until_left(play: Play) -> None:
    """Until the broker knows that nobody is in the group: who has ended may be on its list yet."""
    with open_admin(play.ground.broker.settings()) as admin:
        wait_until(lambda: not admin.describe_groups([play.group])[play.group]["members"])


def follow_the_way_out(play: Play, last_words: str) -> None:
    """Run the command that the error tells to run."""
    advice = shlex.split(last_words.rpartition("stream-icd ")[2])
    assert advice, last_words
    where = {"STREAM_ICD_BOOTSTRAP_SERVERS": play.ground.broker.bootstrap_servers}
    command = (sys.executable, "-m", "stream_icd.commands.cli", *advice)
    printed = subprocess.check_output(command, env=os.environ | where, text=True)
    assert printed.count("skipped") == len(printed.splitlines()) > 0


def remove_unread(play: Play) -> list[Item]:
    """Do at once what retention does in time: remove the first unread records of each partition."""
    records_left = sorted(held(play.ground, SNAPSHOTS), key=lambda record: record.partition)
    removed, ends = [], {}
    for partition, records in groupby(records_left, key=lambda record: record.partition):
        decoded = ((decode_snapshot(r.key, r.value, r.headers), r.offset) for r in records)
        items = [(Item.of(snapshot), offset) for snapshot, offset in decoded]
        unread = [(item, offset) for item, offset in items if item not in play.seen]
        removed += [item for item, _ in unread[:N_GONE]]
        ends[TopicPartition(SNAPSHOTS, partition)] = unread[N_GONE][1]
    with open_admin(play.ground.broker.settings()) as admin:
        admin.delete_records(ends)
    return removed


def disk_full(ground: Ground) -> Outcome:
    """The archive stops; after room was made, it is started again. Seen: what it holds."""
    with Play(ground) as play, small_disk(ground.folder) as disk:
        store = open_store(str(disk / "history"))
        arguments = ("archive", store.uri, "--kind", "snapshots")
        play.send(60)
        play.wait_stopped(play.program(*arguments))
        whole = archived(store)
        assert 0 < len(whole) < len(play.sent)
        assert len(store.files()) == len(whole)
        (disk / "filler").unlink()
        play.healed()
        play.program(*arguments)
        wait_until(lambda: len(archived(store)) > len(whole))
        next_after_s = play.since_healed()
        wait_until(lambda: len(archived(store)) >= len(play.sent))
        all_after_s = play.since_healed()
        outcome = play.outcome_of(archived(store))
        return replace(outcome, next_after_s=next_after_s, all_after_s=all_after_s)


def archived(store: Store) -> list[Item]:
    return [Item.of(Archive(store).read_snapshot(noted)) for noted in Archive(store).windows()]


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of its own, nearly full; its file `filler` can be removed to make room.

    It is a tmpfs in a mount namespace, which we look into from outside: so nobody need be root.

    Raises:
        CannotPlay: there are no user namespaces here.
    """
    mount = folder / "disk"
    mount.mkdir()
    script = f"mount -t tmpfs -o size={DISK} none '{mount}' && echo mounted && exec sleep infinity"
    holder = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        if holder.stdout.readline() != b"mounted\n":
            raise CannotPlay(INSTRUCTION)
        disk = Path(f"/proc/{holder.pid}/root{mount}")
        fill(disk / "filler", disk)
        yield disk
    finally:
        holder.kill()
        holder.communicate()
        mount.rmdir()


def fill(filler: Path, disk: Path) -> None:
    """Leave `ROOM_BYTES` of the disk."""
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - ROOM_BYTES))


def clocks_backwards(ground: Ground) -> Outcome:
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
        again = [record_of(snapshot("g0", i)) for i in range(N_SNAPSHOTS)]
        second = Thread(target=publish, args=(ground.broker, again))
        second.start()
        play.healed()
        play.send(N_SNAPSHOTS, every_s=0.01)
        second.join()
        play.detector()
        wait_until(lambda: len(play.sightings) >= 2 * N_SNAPSHOTS, PATIENCE_S)
        results = subscribe(start="beginning", until="end", settings=settings, topic=COMMUNITIES)
        return play.outcome_of(map(Item.of, results))


SURROUNDINGS = (
    Scenario("broker killed (-9) and restarted", partial(outage, away=killed)),
    Scenario("broker shut down and restarted", partial(outage, away=stopped)),
    Scenario("broker paused for 20 s (SIGSTOP)", partial(outage, away=paused)),
    Scenario("network refuses connections", partial(cut, by=Proxy.refusing)),
    Scenario("network delays everything", partial(cut, by=Proxy.holding)),
    Scenario("network loses connections (half open)", partial(cut, by=Proxy.losing)),
    Scenario("snapshots topic deleted and created again", topic_deleted, "78 TopicMissing"),
    Scenario("committed offset removed by retention", offsets_gone, "78 OffsetGone"),
    Scenario("disk full while archiving", disk_full, "75 StoreUnwritable"),
    Scenario("two producers send the same snapshots", the_same_twice),
    Scenario("clocks go backwards, one hour per second", clocks_backwards),
)
"""Something else than a detector fails: broker, network, topics, disk, producers, clocks."""
