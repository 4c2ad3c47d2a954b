"""The demonstration: it counts honestly, and leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress

from stream_icd.demo.layout import community_layout
from stream_icd.demo.run import Arrival, DemoFailed, DemoRun, Programs, demo_broker, run_demo
from stream_icd.kafka.embedded import embedded_broker

DEMO = (sys.executable, "-m", "stream_icd.cli", "demo")


def arrival(snapshot_id: str, seconds_after: float = 0.5) -> Arrival:
    ready = datetime(2026, 1, 1, tzinfo=UTC)
    result = {"snapshot_id": snapshot_id, "detected_at": ready.isoformat()}
    return Arrival(result, ready + timedelta(seconds=seconds_after))


def test_a_snapshot_without_its_result_is_lost_even_if_another_came_twice() -> None:
    run = DemoRun(3, (arrival("a"), arrival("b"), arrival("b")), dead_letters=0, seconds=1.0)
    assert run.lost == 1
    assert arrival("a", 0.25).publish_ms == pytest.approx(250)


def test_four_snapshots_from_end_to_end(tmp_path: Path) -> None:
    done = subprocess.run(
        (*DEMO, "--limit", "4", "--out", str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sent 4 snapshots, received 4 results" in done.stdout
    for word in ("decode", "features", "encode", "cluster", "publish", "NMI with the truth"):
        assert word in done.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / "communities.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_stops_everything_that_was_started(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        (*DEMO, "--limit", "1000000", "--out", str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    lines = tmp_path / "communities.jsonl"
    deadline = time.monotonic() + 120
    while not (lines.exists() and lines.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.1)
    children = descendants(demo.pid)
    assert len(children) == 4  # broker, producer, detector, subscriber
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(120) != 0
    assert [child for child in children if alive(child)] == []


def test_a_program_that_fails_ends_the_demo_with_its_last_words(tmp_path: Path) -> None:
    programs = Programs(
        produce=("produce", "lfr", "--limit", "2"),
        detect=("consume", "detect", "--model", "no-such-model"),
    )
    with (
        demo_broker(tmp_path) as settings,
        Progress(disable=True) as progress,
        pytest.raises(DemoFailed, match="ModelNotFound: no model 'no-such-model'"),
    ):
        run_demo(settings, programs, tmp_path, progress)


def test_communities_are_drawn_apart() -> None:
    labels = np.repeat(np.arange(4, dtype=np.int32), 50)
    inside = np.array([[i, i + 1] for i in range(199) if labels[i] == labels[i + 1]]).T
    positions = community_layout(inside, labels)
    centres = np.array([positions[labels == c].mean(axis=0) for c in range(4)])
    radius = max(
        np.linalg.norm(positions[labels == c] - centres[c], axis=1).max() for c in range(4)
    )
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 2 * radius * 0.9


def descendants(pid: int) -> list[int]:
    listed = subprocess.run(
        ("ps", "-eo", "pid=,ppid="), capture_output=True, text=True, check=True
    ).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    return [child for child, parent in pairs if parent == pid]


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_the_embedded_broker_is_gone_after_the_block(tmp_path: Path) -> None:
    with embedded_broker(log_file=tmp_path / "broker.log") as broker:
        assert alive(broker.pid)
    assert not alive(broker.pid)
