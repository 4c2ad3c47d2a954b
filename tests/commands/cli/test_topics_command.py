"""`stream-icd topics` with names that nobody uses: an error, not a success that changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from stream_icd.kafka.connect import connect
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.port import TopicPartition
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import EVENTS, SNAPSHOTS, create_topics, group_members
from tests.run_here import Done, run_here
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls
from tests.testbed.streams import beside, publish

pytestmark = pytest.mark.brokers("memory")


def topics(broker: Broker, *arguments: str, status: int = 0) -> Done:
    done = run_here("topics", *arguments, "-b", broker.bootstrap_servers)
    assert done.returncode == status, done.stderr
    return done


def test_trackers_start_only_a_graph_anew_that_has_events(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    refused = topics(broker, "track-anew", "as773", "--topic", topic, status=78).stderr
    assert f"{topic} holds nothing of graph as773; it is empty: what publishes there" in refused
    publish(broker, [OutgoingRecord(topic, b"events", b"as733")])
    publish(broker, [OutgoingRecord(topic, None, b"as773")])  # as from before this was refused
    refused = topics(broker, "track-anew", "as773", "--topic", topic, status=78).stderr
    assert "holds nothing of graph as773; it holds as733; did you mean as733?\n" in refused
    topics(broker, "track-anew", "as733", "--topic", topic)
    with open_reader(broker.settings(), topic, until="end") as records:
        assert [(record.key, record.value) for record in records][2:] == [(b"as733", None)]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("track-anew", ""), "the name of the graph is empty"),
        (("detect-anew", ""), "the name of the graph is empty"),
        (("skip", "--to", "0:1", "--group", ""), "--group is empty"),
        (("detect-anew", "as733", "--group", ""), "--group is empty"),
        (
            ("detect-anew", "as733", "--group", "nobody"),
            "remembers nothing of graph as733",
        ),
    ],
)
def test_a_name_that_is_empty_or_of_nobody_is_refused(
    broker: Broker, command: tuple[str, ...], said: str
) -> None:
    create_topics(broker.settings())
    assert said in topics(broker, *command, status=78).stderr


@pytest.mark.parametrize(
    ("command", "group"),
    [
        ("track-anew", "stream-icd-track"),
        ("track-anew", "stream-icd-track-as733"),
        ("detect-anew", "stream-icd-detect"),
    ],
)
def test_no_graph_starts_anew_under_running_workers_which_would_undo_it(
    broker: Broker, command: str, group: str
) -> None:
    create_topics(broker.settings())
    publish(broker, [OutgoingRecord(EVENTS, b"events", b"as733")])
    worker = partial(run_consumer, broker.settings(), SNAPSHOTS, group, Calls(lambda _: ()))
    with beside(worker) as errors:
        wait_until(lambda: group_members(broker.settings(), group))
        refused = topics(broker, command, "as733", status=78).stderr
    assert not errors
    assert f"group {group} still has running members: stop them first" in refused
    with open_reader(broker.settings(), EVENTS, until="end") as records:
        assert all(record.value for record in records)


def test_a_group_without_a_position_skips_nothing(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic, group = make_topic(), f"{make_topic()}-group"
    skip = ("skip", "--group", group, "--topic", topic)
    refused = topics(broker, *skip, status=78).stderr
    no_position = f"group {group} has no committed position in {topic}; it has one in"
    assert f"{no_position} no topic: name another --group or --topic\n" in refused
    publish(broker, [OutgoingRecord(topic, b"1", b"g"), OutgoingRecord(topic, b"2", b"g")])
    new = topics(broker, *skip, "--to", "0:1")
    assert new.stdout == f"skipped   {topic}[0] from 0 to 1\n"
    assert f"warning: no group {group} has read {topic}: is it the right name?" in new.stderr
    assert topics(broker, *skip, "--to", "0:2").stderr == ""
    for position, said in (
        (0, f"{topic} has lost no records: group {group} keeps its position"),
        (3, f"back      {topic}[0] from 3 to 0"),  # as if the broker had lost records
    ):
        with connect(broker.settings()).admin() as admin:
            admin.move_group(group, {TopicPartition(topic, 0): position})
        assert topics(broker, *skip).stdout == f"{said}\n"
    huge = topics(broker, *skip, "--to", f"0:{10**20}", status=78)
    assert "give PARTITION:OFFSET" in huge.stderr
    elsewhere = topics(broker, *skip[:-1], make_topic(), status=78)
    assert f"it has one in {topic}: " in elsewhere.stderr
