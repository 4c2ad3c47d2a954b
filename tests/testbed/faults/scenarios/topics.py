"""What the detector reads is taken away: by deleting the topic, or by retention."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from itertools import groupby

from kafka import TopicPartition

from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.wire.snapshots import decode_snapshot
from tests.testbed.brokers import wait_until
from tests.testbed.faults.ground import Ground
from tests.testbed.faults.play import TOPICS, Item, Outcome, Play, delete_topics, held, result

N_GONE = 2


def deleted(ground: Ground) -> Outcome:
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
        play.wait_seen()
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
        decoded = [(decode_snapshot(r.key, r.value, r.headers), r.offset) for r in records]
        items = [
            (Item(snapshot.graph, snapshot.id, snapshot.n_nodes), offset)
            for snapshot, offset in decoded
        ]
        unread = [(item, offset) for item, offset in items if item not in play.seen]
        removed += [item for item, _ in unread[:N_GONE]]
        ends[TopicPartition(SNAPSHOTS, partition)] = unread[N_GONE][1]
    with open_admin(play.ground.broker.settings()) as admin:
        admin.delete_records(ends)
    return removed
