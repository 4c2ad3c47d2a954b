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
    rules = ("--rule", "merged or split", "--rule", "born and size > 999")
    return alert(*rules, "--dry-run", *arguments)


def test_a_dry_run_on_an_archive_and_on_a_topic(
    memory: Broker, topic_name: str, tmp_path: Path
) -> None:
    empty = dry("--history", str(tmp_path))
    assert (empty.returncode, str(tmp_path) in empty.stderr) == (78, True)
    windows = unbroken(stream(topic_name, 8))
    create_topics(memory.settings())
    publish(memory, [outgoing(EVENTS, encode_events(window)) for window in windows])
    history = tmp_path / "history"
    for at, window in enumerate(windows):
        Archive(open_store(str(history))).add("events", encode_events(window), (at, 0))
    archived = "--history", str(history), "--graph", topic_name
    done = dry(*archived)
    *alerts, first, second = done.stdout.splitlines()
    n = len(alerts)
    assert n > 2
    assert first == f"merged or split: would have fired {n} times since 2020-01-01, in 8 windows"
    assert second.startswith("born and size > 999: would have fired 0 times since")
    assert dry("-b", memory.bootstrap_servers, "--graph", topic_name).stdout == done.stdout
    assert len(dry(*archived, "--confirmed", "3").stdout.splitlines()) - 2 < n
    nodes, communities = windows[0].nodes.to_pylist(), windows[0].communities.tolist()
    rows = "".join(f"{n},c{c}\n" for n, c in zip(nodes, communities, strict=True))
    (table := tmp_path / "names.csv").write_text(f"node,of\n{rows}")
    assert "(c" in dry(*archived, "--names", f"{topic_name}={table}").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give at least one --rule"),
        (("--rule", "merged and bitz > 1"), "  merged and bitz > 1\n             ^^^^"),
        (("--rule", "node in none.csv"), "there is no file none.csv"),
        (("--rule", "merged", "--to", "kafka:icd.events.v1"), "holds other messages"),
        (("--rule", "merged", "--to", "kafka:a", "--to", "kafka:b"), "there is one topic of"),
        (("--rule", "merged", "--to", "example.org"), "--to example.org: give https://HOST/PATH"),
        (("--rule", "merged", "--history", "h"), "--history is for --dry-run"),
        (("--rule", "merged", "--retry-for", "0s"), "--retry-for 0s: give a duration above 0"),
        (("--rule", "merged", "--oldest", "x"), "'x' is not a duration"),
    ],
)
def test_wrong_options_are_errors(arguments: tuple[str, ...], said: str) -> None:
    done = alert(*arguments)
    assert (done.returncode, said in done.stderr) == (78, True)


def test_files_of_nodes(tmp_path: Path) -> None:
    def written(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    assert read_nodes(written("a.txt", "701\n\n 7018 \n")) == {"701", "7018"}
    assert read_nodes(written("a.csv", "node,x\n701,1\n7018,2\n")) == {"701", "7018"}
    assert read_nodes(written("a.jsonl", '{"node": "x y"}\n')) == {"x y"}
    for name, text, said in (("b.csv", "id,x", "no column node"), ("b.txt", "", "has no nodes")):
        done = alert("--rule", f"node in {written(name, text)}", "--dry-run", "--history", "h")
        assert said in done.stderr
