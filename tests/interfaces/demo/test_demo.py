"""The demonstration: it counts honestly, and leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from stream_icd.commands.cli.demo import _Demo, app
from stream_icd.core.communities import STAGES
from stream_icd.core.errors import BadSettings, StoreUnwritable
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.interfaces.demo.picture import _happened, demo_figure
from stream_icd.interfaces.demo.results import (
    _ALONE,
    FoundSeries,
    Results,
    communities_of,
    complete_places,
    model_changes,
    results_of,
    story_table,
    tell_received,
    tracked,
)
from stream_icd.interfaces.demo.run import (
    Arrival,
    DemoRun,
    Programs,
    Story,
    _DemoFailed,
    demo_broker,
    run_demo,
)
from stream_icd.interfaces.view.alluvial import COLOURS
from stream_icd.interfaces.view.panels.community_map import community_layout
from stream_icd.sources.datasets.as_topology import read_as_topology
from tests.real_data import real_data
from tests.testbed.brokers import wait_until
from tests.testbed.windows import follow, window

DEMO = (sys.executable, "-m", "stream_icd.commands.cli", "demo")


def arrival(snapshot_id: str, seconds_after: float = 0.5) -> Arrival:
    ready = datetime(2026, 1, 1, tzinfo=UTC)
    result = {"snapshot_id": snapshot_id, "detected_at": ready.isoformat()}
    return Arrival(result, ready + timedelta(seconds=seconds_after))


def test_a_snapshot_without_its_result_is_lost_even_if_another_came_twice() -> None:
    run = DemoRun(3, (arrival("a"), arrival("b"), arrival("b")), dead_letters=0, seconds=1.0)
    assert run.lost == 1
    assert arrival("a", 0.25).publish_ms == pytest.approx(250)


@pytest.mark.timeout(600)
def test_the_detector_changes_to_the_encoder_that_was_learned_from_labelled_history(
    tmp_path: Path,
) -> None:
    """The whole system: six programs, an archive, a registry, and a detector that keeps running."""
    story = Story(tmp_path, snapshots=20, nodes=300, learn_at=12, change_at=16)
    detect = ("consume", "detect", "--batch", "1", *story.detect())
    programs = Programs(story.producers(), detect, story.consumers(), story)
    with demo_broker(tmp_path) as settings, Progress(disable=True) as progress:
        run = run_demo(settings, programs, tmp_path, progress)
        results = results_of(settings, run, lambda _: pytest.fail("not asked"), "icd", story)
    assert (run.sent, len(run.arrivals), run.lost, run.dead_letters) == (20, 20, 0, 0)
    change, *later = model_changes(run)
    assert change == story.learn_at, "the producer waits for the model"
    models = [arrival.result["model"] for arrival in run.arrivals]
    assert models[0].startswith("default@")
    assert models[-1].startswith("retrained@")
    quality = results.found.agreement
    untrained, learned = np.median(quality[:change]), np.median(quality[change : story.change_at])
    assert learned > untrained + 0.05
    alone, remembering = results.others.values()
    assert learned > np.median(alone.agreement[change : story.change_at])
    assert np.median(remembering.agreement[5:16]) > np.median(alone.agreement[5:16])
    assert any(told.startswith("promoted: ") for told in story.told())
    table = story_table(run, results, story.change_at)
    assert (table.row_count, len(table.columns)) == (3 + len(later), 5)
    figure = demo_figure(run, last_of(run), results, story.change_at)
    axes = axes_titled(figure, "NMI")
    assert [str(line.get_label()).partition(":")[0] for line in axes.get_lines()[:3]] == [
        *("frozen encoder and K-means", *results.others),
    ]
    _, *marks = [text.get_text().strip() for text in axes.texts]
    assert marks == ["other communities", models[change], *(models[at] for at in later)]


def test_a_horizon_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--horizon", "0", "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, BadSettings)
    assert "horizon 0.0: give auto, off" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_a_table_of_names_belongs_to_the_graph_of_the_demonstration(tmp_path: Path) -> None:
    table = tmp_path / "countries.csv"
    table.write_text("node,country\n1,DE\n")
    out = ["--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["--data", "as-733.tar.gz", "--names", f"other={table}", *out])
    assert isinstance(done.exception, BadSettings)
    assert f"--names other={table}: the graph of the demonstration is as-733" in str(done.exception)
    for names in (str(table), f"as-733={table}"):
        demo = _Demo(data=Path("as-733.tar.gz"), names=names, view=True)
        attributes = demo.attributes()
        assert attributes is not None
        assert attributes.rows() == {"1": {"country": "DE"}}
        assert demo.programs(tmp_path).others["view"][-2:] == ("--names", names)


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    done = CliRunner().invoke(app, ["--out", str(tmp_path / "out")])
    assert isinstance(done.exception, StoreUnwritable)


def test_ctrl_c_stops_everything_that_was_started(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        (*DEMO, "--limit", "1000000", "--out", str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Broker, detector, subscriber, archive, retrainer, producer: interrupted as they start.
    wait_until(lambda: len(descendants(demo.pid)) == 6, timeout_s=120)
    children = descendants(demo.pid)
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(120) != 0
    assert [child for child in children if alive(child)] == []


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
                run_demo(settings, programs, tmp_path, progress)


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
    assert sorted(set(range(len(sizes))) - set(complete_places(sizes))) == incomplete


def test_days_of_the_internet_that_its_collectors_missed_are_incomplete() -> None:
    source = read_as_topology(real_data("as733.parquet"))
    days = [(snapshot.id, snapshot.n_nodes) for snapshot, _ in source.snapshots]
    complete = complete_places([nodes for _, nodes in days])
    missed = [day.partition("/")[2] for at, (day, _) in enumerate(days) if at not in set(complete)]
    assert len(missed) == 46
    assert missed[-2:] == ["1999-12-31", "2000-01-01"]
    assert {"1998-12-29", "1999-08-29", "1999-12-08"} < set(missed)


def test_births_of_communities_that_do_not_last_are_not_counted_as_births() -> None:
    """One community stays; one is born and lasts; every second window has one of its own."""
    labels = [
        np.repeat([0, 1, 2], [40, 20 * (at >= 3), 10 * (at % 2)]).astype(np.int32)
        for at in range(12)
    ]
    nodes = [
        np.r_[:40, 50 : 50 + 20 * (at >= 3), 1000 * at : 1000 * at + 10 * (at % 2)]
        for at in range(12)
    ]
    windows = follow(
        window(at, np.unique(one, return_inverse=True)[1], who)
        for at, (one, who) in enumerate(zip(labels, nodes, strict=True))
    )
    assert sum(event.kind == "born" for one in windows[1:] for event in one.events) == 7
    first, second = _happened(windows)
    assert first == "all snapshots: 1 born, 0 merged, 0 split, 0 died"
    assert second.endswith("; 11 other events")


def test_the_line_on_what_was_received_is_one_line(tmp_path: Path) -> None:
    with (tmp_path / "told").open("w") as file:
        run = DemoRun(733, tuple(arrival(str(at)) for at in range(733)), 0, 92.84)
        tell_received(Console(file=file, width=80), run)
    (line,) = (tmp_path / "told").read_text().splitlines()
    assert line.endswith("dead letters: 0")


def stream_that_changes(gap: bool = False) -> Figure:
    """The picture of 40 windows: many changes in the first half; then other nodes, and no change.

    gap: some windows near the end lack most of their nodes.
    """
    start = datetime(2026, 1, 1, tzinfo=UTC)
    arrivals = []
    for at in range(40):
        late = at >= 20
        nodes = np.arange(60) + 1000 * late
        labels = np.arange(60) // 30 if late else (np.arange(60) + 5 * (at // 6)) // 10 % 7
        if gap and 30 <= at < 33:
            nodes, labels = nodes[:9], labels[:9]
        arrivals.append(result_arrival(at, start, nodes, np.unique(labels, return_inverse=True)[1]))
    run = DemoRun(40, tuple(arrivals), 0, 1.0)
    results = [communities_of(one) for one in arrivals]
    complete = complete_places([len(result.nodes) for result in results])
    found = FoundSeries(tracked(results[at] for at in complete))
    return demo_figure(run, last_of(run), Results([], found, {_ALONE: found}))


@pytest.mark.filterwarnings("error")
def test_no_panel_is_empty_where_the_communities_that_changed_are_gone() -> None:
    figure = stream_that_changes()
    for title in (f"Snapshots 30 to 39: {_ALONE}", "Snapshots 30 to 39: with memory"):
        bars = [bar for bar in axes_titled(figure, title).patches if bar.get_height() > 0]  # type: ignore[attr-defined]
        assert {round(bar.get_x() + bar.get_width() / 2) for bar in bars} == set(range(10))  # type: ignore[attr-defined]


def test_incomplete_snapshots_are_marked_and_nothing_is_told_of_them() -> None:
    figure = stream_that_changes(gap=True)
    stay = axes_titled(figure, "Fraction of the nodes that stay")
    assert "incomplete at the source, and left out: 3" in stay.texts[0].get_text()
    assert len(stay.patches) == 3 + 1  # and one without evidence
    values = stay.get_lines()[0].get_ydata()
    assert np.flatnonzero(np.isnan(values)).tolist() == [0, 30, 31, 32, 33]
    axes_titled(figure, "Snapshots 20 to 29: with memory")
    axes_titled(figure, "The last complete snapshot, g/39")


def drawn(
    n: int = 6,
    truth: bool = True,
    memory: bool = False,
) -> Figure:
    """The picture of a run whose communities split halfway.

    With memory, each snapshot alone shows half of the nodes in another community.
    """
    start = datetime(2026, 1, 1, tzinfo=UTC)
    nodes = np.arange(60)
    arrivals = []
    for i in range(n):
        labels = np.minimum(nodes // 10, 5 if i >= n // 2 else 4)
        arrivals.append(result_arrival(i, start, nodes, labels))
    run = DemoRun(n, tuple(arrivals), 0, 1.0)
    results = [communities_of(one) for one in arrivals]
    alone = [
        replace(
            communities, labels=np.where((nodes + i) % 2, communities.labels, 0).astype(np.int32)
        )
        for i, communities in enumerate(results)
    ]
    found = FoundSeries(tracked(results), [1.0] * n * truth)
    others = {_ALONE: FoundSeries(tracked(alone), [0.4] * n * truth)} if memory else {}
    return demo_figure(run, last_of(run), Results([], found, others))


def result_arrival(at: int, start: datetime, nodes: np.ndarray, labels: np.ndarray) -> Arrival:
    """A result of one hour; nothing is sure of the first one."""
    result = {
        "graph": "g",
        "snapshot_id": f"g/{at}",
        "window_start": (start + timedelta(hours=at)).isoformat(),
        "window_end": (start + timedelta(hours=at + 1)).isoformat(),
        "model": "m@1",
        "n_nodes": len(nodes),
        "n_edges": len(nodes) - 1,
        "n_communities": int(labels.max()) + 1,
        "modularity": 0.5,
        "ncut": 0.1,
        "evidence": "none" if at == 0 else "strong",
        "bits_saved": 0.75,
        "milliseconds": dict.fromkeys(STAGES, 5.0),
        "detected_at": start.isoformat(),
        "nodes": nodes.tolist(),
        "communities": labels.tolist(),
        "community_ids": None,
        "replaced": None,
        "moved": None,
    }
    return Arrival(result, start + timedelta(seconds=1))


def last_of(run: DemoRun) -> Snapshot:
    """A snapshot with the nodes of the last result: a path."""
    last = communities_of(run.arrivals[-1])
    return snapshot_from_pairs(
        last.nodes[:-1], last.nodes[1:], graph=last.graph, id=last.snapshot_id, window=last.window
    )


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
        assert whole is not None
        assert figure.bbox.x0 <= whole.x0 < whole.x1 <= figure.bbox.x1, axes.get_title(loc="left")
        assert figure.bbox.y0 <= whole.y0 < whole.y1 <= figure.bbox.y1, axes.get_title(loc="left")
        for line in axes.get_lines():
            assert np.nanmax(line.get_ydata()) < axes.get_ylim()[1]
    assert "graph g in 12 snapshots" in figure.get_suptitle()
    quality = axes_titled(figure, "NMI with the planted communities")
    legend = quality.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "with memory: median 1.00",
        "each snapshot alone: median 0.40",
    ]
    axes_titled(figure, f"Snapshots 2 to 11: {_ALONE}")
    lives = axes_titled(figure, "Snapshots 2 to 11: with memory")
    assert "1 split" in lives.texts[-1].get_text()
    colours = {patch.get_facecolor() for patch in lives.patches if patch.get_height() > 0}  # type: ignore[attr-defined]
    assert len(colours) == 6
    assert len(set(COLOURS)) == len(COLOURS)


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


def test_the_picture_tells_the_evidence_and_marks_where_there_is_none() -> None:
    quality = axes_titled(drawn(), "NMI with the planted communities")
    assert "evidence for communities: 5 strong, 1 none" in quality.texts[-1].get_text()
    assert len(quality.patches) == 1


def test_without_a_truth_the_picture_tells_how_many_nodes_stay() -> None:
    stay = axes_titled(drawn(truth=False, memory=True), "Fraction of the nodes that stay")
    with_memory, alone = stay.get_lines()
    assert with_memory.get_ydata() == pytest.approx([np.nan, 1, 1, 50 / 60, 1, 1], nan_ok=True)
    assert np.nanmax(alone.get_ydata()) < 0.9
    modularity = axes_titled(drawn(truth=False), "Modularity").get_lines()
    assert [list(line.get_ydata()) for line in modularity] == [[0.5] * 6]


def test_one_snapshot_is_a_picture_too() -> None:
    assert drawn(1, memory=True).get_suptitle().endswith("1 snapshot")


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
