"""The demonstration: it counts honestly, waits as long as it may, and leaves nothing running."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from stream_icd.commands.cli.demo import _Demo, app
from stream_icd.core.errors import BadSettings, StoreUnwritable
from stream_icd.interfaces.demo import run as running
from stream_icd.interfaces.demo.picture import demo_figure
from stream_icd.interfaces.demo.results import DemoResults, _complete_places
from stream_icd.interfaces.demo.run import (
    DemoRun,
    Programs,
    Story,
    _Arrival,
    _DemoFailed,
    demo_broker,
)
from stream_icd.sources.datasets.as_topology import read_as_topology
from tests.interfaces.demo.test_picture import axes_titled, found_in, results_from, run_of
from tests.real_data import real_data
from tests.testbed.brokers import wait_until

DEMO = (sys.executable, "-m", "stream_icd.commands.cli", "demo")


def told(run: DemoRun, results: DemoResults, story: Story | None = None, width: int = 300) -> str:
    """The tables that are printed."""
    printed = StringIO()
    results.tell(Console(file=printed, width=width), run, story)
    return printed.getvalue()


def test_a_snapshot_without_its_result_is_lost_and_what_was_received_is_one_line() -> None:
    found = found_in([(np.arange(10), np.repeat([0, 1], 5))] * 2)
    one, two = run_of(found).arrivals
    run = DemoRun(3, (one, two, two), dead_letters=0, seconds=10**50)
    assert run.lost == 1, "one came twice"
    assert one.publish_ms == pytest.approx(1000)
    *_, line = told(run, results_from(found), width=80).splitlines()
    assert line.startswith("sent 3 snapshots, received 3 results in 1000")
    assert line.endswith("dead letters: 0")


@pytest.mark.timeout(600)
def test_the_detector_changes_to_the_encoder_that_was_learned_from_labelled_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole system: six programs, an archive, a registry, and a detector that keeps running."""
    story = Story(tmp_path, snapshots=20, nodes=300, learn_at=12, change_at=16)
    detect = ("consume", "detect", "--batch", "1", *story.detect())
    programs = Programs(story.producers(), detect, story.consumers(), story)
    with demo_broker(tmp_path) as settings, Progress(disable=True) as progress:
        run = programs.run(settings, tmp_path, progress)
        results = DemoResults.of(run, settings, lambda _: pytest.fail("not asked"), "icd", story)
    assert (run.sent, len(run.arrivals), run.lost, run.dead_letters) == (20, 20, 0, 0)
    change, *later = run.model_changes
    assert change == story.learn_at, "the producer waits for the model"
    models = [arrival.result["model"] for arrival in run.arrivals]
    assert models[0].startswith("default@")
    assert models[-1].startswith("retrained@")
    quality = results.found.agreement
    untrained, learned = np.median(quality[:change]), np.median(quality[change : story.change_at])
    assert learned > untrained + 0.05
    alone, remembering = results.compared.values()
    assert learned > np.median(alone.agreement[change : story.change_at])
    assert np.median(remembering.agreement[5:16]) > np.median(alone.agreement[5:16])
    *_, table = told(run, results, story).partition("other communities from 16 on")
    assert "retrainer: promoted: " in capsys.readouterr().out
    assert len(re.findall(r"(?m)^│ \w+@", table)) == 3 + len(later)
    figure = demo_figure(run, results, story.change_at)
    axes = axes_titled(figure, "NMI")
    lines = [str(line.get_label()).partition(":")[0] for line in axes.get_lines()[:3]]
    assert lines == ["frozen encoder and K-means", *results.compared]
    _, *marks = [text.get_text().strip() for text in axes.texts]
    assert marks == ["other communities", models[change], *(models[at] for at in later)]


def refused(*arguments: str) -> BaseException | None:
    return CliRunner().invoke(app, arguments).exception


