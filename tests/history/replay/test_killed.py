"""A replay that is killed leaves whole results and no processes, and goes on where it was."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Selection, read_message, windows
from stream_icd.history.replay.redetect import Redetection, archived_job
from stream_icd.streaming.execution.work import InProcess
from stream_icd.wire.message import Message
from tests.run_here import run_here
from tests.testbed.brokers import wait_until
from tests.testbed.children import alive, children, worker_processes
from tests.testbed.fingerprint import fingerprint

ROOT = Path(__file__).parents[3]
N_SNAPSHOTS = 6


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
    found = [read_message(out, noted) for noted in windows(out, Selection("communities"))]
    remembering = replace(redetection, settings=replace(redetection.settings, memory="auto"))
    jobs = [archived_job(archive.uri, noted) for noted in windows(archive, Selection())]
    expected = [outcome for _, outcome in InProcess(remembering)(jobs)]
    assert list(map(fingerprint, found)) == [
        fingerprint(message) for message in expected if isinstance(message, Message)
    ]


def results(store: Store) -> list[str]:
    """The files that anybody sees."""
    return [path for path in store.files() if path.endswith(".parquet")]
