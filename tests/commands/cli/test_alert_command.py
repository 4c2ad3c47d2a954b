"""`stream-icd consume alert`: its options, and dry runs on a topic and on an archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.topics import EVENTS, create_topics
from stream_icd.sources.node_tables import read_nodes
from stream_icd.wire.events import encode_events
from tests.run_here import Done, run_here
from tests.streaming.workers.tracked import stream, unbroken
from tests.testbed.brokers import Broker
from tests.testbed.streams import publish


def alert(*arguments: str) -> Done:
    return run_here("consume", "alert", *arguments)


def dry(*arguments: str) -> Done:
    return alert(
        "--rule", "merged or split", "--rule", "born and size > 999", "--dry-run", *arguments
    )


def test_a_dry_run_on_an_archive_and_on_a_topic(
    memory: Broker, topic_name: str, tmp_path: Path
) -> None:
    windows = unbroken(stream(topic_name, 8))
    create_topics(memory.settings())
    publish(memory, [outgoing(EVENTS, encode_events(window)) for window in windows])
    archive = Archive(open_store(str(tmp_path)))
    for at, window in enumerate(windows):
        archive.add("events", encode_events(window), (at, 0))
    of_graph = "--graph", topic_name
    done = dry("--history", str(tmp_path), *of_graph)
    *alerts, first, second = done.stdout.splitlines()
    n = len(alerts)
    assert n > 2
    assert first == f"merged or split: would have fired {n} times since 2020-01-01, in 8 windows"
    assert second.startswith("born and size > 999: would have fired 0 times since")
    assert dry("-b", memory.bootstrap_servers, *of_graph).stdout == done.stdout
    fewer = dry("--history", str(tmp_path), "--confirmed", "3", *of_graph).stdout.splitlines()
    assert len(fewer) - 2 < n


def test_a_dry_run_with_names(tmp_path: Path) -> None:
    windows = unbroken(stream("g", 8))
    archive = Archive(open_store(str(tmp_path / "history")))
    for at, window in enumerate(windows):
        archive.add("events", encode_events(window), (at, 0))
    first = windows[0]
    rows = zip(first.nodes.to_pylist(), first.communities.tolist(), strict=True)
    (table := tmp_path / "t.csv").write_text("node,of\n" + "".join(f"{n},c{c}\n" for n, c in rows))
    done = dry("--history", str(tmp_path / "history"), "--names", f"g={table}")
    assert "(c" in done.stdout


def test_an_empty_archive_is_said(tmp_path: Path) -> None:
    done = dry("--history", str(tmp_path))
    assert done.returncode == 78
    assert str(tmp_path) in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give at least one --rule"),
        (("--rule", "merged and bitz > 1"), "  merged and bitz > 1\n             ^^^^"),
        (("--rule", "node in none.csv"), "there is no file none.csv"),
        (("--rule", "merged", "--to", "kafka:icd.events.v1"), "holds other messages"),
        (
            ("--rule", "merged", "--to", "kafka:a", "--to", "kafka:b"),
            "there is one topic of alerts",
        ),
        (("--rule", "merged", "--to", "example.org"), "--to example.org: give https://HOST/PATH"),
        (("--rule", "merged", "--history", "h"), "--history is for --dry-run"),
        (("--rule", "merged", "--retry-for", "0s"), "--retry-for 0s: give a duration above 0"),
        (("--rule", "merged", "--oldest", "x"), "'x' is not a duration"),
    ],
)
def test_wrong_options_are_errors(arguments: tuple[str, ...], said: str) -> None:
    done = alert(*arguments)
    assert done.returncode == 78
    assert said in done.stderr


def test_files_of_nodes(tmp_path: Path) -> None:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    assert read_nodes(written("a.txt", "701\n\n 7018 \n")) == {"701", "7018"}
    assert read_nodes(written("a.csv", "node,x\n701,1\n7018,2\n")) == {"701", "7018"}
    assert read_nodes(written("a.jsonl", '{"node": "x y"}\n')) == {"x y"}
    done = alert("--rule", f"node in {written('b.csv', 'id,x')}", "--dry-run", "--history", "h")
    assert "has no column node" in done.stderr
    done = alert("--rule", f"node in {written('b.txt', '')}", "--dry-run", "--history", "h")
    assert "has no nodes" in done.stderr