def test_what_is_wrong_is_refused_before_anything_starts(tmp_path: Path) -> None:
    out, table = tmp_path / "out", tmp_path / "countries.csv"
    table.write_text("node,country\n1,DE\n")
    of_data = ("--out", str(out), "--data", "as-733.tar.gz", "--names")
    for arguments, says in (
        (("--out", str(out), "--horizon", "0"), "horizon 0.0: give auto, off"),
        (
            (*of_data, f"other={table}"),
            f"--names other={table}: the graph of the demonstration is as-733",
        ),
    ):
        error = refused(*arguments)
        assert isinstance(error, BadSettings)
        assert says in str(error)
        assert not out.exists()
    out.touch()
    assert isinstance(refused("--out", str(out)), StoreUnwritable)
    for names in (str(table), f"as-733={table}"):
        demo = _Demo(data=Path("as-733.tar.gz"), names=names, view=True)
        attributes = demo.attributes()
        assert attributes is not None
        assert attributes.rows() == {"1": {"country": "DE"}}
        assert demo.programs(tmp_path).others["view"][-2:] == ("--names", names)


def test_ctrl_c_stops_everything_that_was_started(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        (*DEMO, "--limit", "1000000", "--out", str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Broker, detector, subscriber, archive, retrainer, producer: interrupted as they start.
    started = psutil.Process(demo.pid).children
    wait_until(lambda: len(started()) == 6, timeout_s=120)
    children = started()
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(120) != 0
    there = [child for child in children if child.is_running()]
    assert [child for child in there if child.status() != psutil.STATUS_ZOMBIE] == []


def test_a_program_that_fails_ends_the_demo_with_its_last_words(tmp_path: Path) -> None:
    waiting = ("subscribe",)  # of all programs, it starts soonest
    no_model = ("consume", "detect", "--model", "no-such-model")
    no_champion = Story(tmp_path, 100, first="no-such-model")
    failing = (
        (Programs([waiting], no_model), "ModelNotFound: no model 'no-such-model'"),
        (Programs([], waiting, story=no_champion), "(?s)first-champion ended .*no-such-model"),
    )
    with demo_broker(tmp_path) as settings, Progress(disable=True) as progress:
        for programs, words in failing:
            with pytest.raises(_DemoFailed, match=words):
                programs.run(settings, tmp_path, progress)


def test_a_detector_that_still_compiles_its_code_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_STALL_S", 0.1)
    log = tmp_path / "detect.log"
    log.write_text('{"event": "warming up"}\n')
    (tmp_path / "produce.log").write_text('{"event": "finished", "snapshots": 3}\n')
    ended: Any = SimpleNamespace(poll=lambda: 0)
    children: Any = {"detect": SimpleNamespace(poll=lambda: None)}
    sending = running._send(lambda *_: ended, tmp_path, Programs([()], ()))
    none: queue.SimpleQueue[_Arrival] = queue.SimpleQueue()
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(
            running._watch, children, sending, none, tmp_path, Progress(disable=True)
        )
        time.sleep(0.5)
        assert watching.running()
        log.write_text('{"event": "warming up"}\n{"event": "started"}\n')
        run = watching.result(30)
    assert (run.sent, run.lost) == (3, 3)


@pytest.mark.parametrize(
    ("sizes", "incomplete"),
    [
        ([100] * 20 + [60] + [100] * 20, [20]),
        ([100] * 40 + [30] * 26 + [98] * 3, list(range(40, 66))),
        ([100] * 40 + [30, 55], [40, 41]),
        ([100] * 40 + [30] * 60, []),  # it shrank for good
        ([30] * 40 + [100] * 40, []),  # it grew for good
        ([30, 100, 100], []),
        ([100, 70, 100, 70, 100], []),
        ([100], []),
    ],
)
def test_snapshots_that_lack_nodes_for_a_while_are_incomplete(
    sizes: list[int], incomplete: list[int]
) -> None:
    assert sorted(set(range(len(sizes))) - set(_complete_places(sizes))) == incomplete


def test_days_of_the_internet_that_its_collectors_missed_are_incomplete() -> None:
    source = read_as_topology(real_data("as733.parquet"))
    days = [(snapshot.id, snapshot.n_nodes) for snapshot, _ in source.snapshots]
    complete = _complete_places([nodes for _, nodes in days])
    missed = [day.partition("/")[2] for at, (day, _) in enumerate(days) if at not in set(complete)]
    assert len(missed) == 46
    assert missed[-2:] == ["1999-12-31", "2000-01-01"]
    assert {"1998-12-29", "1999-08-29", "1999-12-08"} < set(missed)
