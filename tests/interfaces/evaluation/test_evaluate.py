"""Methods on the windows of an archive, labelled or not; however one ends, it has an outcome."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Window, snapshot_from_pairs
from stream_icd.core.store.store import open_store
from stream_icd.interfaces.evaluation.evaluate import Evaluation, WindowResult, measure
from stream_icd.interfaces.evaluation.limits import MethodProcess, MethodRun
from stream_icd.interfaces.evaluation.method import OWN, Task, chosen, methods_in
from stream_icd.interfaces.evaluation.methods.others import search_resolution
from stream_icd.interfaces.evaluation.page import _COLUMNS, EvaluationFiles, table_of
from stream_icd.learning.training.yardstick import compared_with_default
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import ncut
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.registry.find import open_model
from stream_icd.streaming.execution.budget import Allowance
from tests.interfaces.evaluation.unruly.methods import COMPILATION_S
from tests.run_here import run_here
from tests.testbed.lessons import GRAPH, NOW, add_to_archive, small_windows

WINDOWS = small_windows(5, p_in=0.9)
N_PAST, N_NEWEST = 2, 3
UNRULY = "tests.interfaces.evaluation.unruly"
"""A package with methods that end in every way."""
LIMITS = Allowance(seconds=600, memory_bytes=8 << 30)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five windows; all but the fourth are labelled."""
    folder = str(tmp_path_factory.mktemp("archive"))
    add_to_archive(folder, WINDOWS[:3] + WINDOWS[4:], labels=True)
    add_to_archive(folder, WINDOWS[3:4])
    return folder


def opened(archive: str, n_windows: int, n_past: int, graph: str | None = None) -> Evaluation:
    return Evaluation.open(open_store(archive), graph, n_windows, n_past, NOW, LIMITS)


@pytest.fixture(scope="module")
def results(archive: str) -> list[WindowResult]:
    evaluation = replace(opened(archive, N_NEWEST, N_PAST), packages=(OWN, UNRULY))
    assert evaluation.graph == GRAPH
    assert [graph.labels is not None for graph in evaluation.past()] == [True, True]
    learned = evaluation.learn(["bp", "halves", "fails"])
    assert [name for name, run in learned.items() if run.learned] == ["bp", "halves"]
    return list(evaluation.results(learned))


def test_every_window_is_measured_with_every_method(results: list[WindowResult]) -> None:
    newest = [snapshot.id for snapshot, _ in WINDOWS[N_PAST:]]
    seen = [(result.snapshot, result.method) for result in results]
    assert seen == [(name, method) for name in newest for method in ("bp", "halves", "fails")]
    bp, halves = results[::3], results[1::3]
    nmis = [result.measures and result.measures.nmi for result in bp]
    assert nmis == pytest.approx([1.0, None, 1.0])
    assert all(result.hidden_edges is not None and result.hidden_edges > 1 for result in bp)
    assert all(half.hidden_edges is not None and half.hidden_edges < 0.5 for half in halves)
    assert [half.stability for half in halves] == [None, 1.0, 1.0]
    truth = [labels.labels for _, labels in WINDOWS]
    assert nmi(truth[2], truth[3]) < 0.9, "the communities of the windows are independent"
    first, *others = [result.stability for result in bp]
    assert first is None
    assert all(value is not None and value < 0.6 for value in others)


def test_the_page_shows_progress_and_why_a_method_has_no_numbers(
    results: list[WindowResult], tmp_path: Path
) -> None:
    reason = "ZeroDivisionError: no halves of 160"
    files = EvaluationFiles(tmp_path / "page.html", tmp_path / "rows.csv")
    files.write("<b>&", results[:3], N_NEWEST)
    begun = files.page.read_text(encoding="utf-8")
    assert "1 of 3 windows" in begun
    assert 'http-equiv="refresh"' in begun
    assert "<b>&" not in begun
    files.write(GRAPH, results, N_NEWEST)
    done = files.page.read_text(encoding="utf-8")
    assert "refresh" not in done
    assert done.count("<tr>") == 1 + 3
    assert "<svg" in done
    assert reason in done
    assert not re.search(r"(?:src|href)=\"https?:", done), "the page asks for nothing"
    rows = pyarrow.csv.read_csv(files.csv)
    assert rows["status"].to_pylist() == ["ok", "ok", "error"] * N_NEWEST
    assert rows["detail"][2].as_py() == reason
    assert rows["modularity"].null_count == N_NEWEST
    *_, fails = zip(*(list(column.cells) for column in table_of(results).columns), strict=True)
    assert fails == ("fails", *[""] * len(_COLUMNS), "0", reason)


