"""`stream-icd explain`: words first, numbers after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from stream_icd.commands.cli.report import _say_numbers
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.methods.tracking.explain import explain
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.methods.tracking.test_explain import AFTER, BEFORE, GRAPHS, TRACKED, graph
from tests.run_here import Done, run_here
from tests.streaming.workers.tracked import window


@pytest.fixture
def history(tmp_path: Path) -> str:
    archive = Archive(open_store(str(tmp_path / "history")))
    for hour, labels in enumerate((BEFORE, AFTER)):
        snapshot = graph(hour, labels, hour * ((9, 0), (9, 1)))
        archive.add("snapshots", encode_snapshot(snapshot), (hour, 0))
        archive.add("communities", encode_communities(window("g", hour, labels)), (hour, 1))
    return str(tmp_path / "history")


def explained(history: str, *options: str, status: int = 0) -> Done:
    done = run_here("explain", "--history", history, *options)
    assert done.returncode == status, done.stderr
    return done


def test_a_move_is_told_in_words_and_then_in_numbers(history: str, tmp_path: Path) -> None:
    rows = "".join(f"{node},{'PC' if node < 7 else 'MP'}\n" for node in range(20))
    (classes := tmp_path / "classes.csv").write_text(f"node,class\n{rows}")
    done = explained(history, "--node", "9", "--names", str(classes))
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Node 9 is in community 1 (MP, 13 of 13) in the window of 2020")
    assert lines[2].split() == ["community", "probability", "edges"]
    assert [line.split()[0] for line in lines[3:5]] == ["1", "0"]
    told = [lines.index(f"edges for {whose}:") for whose in ("its community", "others")]
    said = lines.index("It was in community 0 (PC, 7 of 7) until 2020-01-01 01:00.")
    assert 4 < told[0] < told[1] < said
    assert "moved with it: 7, 8" in lines
    assert "edge to community" in " ".join(done.stdout.split())
    assert done.stderr == ""
    for node, status, why in (
        ("1009", 0, f"{classes} has no node of the graph: no community has a name"),
        ("AS9", 78, "names nodes by text, the graph by integers"),
    ):
        classes.write_text(f"node,class\n{node},PC\n")
        of_node = ("--node", "9", "--names", str(classes))
        assert why in explained(history, *of_node, status=status).stderr


def test_ids_as_long_as_a_uuid_are_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    found, to = explain("9", TRACKED, GRAPHS[:1]), str(UUID(int=2**127))
    first, *others = found.edges
    _say_numbers(replace(found, edges=(replace(first, to=to), *others)))
    lines = capsys.readouterr().out.split("edge to")[1].split("\n\n")[0].splitlines()
    assert lines[1].startswith(f"{to} ")
    assert {len(line) for line in lines[1:]} == {len(to) + len(lines[0])}


def test_a_community_is_told_in_words_and_then_in_numbers(history: str) -> None:
    done = explained(history, "--community", "1")
    lines = done.stdout.splitlines()
    assert lines[0] == "Community 1 has 13 members in the window of 2020-01-01 01:00 UTC."
    assert "bits for two communities rather than one with community 0:" in lines
    assert "member inside across" in " ".join(done.stdout.split())
    early = explained(history, "--community", "0", "--at", "2020-01-01").stdout
    assert "In the window after, 7 are in it, 3 in community 1." in early
    early = explained(history, "--node", "9", "--at", "2020-01-01T00:30:00Z").stdout
    assert "Node 9 is in community 0" in early


def test_what_cannot_be_explained_is_an_error(history: str, tmp_path: Path) -> None:
    for options, said in (
        (("--node", "9", "--community", "1"), "give --node or --community, one of them"),
        (("--node", "99"), "has node '99'; nodes of that window are, for example, 0, 1, 2"),
        (("--node", "9", "--at", "2019-01-01"), "the first window begins at 2020"),
    ):
        assert said in explained(history, *options, status=78).stderr

    archive = Archive(open_store(str(tmp_path)))  # such as that of a replay
    for name in ("g", "h"):
        archive.add("communities", encode_communities(window(name, 0, BEFORE)))
    refused = explained(str(tmp_path), "--node", "9", status=78).stderr
    assert "holds 2 graphs: choose with --graph: g, h" in refused
    refused = explained(str(tmp_path), "--node", "9", "--graph", "g", status=78).stderr
    assert "holds the communities of g/0, not the snapshot itself" in refused
