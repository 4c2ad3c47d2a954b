"""How long the demonstration waits for results that do not come."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress

from stream_icd.interfaces.demo import run


def test_a_detector_that_still_compiles_its_code_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_STALL_S", 0.1)
    log = tmp_path / "detect.log"
    log.write_text('{"event": "warming up"}\n')
    (tmp_path / "produce.log").write_text('{"event": "finished", "snapshots": 3}\n')
    ended: Any = SimpleNamespace(poll=lambda: 0)
    children: Any = {"detect": SimpleNamespace(poll=lambda: None)}
    sending = run._send(lambda *_: ended, tmp_path, run.Programs([()], ()))
    runs: list[run.DemoRun] = []

    def watch() -> None:
        none: queue.SimpleQueue[run.Arrival] = queue.SimpleQueue()
        runs.append(run._watch(children, sending, none, tmp_path, Progress(disable=True)))

    waiting = threading.Thread(target=watch, daemon=True)
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    log.write_text('{"event": "warming up"}\n{"event": "started"}\n')
    waiting.join(30)
    assert [(one.sent, one.lost) for one in runs] == [(3, 3)]