def test_labels_that_contradict_the_edges_are_said(tmp_path: Path) -> None:
    (snapshot, labels), folder = WINDOWS[0], str(tmp_path / "archive")
    all_one = replace(labels, labels=np.zeros_like(labels.labels))
    add_to_archive(folder, [(snapshot, all_one)], labels=True)
    options = ("--methods", "bp", "--out", str(tmp_path / "page.html"))
    done = run_here("evaluate", "--history", folder, *options)
    assert "the labels contradict the edges, so they are not used" in done.stdout


def test_the_command_prints_the_table_and_writes_the_files(archive: str, tmp_path: Path) -> None:
    page, rows, picture = (tmp_path / name for name in ("page.html", "rows.csv", "picture.png"))
    files = ("--out", str(page), "--csv", str(rows), "--picture", str(picture))
    options = ("--methods", "bp", "--windows", "3", "--learn", "1")
    done = run_here("evaluate", "--history", archive, *options, *files)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name, _, _ in _COLUMNS)
    assert re.search(r"^ ?bp +\d", done.stdout, re.MULTILINE)
    assert [str(path) in done.stdout for path in (page, rows, picture)] == 3 * [True]
    assert "3 of 3 windows" in page.read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = pyarrow.csv.read_csv(rows)
    assert table["snapshot"].to_pylist() == [snapshot.id for snapshot, _ in WINDOWS[N_PAST:]]
    assert table["nmi"].to_pylist() == pytest.approx([1.0, None, 1.0])
    assert table["stability"].null_count == 1


