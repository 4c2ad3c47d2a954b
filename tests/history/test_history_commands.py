"""`stream-icd history`: what people see of the archive."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pytest
from typer.testing import CliRunner, Result

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import BadSettings, SourceNotFound
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.events import encode_events
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import add_snapshots, make_communities, make_events, make_snapshot


def history(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["history", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def filled(disk: Store) -> Store:
    """Three snapshots of two days, and the communities of the first."""
    archive = Archive(disk)
    for i in (1, 2, 30):
        archive.add("snapshots", encode_snapshot(make_snapshot(i)))
    archive.add("communities", encode_communities(make_communities(make_snapshot(1))))
    return disk


READERS = {"list": (), "show": ("test/1",), "export": ("--out", "out.csv"), "compact": ()}


@pytest.mark.parametrize("command", READERS)
def test_a_place_without_an_archive_is_named(command: str, disk: Store, tmp_path: Path) -> None:
    (tmp_path / "file.csv").touch()
    (tmp_path / "empty").mkdir()
    add_snapshots(disk, [make_snapshot(1)])  # its first write was cut short
    (file,) = Path(disk.root).rglob("*.parquet")
    file.rename(file.with_name("_0123.part"))
    nothing = "holds no archived snapshots; to archive them: .*archive"
    for place, error, reason in (
        (
            tmp_path / "histry",
            SourceNotFound,
            "there is no .*/histry: .*stream-icd consume archive",
        ),
        (tmp_path / "file.csv", BadSettings, r"/file\.csv is a file: give a folder"),
        (tmp_path / "empty", SourceNotFound, nothing),
        (disk.root, SourceNotFound, nothing),
    ):
        with pytest.raises(error, match=reason):
            history(command, str(place), *READERS[command])


@pytest.mark.parametrize("command", ["list", "export", "compact"])
def test_a_graph_that_matches_nothing_is_an_error(command: str, filled: Store) -> None:
    with pytest.raises(
        BadSettings, match="no snapshots of graph tset; it holds test; did you mean"
    ):
        history(command, filled.uri, "--graph", "tset", *READERS[command])


def test_what_matches_nothing_is_an_error_that_names_what_there_is(filled: Store) -> None:
    model = ("--model", "m@2", "--out", "o.csv")
    for command, arguments, error, reason in (
        ("list", ("--from", "2027-01-01"), BadSettings, "start from 2026-01-01 .* to 2026-01-02 "),
        ("list", ("--from", "tomorrow"), BadSettings, "--from 'tomorrow': give a day or a time"),
        ("list", ("--from", "0001-01-01T00:00+05:00"), BadSettings, "give a day or a time"),
        ("list", ("--kind", "memory"), SourceNotFound, "holds no archived memory"),
        ("export", ("--kind", "communities", *model), BadSettings, "holds those of m@1"),
        ("export", model, BadSettings, "give --kind communities or events, too"),
    ):
        with pytest.raises(error, match=reason):
            history(command, filled.uri, *arguments)
    result = history("show", filled.uri, "test/77")
    assert result.exit_code == 1
    assert "holds no snapshot test/77" in result.stderr


def test_list_counts_what_is_there_and_show_gives_the_headers(filled: Store) -> None:
    lines = history("list", filled.uri).stdout.splitlines()
    (snapshots,) = [line.split() for line in lines if line.strip().startswith("snapshots")]
    assert snapshots[1:7] == ["test", "2026-01-01", "01:00", "2026-01-02", "06:00", "3"]
    assert any(line.split()[:3] == ["communities", "test", "m@1"] for line in lines)
    listed = history("list", filled.uri, "--windows", "--kind", "snapshots", "--to", "2026-01-02")
    assert [line.split("\t")[5] for line in listed.stdout.splitlines()] == ["test/1", "test/2"]
    shown = history("show", filled.uri, "test/1").stdout.replace("}\n{", "},{")
    snapshot, communities = json.loads(f"[{shown}]")
    assert (snapshot["kind"], communities["kind"]) == ("snapshots", "communities")
    assert snapshot["headers"]["icd_k"] == "3"
    assert communities["headers"]["icd_model"] == "m@1"


def test_events_are_listed_shown_and_exported_like_the_others(
    filled: Store, tmp_path: Path
) -> None:
    Archive(filled).add("events", encode_events(make_events(make_snapshot(1), "mostly US")))
    lines = history("list", filled.uri, "--kind", "events").stdout.splitlines()
    assert lines[-1].split()[:3] == ["events", "test", "m@1"]
    (window,) = history("list", filled.uri, "--kind", "events", "--windows").stdout.splitlines()
    assert window.split("\t")[3:] == ["3", "test", "test/1", "m@1", "r1", "newest"]
    shown = history("show", filled.uri, "test/1").stdout
    assert '"kind": "events"' in shown
    assert '"icd_late": "false"' in shown
    out = tmp_path / "events.csv"
    result = history("export", filled.uri, "--kind", "events", "--model", "m@1", "--out", str(out))
    assert "3 rows" in result.stdout
    table = pyarrow.csv.read_csv(out)
    assert table["event"].to_pylist() == ["born"] * 3
    assert table["name"].to_pylist() == ["mostly US", "", ""]
    members = make_events(make_snapshot(1)).members_of(0).to_pylist()
    assert table["members"].to_pylist()[0].split() == [str(node) for node in members]


def test_compact_says_what_it_did(filled: Store) -> None:
    # A day of another zone is over when it is over in UTC.
    for before, n_days in (("2026-01-02T01:00+05:00", 0), ("2026-01-01T23:00-05:00", 1)):
        dry = history("compact", filled.uri, "--dry-run", "--before", before).stdout
        assert f"{n_days} days would be merged" in dry
    assert "date=2026-01-01: 2 windows, 2 files -> 1" in dry
    assert "1 days would be merged, 1 files would be saved" in dry
    assert len(filled.files()) == 4
    assert "1 days were merged" in history("compact", filled.uri, "--before", "2026-02-01").stdout
    assert len(filled.files()) == 3
    (file, *_) = Path(filled.root).rglob("*.parquet")
    (unfinished := file.with_name("_0123.part")).write_bytes(b"half of it")
    history("compact", filled.uri, "--before", "2999-01-01")
    assert unfinished.exists()
