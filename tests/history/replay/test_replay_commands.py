"""`stream-icd replay` and `stream-icd produce replay`: what is typed, said and refused."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import (
    BadSettings,
    ModelNotFound,
    SourceNotFound,
    StreamIcdError,
    TopicMissing,
)
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.replay.redetect import Redetection, ReplayJob
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS
from stream_icd.streaming.execution.work import InProcess
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.message import Message
from tests.history.conftest import add_snapshots, archived
from tests.history.replay.conftest import N_SNAPSHOTS, filled, make_snapshot
from tests.run_here import run_here
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.children import alive, children, worker_processes
from tests.testbed.fingerprint import fingerprint
from tests.testbed.object_store import new_folder

ROOT = Path(__file__).parents[3]
RESULTS = Selection("communities")


def run(*arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, StreamIcdError):
        raise result.exception
    assert result.exit_code == exit_code, result.output
    return result


@pytest.fixture
def again(archive: Store, model_folder: Path) -> Callable[..., Result]:
    """Replay the archive with the model, in this process, into a folder."""
    fixed = ("replay", "history", archive.uri, "--model", str(model_folder), "--engine", "serial")

    def replay(out: str | Path, *options: str, exit_code: int = 0) -> Result:
        return run(*fixed, "--out", str(out), *options, exit_code=exit_code)

    return replay


Again = Callable[..., Result]


def test_a_dry_run_says_what_would_happen_and_does_nothing(
    archive: Store, again: Again, redetection: Redetection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    said = again(out, "--dry-run", "--speed", "60x", "--to", "2026-01-01T04").stderr
    assert "4 snapshots of past" in said
    assert "windows that end from 2026-01-01 01:00:00 to 2026-01-01 04:00:00 UTC" in said
    assert f"to be detected with {redetection.version}, results to {out}" in said
    assert "takes 0:03:00 at the least" in said
    for tempo in (("--speed", f"0.{'0' * 20}1x"), ("--rate", f"0.{'0' * 300}1")):
        assert "takes 3652059 days" in again(out, "--dry-run", *tempo).stderr
    assert not out.exists()
    add_snapshots(archive, [make_snapshot(0, "over")])
    late = ("replay", "history", archive.uri, "--out", str(out), "--engine", "serial")
    late = (*late, "--from", "2026-01-01T04")
    assert "4 earlier snapshots" in run(*late).stderr
    assert "earlier snapshots" not in run(*late).stderr


def test_a_replay_compares_versions(archive: Store, again: Again, tmp_path: Path) -> None:
    to = ("--to", "2026-01-01T03", "--compare")
    streamed = again(archive.uri, *to)  # as if it were streamed
    assert "no other results of these snapshots" in streamed.stderr
    shown = again(tmp_path / "x", *to, "--method", "icd", "--k", "5")
    rows = [line.split() for line in shown.stdout.splitlines()]
    before = next(row for row in rows if "before" in row and row[0] == "past")
    replayed = next(row for row in rows if "replayed" in row and row[0] == "past")
    assert before[3] == replayed[3] == "3"
    assert replayed[1] == f"{before[1]}-icd"
    agreement = next(row for row in rows if row[:2] == ["past", before[1]] and "before" not in row)
    assert agreement[4] == "3"
    assert 0 <= float(agreement[6]) <= 1
    # Into its own archive, it is compared with what it replaces.
    shown = again(archive.uri, *to, "--k", "101")  # of 100 nodes
    assert shown.stderr.count("each node becomes its own community") == 1
    agreement = shown.stdout.splitlines()[-1].split()
    assert agreement[4:6] == ["3", "0"]  # windows, and how many are the same


def test_a_snapshot_that_is_refused_does_not_prevent_the_comparison(
    archive: Store, again: Again
) -> None:
    broken = Archive(archive).read_message(next(Archive(archive).windows()))
    table = pa.ipc.open_stream(broken.value).read_all().select(["src"])
    Archive(archive).add("snapshots", replace(broken, value=write_table(table)), (1, 1))
    shown = again(archive.uri, "--to", "2026-01-01T02", "--compare", exit_code=1)
    assert "quality, means over the windows" in shown.stdout


def test_snapshots_that_vanish_after_they_were_counted_are_said(
    archive: Store, again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> threading.Event:
        archive.delete(next(Archive(archive).windows()).path)
        return threading.Event()

    with monkeypatch.context() as patch:
        patch.setattr("stream_icd.commands.programs.process.stop_on_signals", stop)
        done = again(tmp_path / "out", exit_code=1)
    assert "removed or corrected after they were counted" in done.stderr
    again(tmp_path / "out")


def test_an_object_store_is_replayed_as_a_disk_is(
    s3: str, archive: Store, model_folder: Path, tmp_path: Path
) -> None:
    options = ["--model", str(model_folder), "--workers", "2", "--seed", "7"]
    found = []
    for past, out in (
        (archive, str(tmp_path / "out")),
        (filled(open_store(new_folder(s3))), new_folder(s3)),
    ):
        run("replay", "history", past.uri, "--out", out, *options)
        found.append(list(map(fingerprint, archived(open_store(out), RESULTS))))
    assert found[0] == found[1]
    assert len(found[1]) == N_SNAPSHOTS


def test_a_replay_takes_the_champion_of_a_registry(
    archive: Store, model_folder: Path, redetection: Redetection, tmp_path: Path
) -> None:
    registry, out = str(tmp_path / "registry"), tmp_path / "out"
    history = ["replay", "history", archive.uri, "--out", str(out), "--to", "2026-01-01T02"]
    with pytest.raises(BadSettings, match="champion is an alias of a model registry"):
        run(*history, "--model", "champion")
    run("models", "import", str(model_folder), "--registry", registry, "--first-champion")
    for engine, model in (("pool", "champion"), ("serial", redetection.model.version)):
        options = ["--model", model, "--registry", registry, "--engine", engine]
        said = run(*history, *options).stderr
        assert f"to be detected with {redetection.version}, results to {out}" in said
    assert "2 results are there already" in said  # the version goes on with what the alias began
    assert len(archived(open_store(str(out)), RESULTS)) == 2


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ((), BadSettings, "either --out or --out-topic"),
        (("--out-topic", COMMUNITIES), BadSettings, "--into-live"),
        (("--out", "o", "--graph", "pats"), BadSettings, "graph pats.*did you mean past"),
        (("--out", "o", "--ray-address", "auto"), BadSettings, "--engine ray"),
        (("--out", "o", "--model", "as@00000000"), ModelNotFound, "not as@00000000"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    archive: Store, model_folder: Path, options: tuple[str, ...], error: type, reason: str
) -> None:
    with pytest.raises(error, match=reason):
        run("replay", "history", archive.uri, "--model", str(model_folder), *options)
    with pytest.raises(SourceNotFound, match="there is no .*histry"):
        run("replay", "history", "histry", "--out", "o", "--model", str(model_folder))


@pytest.mark.brokers("memory")
def test_a_topic_is_not_made_by_a_dry_run(
    broker: Broker, make_topic: Callable[..., str], model_folder: Path
) -> None:
    source = make_topic()
    address = ["--bootstrap-servers", broker.bootstrap_servers, "--model", str(model_folder)]
    with pytest.raises(BadSettings, match="holds the snapshots: give another --out-topic"):
        run("replay", "topic", "--topic", source, "--out-topic", source, *address)
    options = ["--topic", source, "--out-topic", f"{source}.again", "--dry-run"]
    with pytest.raises(BadSettings, match="no snapshot of graph g from the beginning to the end"):
        run("replay", "topic", *options, *address, "--graph", "g")
    with pytest.raises(TopicMissing), open_reader(broker.settings(), f"{source}.again"):
        pass


@pytest.mark.brokers("memory")
def test_archived_snapshots_are_sent_again_byte_for_byte(
    broker: Broker, topic_name: str, tmp_path: Path
) -> None:
    store, graph = open_store(str(tmp_path / "history")), topic_name
    add_snapshots(store, (make_snapshot(i, graph) for i in range(4)))
    command = ("produce", "replay", store.uri, "-b", broker.bootstrap_servers)
    run(*command, "--limit", "2", "--rate", "1000/s")
    run(*command)  # goes on where it was
    with open_reader(broker.settings(), SNAPSHOTS, until="end") as records:
        found = [
            Message(record.key or b"", record.value or b"", record.headers)
            for record in records
            if record.key == graph.encode()
        ]
    assert found == archived(store)
    with pytest.raises(BadSettings, match=f"no snapshots of graph another; it holds {graph}"):
        run(*command, "--graph", "another")


def test_kill_9_of_a_replay(
    archive: Store, model_folder: Path, redetection: Redetection, tmp_path: Path
) -> None:
    out = open_store(str(tmp_path / "out"))
    options = ["--model", str(model_folder), "--seed", "7", "--out", out.uri]
    arguments = ["replay", "history", archive.uri, *options]
    command = [sys.executable, "-m", "stream_icd.commands.cli", *arguments]
    slowly = ["--workers", "1", "--speed", "600x"]  # a window every 6 seconds
    with subprocess.Popen([*command, *slowly], stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        wait_until(lambda: len(results(out)) >= 2)
        workers = worker_processes(process.pid)
        left = [*workers, *children(process.pid)]
        process.kill()
    assert workers
    wait_until(lambda: not any(map(alive, left)))
    before = {path: out.open(path).read() for path in results(out)}
    assert 2 <= len(before) < N_SNAPSHOTS

    again = run_here(*arguments, "--engine", "serial")
    assert again.returncode == 0, again.stderr
    assert f"{len(before)} results are there already" in again.stderr
    assert all(out.open(path).read() == content for path, content in before.items())
    assert len(results(out)) == N_SNAPSHOTS
    remembering = replace(redetection, settings=replace(redetection.settings, memory="auto"))
    jobs = [ReplayJob.of_archived(archive.uri, noted) for noted in Archive(archive).windows()]
    expected = [fingerprint(outcome) for _, outcome in InProcess(remembering)(jobs)]  # type: ignore[arg-type]
    assert list(map(fingerprint, archived(out, RESULTS))) == expected


def results(store: Store) -> list[str]:
    """The files that anybody sees."""
    return [path for path in store.files() if path.endswith(".parquet")]