def test_it_fails_if_a_file_cannot_be_written_or_no_method_has_a_result(
    archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.html"
    options = ("--history", archive, "--methods", "bp", "--learn", "0", "--out", str(page))
    done = run_here("evaluate", *options, "--windows", "3", "--csv", str(tmp_path))
    assert done.returncode == 75
    assert "is no regular file" in done.stderr
    assert "1 of 3 windows" in page.read_text(encoding="utf-8"), "it is said with the first window"
    monkeypatch.setattr(MethodProcess, "find", lambda *_: MethodRun("limit", "over its budget"))
    done = run_here("evaluate", *options, "--windows", "1")
    assert done.returncode == 1
    assert done.stderr.endswith("no method has a result\n")


def test_the_page_is_drawn_every_few_seconds_and_after_the_last_window(
    archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, write = list[int](), EvaluationFiles.write

    def stopped(*_: object) -> Iterator[WindowResult]:
        for number in range(3):
            yield from (WindowResult(method, str(number), "missing") for method in ("bp", "icd"))
        yield WindowResult("bp", "3", "missing")
        raise KeyboardInterrupt

    def noted(files: Any, graph: str, results: Sequence[WindowResult], *rest: Any) -> None:
        drawn.append(len(results))
        write(files, graph, results, *rest)

    monkeypatch.setattr(Evaluation, "results", stopped)
    monkeypatch.setattr(EvaluationFiles, "write", noted)
    monkeypatch.setattr("stream_icd.interfaces.evaluation.page.REFRESH_S", 600)
    files = ("--out", str(tmp_path / "page.html"), "--csv", str(tmp_path / "rows.csv"))
    options = ("--methods", "bp,icd", "--windows", "4", "--learn", "0")
    run_here("evaluate", "--history", archive, *options, *files)
    assert drawn == [2, 6]
    assert "3 of 4 windows" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(pyarrow.csv.read_csv(tmp_path / "rows.csv")) == 6


@pytest.mark.parametrize("method", ["bp", "icd"])
def test_memory_keeps_communities_from_window_to_window(method: str, stream: str) -> None:
    """Too few edges in a window to find its communities alone."""
    evaluation = opened(stream, 6, 0)
    nothing = evaluation.learn([method, f"{method}-memory"])
    assert [run.learned for run in nothing.values()] == [None, None]
    assert evaluation.worth(nothing) == []
    found = [result.stability for result in evaluation.results(nothing)]
    alone, with_memory = np.mean(found[2::2]), np.mean(found[3::2])
    assert with_memory > alone + 0.1


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six windows of a stream whose communities stay."""
    return _archived_stream(tmp_path_factory.mktemp("stream"), 6)


def test_what_was_learned_is_compared_with_default_on_the_windows_not_learned_from(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learning, learn_one = [], MethodProcess.learn

    def noted(self: MethodProcess, name: str, *arguments: Any) -> MethodRun:
        learning.append(name)
        return learn_one(self, name, *arguments)

    monkeypatch.setattr(MethodProcess, "learn", noted)
    evaluation = opened(stream, 2, 4)
    learned = evaluation.learn(["bp", "bp-memory", "plm"])
    assert learning == ["bp"], "methods that learn alike learn once"
    assert learned["bp"] is learned["bp-memory"]
    assert learned["plm"].learned is None
    past = evaluation.past()
    assert len(past) == 4
    first, *_ = compared = evaluation.worth(learned)
    assert (first.name, first.measure) == ("bp with memory", "bits saved per edge")
    assert (first.control_name, first.n_graphs) == ("default", 2)
    model = Model(open_model("default").model.recipe, learned["bp"].learned)
    of_newest = [lesson.graph(by_labels=True) for lesson in evaluation.newest()]
    assert compared_with_default(model, past, of_newest, memory=True) == compared
    assert replace(evaluation, limits=replace(LIMITS, seconds=1e-9)).worth(learned) is None


def test_the_command_says_what_was_learned_from_how_many_windows(
    stream: str, tmp_path: Path
) -> None:
    options = ("--methods", "bp,bp-memory", "--out", str(tmp_path / "page.html"))
    of_six = ("--history", stream, "--windows", "2", "--learn", "4")
    done = run_here("evaluate", *options, *of_six)
    assert done.stdout.startswith(
        f"{GRAPH}: 2 windows; bp and bp-memory learn from the 4 before them\n"
    )
    assert re.search(
        r"What bp and bp-memory learned: .*better than the model default.*: [+-]\d.* bits saved "
        r"per edge \(bp with memory, 2 graphs not learned from\)\.",
        done.stdout,
    )
    assert "not learned from" in (tmp_path / "page.html").read_text(encoding="utf-8")
    three = _archived_stream(tmp_path / "three", 3)
    all_of_them = ("--history", three, "--windows", "50", "--learn", "1")
    none = run_here("evaluate", *options, *all_of_them)
    assert none.stdout.startswith(
        f"{GRAPH}: 3 windows; bp and bp-memory learn from none, since the archive has none before "
        "these: --windows 2 leaves 1 to learn from\n"
    )
    assert "What bp" not in none.stdout


def _archived_stream(folder: Path, n_windows: int) -> str:
    """120 nodes in the same four communities in every window, which has few edges."""
    rng = np.random.default_rng(3)
    src, dst = np.triu_indices(120, 1)
    for snapshot, labels in small_windows(n_windows):
        drawn = rng.random(len(src)) < np.where(src % 4 == dst % 4, 0.2, 0.05)
        sparse = snapshot_from_pairs(
            src[drawn], dst[drawn], graph=GRAPH, id=snapshot.id, window=snapshot.window
        )
        add_to_archive(str(folder), [(sparse, labels)])
    return str(folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--picture", "picture.jpeg"), ".png, .svg, .pdf"),
        (("--methods", "bp,louvian"), "no method 'louvian'"),
        (("--graph", "other"), "no snapshots of graph other; it holds"),
        (("--seconds", "0"), "above 0"),
        (("--memory-gb", "0"), "above 0"),
        (("--out", "rows", "--csv", "./rows"), "give --out, --csv and --picture different files"),
        (("--memory-gb", "nan"), "--memory-gb"),
    ],
)
def test_wrong_options_are_refused(archive: str, options: tuple[str, ...], said: str) -> None:
    done = run_here("evaluate", "--history", archive, *options)
    assert done.returncode != 0
    assert said in done.stderr


def test_one_of_several_graphs_must_be_named(tmp_path: Path) -> None:
    place, (snapshot, labels) = str(tmp_path), WINDOWS[0]
    add_to_archive(place, ((replace(snapshot, graph=graph), labels) for graph in "ab"))
    with pytest.raises(BadSettings, match="holds several graphs: give --graph, of a, b"):
        opened(place, 5, 0)
    assert len(opened(place, 5, 0, graph="b")) == 1


def test_windows_that_overlap_the_evaluated_ones_teach_nothing(tmp_path: Path) -> None:
    for snapshot, labels in small_windows(9):
        start = snapshot.window.start
        three = replace(snapshot, window=Window(start, start + timedelta(minutes=3)))
        add_to_archive(str(tmp_path), [(three, labels)])
    evaluation = opened(str(tmp_path), 4, 9)
    assert (len(evaluation.before), len(evaluation)) == (3, 4)


def clique(n_nodes: int) -> Task:
    return Task(csr_array(np.ones((n_nodes, n_nodes)) - np.eye(n_nodes)))


@pytest.fixture(scope="module")
def process() -> Iterator[MethodProcess]:
    process = MethodProcess((UNRULY,), Allowance(seconds=1, memory_bytes=200_000_000))
    yield process
    process.end()


def test_a_result_has_its_labels_numbered_and_its_time_measured(process: MethodProcess) -> None:
    outcome = process.find("halves", clique(6))
    assert outcome.status == "ok"
    assert outcome.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert 0 < outcome.stages["halve"] <= outcome.seconds
    for n_nodes in (6, 9):  # 9 nodes compile what 6 did not
        assert process.find("compiles", clique(n_nodes)).seconds < COMPILATION_S
    past = [LabelledGraph(clique(6).adjacency)]
    learned = [process.learn(name, past, seed=5) for name in ("halves", "fails")]
    assert [one.learned for one in learned] == [(1, 5), None]


@pytest.mark.parametrize(
    ("name", "status", "detail"),
    [
        ("absent", "missing", "needs no_such_library: pip install it"),
        ("fails", "error", "ZeroDivisionError: no halves of 6"),
        ("needs-k", "error", "BadSettings: needs the number of communities"),
        ("too_few", "error", "TypeError: labels are int32 of shape (1,), not (6,)"),
        ("crashes", "crash", "its process ended with exit status -9"),
        ("spins", "limit", "took more than 1 s of processor time"),
        ("swells", "limit", "took more than 200 MB of memory"),
    ],
)
def test_a_run_without_a_result_says_why(
    process: MethodProcess, name: str, status: str, detail: str
) -> None:
    outcome = process.find(name, clique(6))
    assert (outcome.status, outcome.detail) == (status, detail)
    assert outcome.labels is None


def test_measures_agree_with_their_definitions_where_the_truth_is_known() -> None:
    planted = generate_gn(np.random.default_rng(3), 90, 3, 0.5, 0.05)
    graph, truth = planted.adjacency(), planted.communities
    found = np.roll(truth, 5)
    measures = measure(graph, found, truth)
    assert (measures.n_communities, measures.ncut) == (3, ncut(graph, found))
    assert measures.ami == pytest.approx(adjusted_mutual_info_score(truth, found), abs=1e-12)
    assert measures.ari == adjusted_rand_score(truth, found)
    perfect = measure(graph, truth, truth)
    assert (perfect.nmi, perfect.ac, perfect.ami, perfect.ari) == pytest.approx((1, 1, 1, 1))
    partly = np.where(np.arange(90) % 2 == 0, truth, -1).astype(np.int32)
    assert measure(graph, np.where(partly < 0, 7, truth), partly).nmi == pytest.approx(1)
    unknown = measure(graph, truth, np.full(90, -1, np.int32))
    assert unknown == measure(graph, truth)
    assert unknown.nmi is None


def test_methods_are_chosen_by_name() -> None:
    methods = methods_in(OWN)
    assert list(chosen(["leiden", "bp"], methods)) == ["leiden", "bp"]
    with pytest.raises(BadSettings, match="no method 'lieden'; did you mean leiden"):
        chosen(["lieden"], methods)
    with pytest.raises(BadSettings, match="no method is named: choose from bp"):
        chosen([], methods)
    with pytest.raises(BadSettings, match="second method"):
        methods_in(OWN, OWN)


@pytest.mark.parametrize("k", [1, 7, 40, 900])
def test_the_resolution_that_gives_k_is_found(k: int) -> None:
    labels, _ = search_resolution(lambda at: np.arange(max(1, round(13 * at)), dtype=np.int32), k)
    assert len(labels) == k


def test_leiden_leaves_nodes_without_edges_alone() -> None:
    pytest.importorskip("graspologic_native", reason="pip install 'stream-icd[evaluate]'")
    assert methods_in(OWN)["leiden"].find(Task(csr_array((3, 3)))).tolist() == [0, 1, 2]
