"""Methods follow a stream; what is known is not measured again; the page shows the means."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import real_streams
from benchmarks.real_streams import Method
from benchmarks.shared.kept import Figures, Kept
from benchmarks.shared.limited import within
from benchmarks.shared.methods.stream_methods import Follow, decayed, decayed_sums
from benchmarks.shared.pages.real_streams_page import key_of, real_streams_page
from benchmarks.shared.pages.rule_table import compare_rules, cost_table
from benchmarks.shared.streams.known_streams import KnownStream, hour, planted_windows, snapshot_in
from benchmarks.shared.streams.memory_streams import Stream
from benchmarks.shared.streams.stream_scores import Found, scores_of
from stream_icd.methods.memory.detect import detect_remembering

TINY = KnownStream("tiny", partial(planted_windows, Stream(0.1, 200), n_windows=4))


def pairs(number: int, *ends: tuple[int, int]) -> object:
    return snapshot_in(pd.DataFrame(ends, columns=["src", "dst"]), hour(number))


def test_the_decayed_sum_adds_each_window_to_what_is_left() -> None:
    windows = [pairs(0, (1, 2), (2, 3)), pairs(1, (2, 3), (7, 9))]
    (first, _), (second, places) = decayed_sums(windows, 0.5)
    assert first.toarray().tolist() == windows[0].adjacency().toarray().tolist()  # type: ignore[attr-defined]
    expected = np.zeros((5, 5))  # nodes 1, 2, 3, 7, 9
    expected[0, 1], expected[1, 2], expected[3, 4] = 0.5, 1.5, 1.0
    assert second.toarray().tolist() == (expected + expected.T).tolist()
    assert places.tolist() == [1, 2, 3, 4]


def test_edges_that_have_faded_are_dropped_with_their_nodes() -> None:
    windows = [pairs(at, (1, 2) if at == 0 else (2, 3)) for at in range(4)]
    graphs = [graph.shape[0] for graph, _ in decayed_sums(windows, 0.05)]
    assert graphs == [3 - 1, 3, 3, 3 - 1]


def test_without_decay_each_window_is_alone() -> None:
    windows = [one.snapshot for one in TINY.load(0)]
    for window, (graph, places) in zip(windows, decayed_sums(windows, 0), strict=True):
        assert abs(graph - window.adjacency()).max() == 0
        assert places.tolist() == list(range(window.n_nodes))


def test_a_method_is_given_the_number_of_classes_and_scored_on_the_window() -> None:
    windows, asked = TINY.load(0), []

    def find(adjacency: object, n_classes: int) -> np.ndarray:
        asked.append(n_classes)
        return np.arange(adjacency.shape[0], dtype=np.int32)  # type: ignore[attr-defined]

    found = decayed(find, 0.5)(windows)
    assert asked == [window.n_classes for window in windows]
    assert [len(one.communities) for one in found] == [
        window.snapshot.n_nodes for window in windows
    ]
    assert scores_of(windows, found).communities == 200


def test_figures_are_measured_again_only_once_they_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "new" / "figures.jsonl"
    Kept(path).of("a | one | 0", lambda: {"x": 1})
    Kept(path).of("b | one | 0", lambda: {"x": 2})
    kept = Kept(path)
    assert kept.of("a | one | 0", lambda: {"x": 9}) == {"x": 1}
    kept.forget(lambda name: name.startswith("a"))
    assert Kept(path).known == {"b | one | 0": {"x": 2}}
    assert kept.of("a | one | 0", lambda: {"x": 9}) == {"x": 9}


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> dict[str, Figures]:
    monkeypatch.setattr(real_streams, "known_streams", lambda _: {"tiny": TINY})
    results = folder / "results.jsonl"
    options = [
        "--data",
        "nowhere",
        "--results",
        str(results),
        "--docs",
        str(folder),
        "--seeds",
        "1",
    ]
    monkeypatch.setattr(sys, "argv", ["real_streams", *options, "--only", "tiny", *arguments])
    real_streams.main()
    return Kept(results).known


def test_the_program_goes_on_where_it_was_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = run(monkeypatch, tmp_path, "--methods", "alone")
    assert sorted(first) == [key_of("tiny", "alone", 0), key_of("tiny", "alone", 9000)]
    both = run(monkeypatch, tmp_path, "--methods", "alone", "ours")
    assert set(both) - set(first) == {key_of("tiny", "ours", 0), key_of("tiny", "ours", 9000)}
    assert {name: both[name] for name in first} == first
    page = (tmp_path / "real_streams.md").read_text()
    assert "### tiny, reported" in page
    assert (tmp_path / "real_streams.png").stat().st_size


def test_a_real_stream_is_followed_with_other_random_numbers() -> None:
    real, asked = replace(TINY, drawn=False, purposes=("report",)), []

    def follow(seed: int) -> Follow:
        asked.append(seed)
        return lambda windows: [Found(np.zeros(3, np.int32), None, 1.0) for _ in windows]

    wanted = {"ours": real_streams.by_seed(follow), "other": Method(follow(0))}
    cells = list(real_streams.unknown_cells([real], wanted, 3, {}))
    assert [(cell.name, cell.seed) for cell in cells if cell.name == "other"] == [("other", 9000)]
    seeds = [cell.seed - 9000 for cell in cells if cell.name == "ours"]
    assert seeds == sorted(set(asked)) == list(range(real_streams.N_DETECTIONS))
    drawn = list(real_streams.unknown_cells([TINY], wanted, 2, {}))
    assert [cell.seed for cell in drawn if cell.name == "ours"] == [0, 1, 9000, 9001]


def test_a_method_is_measured_again_when_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "results.jsonl"
    first = run(monkeypatch, tmp_path, "--methods", "alone", "ours")
    outdated = {name: one | {"ami": -1.0} for name, one in first.items()}
    path.write_text("")
    for name, one in outdated.items():
        Kept(path).of(name, lambda one=one: one)
    renewed = run(monkeypatch, tmp_path, "--methods", "alone", "--again", "ours")
    for name, one in renewed.items():
        assert one["ami"] == (first[name]["ami"] if " | ours | " in name else -1.0)


def figures(ami: float, purpose: str, **others: float) -> Figures:
    scores = dict.fromkeys(("ami_last", "nmi", "churn", "milliseconds"), 5.0)
    counts = {"communities": 7.0, "classes": 8.0, "horizon": None}
    kept = {"windows": [ami] * 4, "purpose": purpose, "commit": "abc"}
    return {"ami": ami, **scores, **counts, **kept, **others}


def test_the_page_shows_means_and_the_best_decay_in_hindsight() -> None:
    known = {
        key_of("tiny", "alone", 9000): figures(40, "report"),
        key_of("tiny", "alone", 9001): figures(60, "report"),
        key_of("tiny", "decayed sum, λ 0.3", 9000): figures(70, "report"),
        key_of("tiny", "decayed sum, λ 0.5", 9000): figures(71, "report"),
        key_of("tiny", "ours", 9000): figures(90, "report", horizon=3.25),
    }
    page = real_streams_page(known, [TINY], list(real_streams.methods()))
    assert "| tiny | reported | 50.0 ± 14.1 |  |  |  | 71.0 (λ 0.5) | 90.0 | 3.2 |  |  |" in page
    assert "| alone | 2 | 50.0 ± 14.1 | 5.0 | 5.0 | 5.0 | 7 of 8 |  | 5.0 |" in page
    assert "tiny, chosen on" not in page
    assert "behind" not in page


def test_the_page_says_at_its_top_where_one_line_is_ahead() -> None:
    known = {
        key_of("tiny", "decayed sum, λ 0.9", 9000): figures(70, "report"),
        key_of("tiny", "ours", 9000): figures(60, "report"),
    }
    page = real_streams_page(known, [TINY], list(real_streams.methods()))
    assert page.splitlines()[2].startswith("**tiny: 60.0 is behind 70.0 of alone or of")


def test_the_page_names_the_streams_of_a_method_that_was_measured_at_several_commits() -> None:
    later = KnownStream("later", TINY.load)
    known = {
        key_of("tiny", "alone", 9000): figures(40, "report"),
        key_of("tiny", "ours", 9000): figures(50, "report"),
        key_of("later", "ours", 9000): figures(50, "report") | {"commit": "def"},
    }
    page = real_streams_page(known, [TINY, later], list(real_streams.methods()))
    assert page.endswith("- abc: alone; ours (tiny)\n- def: ours (later)\n")


def endless(_windows: object) -> list[Found]:
    while True:
        pass


def test_a_peer_that_does_not_end_is_ended_and_the_page_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = real_streams.methods()
    peer = Method(endless, n_seeds=1, needs="numpy")
    monkeypatch.setattr(real_streams, "methods", lambda: known | {"smoothed Louvain": peer})
    monkeypatch.setattr(real_streams, "MOST_MINUTES", 1 / 60)
    monkeypatch.setattr(real_streams, "warm_up", lambda _: None)
    found = run(monkeypatch, tmp_path, "--methods", "alone", "smoothed Louvain")
    kept = found[key_of("tiny", "smoothed Louvain", 0)]
    assert kept == {"minutes": 1 / 60, "purpose": "choose", "commit": kept["commit"]}
    page = (tmp_path / "real_streams.md").read_text()
    assert f"| smoothed Louvain | 1 | more than {1 / 60} min |  |  |  |  |  |  |" in page


def test_a_limited_call_returns_its_result_and_its_failure_is_no_lack_of_time() -> None:
    assert within(5, lambda: [1, 2]) == [1, 2]
    with pytest.raises(RuntimeError, match="exit status 1"):
        within(5, lambda: 1 // 0)


def test_each_rule_has_a_row_of_each_stream(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "benchmarks.shared.pages.rule_table.known_streams", lambda _: {"tiny": TINY}
    )
    rules = {
        "ours": detect_remembering,
        "nothing": lambda snapshot, model, _: detect_remembering(snapshot, model),
    }
    found = compare_rules(rules, Path("nowhere"), n_seeds=2)
    assert {key: len(scores) for key, scores in found.items()} == {
        ("tiny", "ours"): 2,
        ("tiny", "nothing"): 2,
    }
    assert capsys.readouterr().out.count("| tiny |") == 2


def test_a_cost_is_what_is_lost_against_the_first_rule() -> None:
    windows = TINY.load(0)
    right = [Found(window.classes.astype(np.int32), None, 1.0) for window in windows]
    wrong = [Found(np.zeros(200, np.int32), None, 2.0) for window in windows]
    full, none = scores_of(windows, right), scores_of(windows, wrong)
    table = cost_table({("tiny", "ours"): [full, full], ("tiny", "nothing"): [none, full]})
    assert table.splitlines()[2] == "| nothing | +50.0 ± 70.7 | +50.0 | 1.50 |"
