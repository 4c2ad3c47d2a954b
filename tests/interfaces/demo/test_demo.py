"""The demonstration: honest about what is unsure, legible, patient; it leaves nothing running."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from stream_icd.commands.cli.demo import _Demo, app
from stream_icd.commands.cli.subscribe_shapes import shape_of
from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.errors import BadSettings, StoreUnwritable
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import snapshot_from_pairs
from stream_icd.interfaces.demo import run as running
from stream_icd.interfaces.demo.picture import _happened, demo_figure, draw_story
from stream_icd.interfaces.demo.results import _ALONE, DemoResults, FoundSeries, _complete_places
from stream_icd.interfaces.demo.run import (
    DemoRun,
    Programs,
    Story,
    _Arrival,
    _DemoFailed,
    demo_broker,
)
from stream_icd.interfaces.view.alluvial import COLOURS, _Bands, _Label, _places_of_labels, _stack
from stream_icd.interfaces.view.panels.community_map import community_layout
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.sources.datasets.as_topology import read_as_topology
from tests.real_data import real_data
from tests.testbed.brokers import wait_until
from tests.testbed.windows import START, follow, window


def found_in(windows: Iterable[tuple[np.ndarray, np.ndarray]]) -> list[Communities]:
    """Results of an hour each, of nodes and labels; nothing is sure of the first one."""
    return [
        replace(
            window(at, labels, nodes),
            modularity=0.5,
            evidence="strong" if at else "none",
            bits_saved=0.75,
            milliseconds=dict.fromkeys(STAGES, 5.0),
        )
        for at, (nodes, labels) in enumerate(windows)
    ]


def run_of(found: Sequence[Communities]) -> DemoRun:
    """A run in which each result arrived a second after it was there."""
    document, at = shape_of("communities").document, START + timedelta(seconds=1)
    arrivals = tuple(_Arrival(document(result), at) for result in found)
    return DemoRun(len(found), arrivals, dead_letters=0, seconds=1.0)


def results_from(
    found: Sequence[Communities], *, truth: bool = False, alone: Sequence[Communities] = ()
) -> DemoResults:
    """What is drawn of results; with a truth, they agree with it, and those `alone` do not."""
    complete = [found[at] for at in _complete_places([len(result.nodes) for result in found])]
    last, n = complete[-1], len(found) * truth
    path = snapshot_from_pairs(
        last.nodes[:-1], last.nodes[1:], graph="g", id=last.snapshot_id, window=last.window
    )
    compared = {_ALONE: FoundSeries(follow(alone), [0.4] * n)} if alone else {}
    return DemoResults([], path, FoundSeries(follow(complete), [1.0] * n), compared)


def drawn(n: int = 6, *, truth: bool = True, memory: bool = False) -> Figure:
    """The picture of a run whose communities split halfway.

    With memory, each snapshot alone shows half of the nodes in another community.
    """
    nodes = np.arange(60)
    of_each = (np.minimum(nodes // 10, 5 if at >= n // 2 else 4) for at in range(n))
    found = found_in((nodes, labels) for labels in of_each)
    alone = [
        replace(result, labels=np.where((nodes + at) % 2, result.labels, 0).astype(np.int32))
        for at, result in enumerate(found)
    ]
    results = results_from(found, truth=truth, alone=alone if memory else ())
    return demo_figure(run_of(found), results)


def stream_that_changes(gap: bool = False) -> Figure:
    """The picture of 40 windows: many changes in the first half; then other nodes, and no change.

    gap: some windows near the end lack most of their nodes.
    """
    windows = []
    for at in range(40):
        late = at >= 20
        nodes = np.arange(60) + 1000 * late
        labels = np.arange(60) // 30 if late else (np.arange(60) + 5 * (at // 6)) // 10 % 7
        there = 9 if gap and 30 <= at < 33 else 60
        windows.append((nodes[:there], np.unique(labels[:there], return_inverse=True)[1]))
    found = found_in(windows)
    results = results_from(found)
    return demo_figure(run_of(found), replace(results, compared={_ALONE: results.found}))


def axes_titled(figure: Figure, title: str) -> Axes:
    (found,) = [axes for axes in figure.axes if axes.get_title(loc="left").startswith(title)]
    return found


def rendered(figure: Figure) -> RendererBase:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_renderer()


def test_nothing_of_the_picture_is_cut_off_and_communities_have_colours_of_their_own() -> None:
    figure = drawn(12, memory=True)
    renderer = rendered(figure)
    for axes in figure.axes:
        whole = axes.get_tightbbox(renderer)
        assert figure.bbox.x0 <= whole.x0 < whole.x1 <= figure.bbox.x1, axes.get_title(loc="left")
        assert figure.bbox.y0 <= whole.y0 < whole.y1 <= figure.bbox.y1, axes.get_title(loc="left")
        for line in axes.get_lines():
            assert np.nanmax(line.get_ydata()) < axes.get_ylim()[1]
    assert "graph g in 12 snapshots" in figure.get_suptitle()
    quality = axes_titled(figure, "NMI with the planted communities")
    assert "evidence for communities: 11 strong, 1 none" in quality.texts[-1].get_text()
    assert len(quality.patches) == 1
    assert [text.get_text() for text in quality.get_legend().get_texts()] == [
        "with memory: median 1.00",
        "each snapshot alone: median 0.40",
    ]
    axes_titled(figure, f"Snapshots 2 to 11: {_ALONE}")
    lives = axes_titled(figure, "Snapshots 2 to 11: with memory")
    assert "1 split" in lives.texts[-1].get_text()
    colours = {patch.get_facecolor() for patch in lives.patches if patch.get_height() > 0}  # type: ignore[attr-defined]
    assert len(colours) == 6
    assert len(set(COLOURS)) == len(COLOURS)
    assert drawn(1, memory=True).get_suptitle().endswith("1 snapshot")


def test_no_title_reaches_into_the_next_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    many = (
        "all snapshots: 12,281 born, 10,866 merged, 10,756 split, 12,347 died",
        "of communities seen in 5 or more; 25,000 other events",
    )
    monkeypatch.setattr("stream_icd.interfaces.demo.picture._happened", lambda _: many)
    figure = stream_that_changes(gap=True)
    renderer = rendered(figure)
    above, below = figure.axes[:2], figure.axes[2:]
    for left, right in (above, below):
        for axes, most in ((left, right.get_position().x0), (right, 1.0)):
            for text in (*axes.texts[-1:], axes.title):
                assert text.get_window_extent(renderer).x1 <= most * figure.bbox.x1, text


@pytest.mark.filterwarnings("error")
def test_incomplete_snapshots_are_marked_and_no_panel_is_empty_where_communities_are_gone() -> None:
    figure = stream_that_changes()
    for title in (f"Snapshots 30 to 39: {_ALONE}", "Snapshots 30 to 39: with memory"):
        bars = [bar for bar in axes_titled(figure, title).patches if bar.get_height() > 0]  # type: ignore[attr-defined]
        assert {round(bar.get_x() + bar.get_width() / 2) for bar in bars} == set(range(10))  # type: ignore[attr-defined]
    figure = stream_that_changes(gap=True)
    stay = axes_titled(figure, "Fraction of the nodes that stay")
    assert "incomplete at the source, and left out: 3" in stay.texts[0].get_text()
    assert len(stay.patches) == 3 + 1  # and one without evidence
    values = stay.get_lines()[0].get_ydata()
    assert np.flatnonzero(np.isnan(values)).tolist() == [0, 30, 31, 32, 33]
    axes_titled(figure, "Snapshots 20 to 29: with memory")
    axes_titled(figure, "The last complete snapshot, g/39")


def test_without_a_truth_the_picture_tells_how_many_nodes_stay_or_the_modularity() -> None:
    stay = axes_titled(drawn(truth=False, memory=True), "Fraction of the nodes that stay")
    with_memory, alone = stay.get_lines()
    assert with_memory.get_ydata() == pytest.approx([np.nan, 1, 1, 50 / 60, 1, 1], nan_ok=True)
    assert np.nanmax(alone.get_ydata()) < 0.9
    modularity = axes_titled(drawn(truth=False), "Modularity").get_lines()
    assert [list(line.get_ydata()) for line in modularity] == [[0.5] * 6]


def test_births_of_communities_that_do_not_last_are_not_counted_as_births() -> None:
    """One community stays; one is born and lasts; every second window has one of its own."""
    found = []
    for at in range(12):
        born, brief = 20 * (at >= 3), 10 * (at % 2)
        labels = np.repeat([0, 1, 2], [40, born, brief])
        nodes = np.r_[:40, 50 : 50 + born, 1000 * at : 1000 * at + brief]
        found.append(window(at, np.unique(labels, return_inverse=True)[1], nodes))
    windows = follow(found)
    assert sum(event.kind == "born" for one in windows[1:] for event in one.events) == 7
    first, second = _happened(windows)
    assert first == "all snapshots: 1 born, 0 merged, 0 split, 0 died"
    assert second.endswith("; 11 other events")


def test_communities_are_drawn_apart() -> None:
    labels = np.repeat(np.arange(4, dtype=np.int32), 50)
    inside = np.array([[i, i + 1] for i in range(199) if labels[i] == labels[i + 1]]).T
    positions = community_layout(inside, labels)
    groups = [positions[labels == c] for c in range(4)]
    centres = np.array([group.mean(axis=0) for group in groups])
    radius = max(np.linalg.norm(group - group.mean(axis=0), axis=1).max() for group in groups)
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 2 * radius * 0.9


TOP = 400.0


def labelled(columns: list[dict[int, int]]) -> tuple[_Bands, dict[int, _Label]]:
    """The bands of these sizes by community, and where their names stand."""
    bands = _Bands(columns, [_stack(column, 300) for column in columns], TOP, letters=80)
    texts = {one: f"community {one}" for column in columns for one in column}
    return bands, {label.community: label for label in _places_of_labels(bands, texts)}


def test_a_name_stands_where_its_band_is_widest_and_beside_if_that_is_thin() -> None:
    bands, labels = labelled([{1: 200, 2: 50}] * 5 + [{2: 250}] * 15)
    assert labels[1].x < 5, "even if the band ends before"
    for community, label in labels.items():
        at = round(label.x)
        bottom = bands.bottoms[at][community]
        assert bottom <= label.y <= bottom + bands.sizes[at][community]
        assert label.leads_from is None
    _, labels = labelled([{1: 100, 2: 100}] * 19 + [{1: 300, 2: 110}])
    assert labels[2].x < 18, "the last column, where it is widest, is higher than those before"
    thin = dict.fromkeys(range(10, 40), 2)
    bands, labels = labelled([{1: 200, **thin}] * 10)
    assert labels[1].leads_from is None
    assert len(labels) > 20
    assert all(0 < label.y < TOP for label in labels.values())
    for one, other in combinations(labels.values(), 2):
        assert abs(one.y - other.y) > 0.99 * bands.line or one.leads_from is None
    for community in labels.keys() - {1}:
        assert labels[community].leads_from == (9, bands.middle(9, community))


CLASSES = attributes_of(pa.array(range(30)), {"class": ["PC"] * 10 + ["MP"] * 10 + ["2BIO"] * 10})
APART, TOGETHER = np.repeat([0, 1, 2], 10), np.repeat([0, 0, 2], 10)


def merging(bits: float, then: Sequence[tuple[np.ndarray, dict]]) -> list[CommunityEvents]:
    """Three windows of communities apart, one in which two merge, and others: ids and moves."""
    windows = [*[(APART, {})] * 3, (TOGETHER, {(1, 0): bits}), *then]
    found = []
    for hour, (ids, moved) in enumerate(windows):
        names, labels = np.unique(ids, return_inverse=True)
        ways = np.array(list(moved), np.int64).reshape(-1, 2)
        one = window(hour, labels, ids=names)
        found.append(replace(one, moved=ways, moved_bits=np.array(list(moved.values()))))
    return follow(found)


def test_an_event_that_lasted_is_told_with_names_and_bits_and_drawn(tmp_path: Path) -> None:
    path = tmp_path / "story.png"
    assert draw_story(merging(42.0, [(TOGETHER, {})] * 4), CLASSES, path) == [
        "1 mergers and splits that lasted and that the edges support",
        "2026-01-01  MP (10 nodes) joined PC; 42 bits; still together 4 hours later",
    ]
    assert len(Image.open(path).convert("RGB").getcolors(1 << 24)) > 100
    for bits, then in (
        (-42.0, [(TOGETHER, {})] * 4),  # the edges speak against it
        (42.0, [(TOGETHER, {})] * 2),  # too new
        (42.0, [(APART, {(0, 1): 9.0}), (APART, {}), (APART, {})]),  # undone
    ):
        told = draw_story(merging(bits, then), CLASSES, path)
        assert told == ["no mergers and splits that lasted and that the edges support"]


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
        assert demo.attributes().rows() == {"1": {"country": "DE"}}
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
        ([30, 100, 70, 100], []),
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
