"""Corrections in the archive: every revision is kept, and the newest is what people get."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app
from stream_icd.core.communities import Labels
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import Store
from stream_icd.history import files
from stream_icd.history.archive import Archive, Selection, compact, read_snapshot, windows
from stream_icd.history.archiver import Archiver
from stream_icd.history.export import export
from stream_icd.history.files import Kind
from stream_icd.kafka.messages.records import Processed
from stream_icd.kafka.record import Record
from stream_icd.wire.communities import encode_communities, encode_labels
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import make_communities, make_snapshot


def corrected(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, edges=snapshot.edges[:, 1:])


def archive(store: Store, kind: Kind, messages: list[Message]) -> list[str]:
    """Archive a topic that holds these messages; what the log says of each."""
    step, said = Archiver(Archive(store), kind), []
    for offset, message in enumerate(messages):
        record = Record(
            "t", 0, offset, 1_700_000_000_000, message.key, message.value, message.headers
        )
        outcome = step.process(record)
        assert isinstance(outcome, Processed)
        said.append(outcome.event)
    return said


def contents(store: Store, **selection: object) -> list[str]:
    found = windows(store, Selection(**selection))  # type: ignore[arg-type]
    return [read_snapshot(store, noted).content for noted in found]


def test_a_correction_is_kept_beside_what_it_corrects(disk: Store) -> None:
    one, two = make_snapshot(0), corrected(make_snapshot(0))
    sent = [encode_snapshot(each) for each in (one, two, one)]
    assert archive(disk, "snapshots", sent) == ["archived", "archived", "archived before"]
    assert contents(disk) == [one.content]  # the correction was taken back
    assert contents(disk, revisions="all") == [two.content, one.content]
    archive(disk, "snapshots", [*sent, sent[1]])  # a producer was restarted
    assert contents(disk) == [two.content]
    assert contents(disk, revisions="all") == [one.content, two.content]


@pytest.mark.parametrize("again", [0, 1])
def test_merging_keeps_revisions_and_which_is_the_newest(store: Store, again: int) -> None:
    both = [make_snapshot(0), corrected(make_snapshot(0))]
    sent = [encode_snapshot(each) for each in (*both, make_snapshot(1))]
    archive(store, "snapshots", sent)
    list(compact(store, date(2030, 1, 1)))
    assert contents(store, revisions="all") == [one.content for one in (*both, make_snapshot(1))]
    archive(store, "snapshots", [*sent, sent[again]])
    list(compact(store, date(2030, 1, 1)))
    assert len(store.files()) == 1
    assert contents(store) == [both[again].content, make_snapshot(1).content]


def test_a_snapshot_without_a_hash_gets_one(disk: Store) -> None:
    """A producer in another language need not hash."""
    sent = [encode_snapshot(each) for each in (make_snapshot(0), corrected(make_snapshot(0)))]
    without = [
        Message(
            message.key, message.value, tuple(h for h in message.headers if h[0] != "icd_content")
        )
        for message in sent
    ]
    archive(disk, "snapshots", without)
    (noted,) = windows(disk, Selection())
    assert read_snapshot(disk, noted) == corrected(make_snapshot(0))
    assert dict(noted.headers) == dict(sent[1].headers)


def test_results_and_labels_have_revisions_too(disk: Store) -> None:
    one = make_communities(make_snapshot(0))
    found = [replace(one, revision=revision, seed=3) for revision in ("", "a", "b")]
    archive(disk, "communities", [encode_communities(each) for each in found])
    named = one.graph, one.snapshot_id, one.window, one.nodes
    known = [Labels(*named, labels) for labels in (one.labels, np.zeros_like(one.labels))]
    archive(disk, "labels", [encode_labels(each) for each in known])
    newest = {kind: list(windows(disk, Selection(kind))) for kind in ("communities", "labels")}
    assert [noted.identity.revision for noted in newest["communities"]] == ["b"]
    assert len(newest["labels"]) == 1
    both = Selection("labels", revisions="all")
    assert list(windows(disk, both))[1].identity == newest["labels"][0].identity


def test_people_see_that_there_are_revisions(disk: Store, tmp_path) -> None:
    one, two = make_snapshot(0), corrected(make_snapshot(0))
    archive(disk, "snapshots", [encode_snapshot(each) for each in (one, two, make_snapshot(1))])

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["history", *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    heading, row = run("list", disk.root).splitlines()
    assert heading.split()[-5:-2] == ["windows", "revisions", "rows"]
    assert row.split()[-5:-3] == ["2", "3"]
    lines = [line.split("\t") for line in run("list", disk.root, "--windows").splitlines()]
    assert [(line[-2], line[-1]) for line in lines] == [
        (one.content[:12], "superseded"),
        (two.content[:12], "newest"),
        (make_snapshot(1).content[:12], "newest"),
    ]
    shown = run("show", disk.root, one.id).replace("}\n{", "},{")
    assert [each["newest"] for each in json.loads(f"[{shown}]")] == [False, True]
    out = tmp_path / "rows.parquet"
    assert export(disk, Selection(), out) < export(disk, Selection(revisions="all"), out)
    assert len(set(pq.read_table(out)["revision"].to_pylist())) == 3


def test_files_of_the_first_layout_are_read_and_are_the_oldest(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no revision and no time in their footers."""
    one = make_snapshot(0)
    plain = encode_snapshot(one)
    without = tuple(header for header in plain.headers if header[0] != "icd_content")
    old = Message(plain.key, plain.value, without)
    whole = files._to_json

    def first_layout(noted: files.ArchivedWindow) -> dict[str, object]:
        return {k: v for k, v in whole(noted).items() if k not in ("revision", "received")}

    with monkeypatch.context() as patch:
        patch.setattr(files, "_to_json", first_layout)
        Archive(disk).add("snapshots", old)
    assert contents(disk) == [one.content]
    archive(disk, "snapshots", [encode_snapshot(corrected(one))])
    assert contents(disk) == [corrected(one).content]
    assert len(contents(disk, revisions="all")) == 2
