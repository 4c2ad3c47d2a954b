"""Attributes of nodes in their topic: sent as they change, read at once, followed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import ATTRIBUTES, COMMUNITIES, create_topics
from stream_icd.streaming.subscribers.attributes import attributes_in_topic, following_attributes
from tests.run_here import run_here
from tests.streaming.workers.tracked import outgoing, window
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.streams import publish

PC, MP = {"class": "PC"}, {"class": "MP"}


def table(path: Path, rows: dict[int, str]) -> str:
    path.write_text("node,class\n" + "".join(f"{node},{one}\n" for node, one in rows.items()))
    return str(path)


def test_what_changed_is_sent_and_programs_that_run_use_it(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    create_topics(broker.settings())
    address = ("-b", broker.bootstrap_servers)
    classes = {node: "PC" if node < 10 else "MP" for node in range(18)}
    to_graph = ("--graph", topic_name, *address)
    done = run_here("attributes", table(tmp_path / "a.csv", classes), *to_graph)
    assert done.stdout == "sent the attributes of 18 nodes (0 are as they were)\n", done.stderr
    publish(broker, [outgoing(window(topic_name, 0, [0] * 10 + [1] * 8), COMMUNITIES)])
    options = ("--from", "beginning", "--until", "end", "--format", "json", "--names", "topic")
    (line,) = run_here("subscribe", *options, *to_graph).stdout.splitlines()
    assert json.loads(line)["names"] == {"0": "PC, 10 of 10", "1": "MP, 8 of 8"}

    with following_attributes(broker.settings(), topic_name) as attributes:
        assert attributes.rows(topic_name) == {str(n): {"class": one} for n, one in classes.items()}
        publish(broker, [OutgoingRecord(ATTRIBUTES, b"no JSON", f"{topic_name}/1".encode())])
        changed = {node: one for node, one in classes.items() if node < 17} | {0: "MP", 30: "PC"}
        csv = table(tmp_path / "b.csv", changed)
        said = "2 nodes (16 are as they were); took back those of 1\n"
        done = run_here("attributes", csv, "--replace", "--dry-run", *to_graph)
        assert done.stdout == f"would send the attributes of {said}"
        done = run_here("attributes", csv, "--replace", *to_graph)
        assert done.stdout == f"sent the attributes of {said}"
        expected = {str(node): {"class": one} for node, one in changed.items()}
        wait_until(lambda: attributes.rows(topic_name) == expected)
    assert attributes_in_topic(broker.settings()).rows(topic_name) == expected
    again = attributes_in_topic(broker.settings(), topic_name).of_graph(topic_name, pa.int64())
    assert again is not None
    assert again.rows() == expected
