"""Training makes a model that detectors can use, and says honestly what it added."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_mutual_info_score

from stream_icd.commands.programs.training_data import training_graphs
from stream_icd.core.errors import BadSettings, MissingExtra, StoreUnwritable
from stream_icd.core.store.store import open_store
from stream_icd.interfaces.estimator import ICD
from stream_icd.learning.training.card import card, write_model
from stream_icd.learning.training.train_model import TrainedModel, split, train_model
from stream_icd.learning.training.yardstick import (
    ModelComparison,
    compared_with_default,
    judge,
    verdict,
)
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.registry.find import open_model
from stream_icd.registry.model import About, read_card
from stream_icd.streaming.detection.detect import detect
from tests.run_here import run_here
from tests.testbed.lessons import SMALL_ENCODER, drifting_windows, moment
from tests.testbed.object_store import new_bucket, new_folder

SMALL = SMALL_ENCODER.changed(
    schedule={"samples": 4},
    losses={"rows": 100},
    data="gn:nodes=200,communities=8,p_in=0.4,graphs=10,seed=3",
)
MIXED = "lfr:nodes=500,mixing=0.5,graphs=4,seed=3"
DEFAULT = Recipe(name="plain", split=(0.0, 0.8, 0.2)).changed(data=SMALL.data)


@pytest.fixture(scope="module")
def steps() -> dict[str, list[tuple[int, int]]]:
    """What was reported of each stage while `trained` was made."""
    return {}


@pytest.fixture(scope="module")
def trained(steps: dict[str, list[tuple[int, int]]]) -> TrainedModel:
    def report(stage: str, *step: int) -> None:
        steps.setdefault(stage, []).append(step)  # type: ignore[arg-type]

    return train_model(training_graphs(SMALL.data), SMALL, threads=1, on_step=report)


def test_progress_rises_to_the_end_of_each_stage(
    trained: TrainedModel, steps: dict[str, list[tuple[int, int]]]
) -> None:
    assert trained.history
    assert list(steps) == ["train the encoder", "learn from labels", "test"]
    for of_stage in steps.values():
        done, totals = zip(*of_stage, strict=True)
        assert list(done) == sorted(set(done))
        assert set(totals) == {done[-1]}


def test_by_default_it_learns_the_encoder_without_torch_and_again_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as without:
        for name in ("torch", "stream_icd.learning.training.icd.train_encoder"):
            without.setitem(sys.modules, name, None)
        done = run_here("train", "--data", MIXED, "--out", "mine")
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert "**For**: graphs like lfr:" in printed
    assert "It is **learned**. It learned from 3 graphs." in printed
    assert "| bp, K given | NMI, % |" in printed
    opened = open_model(str(tmp_path / "mine"))
    assert opened.model.recipe.learns_edges
    assert opened.model.trained is not None
    assert (tmp_path / "mine" / "model.safetensors").stat().st_size <= 30_000
    assert run_here("train", "mine/recipe.toml", "--out", "again").returncode == 0
    for name in ("recipe.toml", "card.md", "about.toml", "model.safetensors"):
        first, second = (tmp_path / side / name for side in ("mine", "again"))
        assert first.read_bytes() == second.read_bytes()


def test_a_model_is_trained_into_an_object_store_and_again_from_its_recipe_there(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = new_folder(s3), new_folder(s3)
    monkeypatch.chdir(tmp_path)
    done = run_here("train", "--data", SMALL.data, "--out", first, "--encoder", "none")
    assert f"use it: stream-icd consume detect --model {shlex.quote(first)}" in done.stdout, (
        done.stderr
    )
    assert "| bp | AMI, % |" in done.stdout
    assert "The encoder (hops, widths 4096-512) is untrained." in done.stdout
    model = open_model(first).model
    assert model.bp != BpParameters()
    assert model.recipe.encoder_stays
    assert run_here("train", first.replace("?", "/recipe.toml?"), "--out", again).returncode == 0
    written, made_again = open_store(first), open_store(again)
    # The recipe's seed makes the weights, so no file holds them.
    assert written.files() == ["about.toml", "card.md", "recipe.toml"] == made_again.files()
    assert open_model(first).version == open_model(again).version
    assert open_model(first).model.recipe.name == written.name
    assert not any(tmp_path.iterdir())
    refused = run_here("train", "--data", SMALL.data, "--out", first)
    assert refused.returncode != 0
    assert f"{written.place} already holds a model; give --out a new folder" in refused.stderr
    taken = tmp_path / "taken"
    taken.touch()
    refused = run_here("train", "--data", SMALL.data, "--out", str(taken))
    assert f"{taken} is a file: give a folder" in refused.stderr
    assert "reading" not in refused.stdout


def test_without_labels_the_card_says_so_and_shows_both_criteria() -> None:
    clear = training_graphs(SMALL.data.replace("p_in=0.4", "p_in=0.6"))
    trained = train_model([LabelledGraph(graph.adjacency) for graph in clear[:4]], DEFAULT)
    assert trained.fit.learned_from == "default"  # no choice is better on these clear graphs
    assert [row.measure for row in trained.test] == ["bits saved per edge", "modularity, %"]
    text = card(trained)
    assert "Nothing: no choice predicts hidden edges better than the model `default`." in text
    for tried in trained.fit.curve:
        assert f"| {tried.hidden_edges:.3f} | {tried.description_length:.3f} |" in text
    assert text.count("(taken)") == 0


def test_a_model_that_adds_nothing_or_was_not_tested_is_said_to() -> None:
    """On cliques there is nothing to gain: the defaults find them."""
    cliques = LabelledGraph(
        training_graphs("gn:nodes=60,communities=6,p_in=1,graphs=1")[0].adjacency
    )
    trained = train_model([cliques] * 3, DEFAULT)
    assert trained.test[0].gain.mean <= 0.01
    assert "One graph does not tell whether it is better than the model `default`" in card(trained)
    two = train_model([cliques] * 2, DEFAULT)
    assert (two.fit.n_graphs, two.test) == (2, ())
    assert "not tested" in card(two)
    with pytest.raises(BadSettings, match="no graphs to learn from"):
        train_model([], DEFAULT)


def test_a_written_model_detects_as_the_trained_one_did(
    trained: TrainedModel, tmp_path: Path
) -> None:
    write_model(trained, tmp_path / "small")
    opened = open_model(str(tmp_path / "small"))
    (graph,) = training_graphs("gn:nodes=200,communities=8,p_in=0.6,graphs=1,seed=99")
    for method in ("bp", "icd"):
        expected = detect(graph.adjacency, trained.model, 8, method=method).communities
        found = detect(graph.adjacency, opened.model, 8, method=method).communities
        assert np.array_equal(found, expected)
    assert opened.version.startswith("small@")
    assert f"**For**: {About.read(open_store(str(tmp_path / 'small'))).purpose}." in card(trained)
    picture = matplotlib.image.imread(tmp_path / "small" / "training.png")
    assert picture.std() > 0.05
    untrained = replace(trained, history=trained.history[:1])
    write_model(untrained, tmp_path / "untrained")
    assert (picture != matplotlib.image.imread(tmp_path / "untrained" / "training.png")).any()


def test_a_model_that_could_not_be_written_whole_can_be_written_again(
    trained: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        for part in ("matplotlib", "matplotlib.backends.backend_agg", "matplotlib.figure"):
            without.setitem(sys.modules, part, None)
        with pytest.raises(MissingExtra, match=r"pip install 'stream-icd\[plot\]'"):
            write_model(trained, tmp_path)
    (tmp_path / "card.md").mkdir()
    with pytest.raises(StoreUnwritable, match="card.md"):
        write_model(trained, tmp_path)
    (tmp_path / "card.md").rmdir()
    write_model(trained, tmp_path)
    assert read_card(open_store(str(tmp_path))) == card(trained)


def test_the_card_says_what_the_model_is_for_and_what_training_added(trained: TrainedModel) -> None:
    text = card(trained)
    first, *_ = text.split("## ")
    for words in ("**For**", "**Learned from**", "**How good**", "**Use it**", "**Do not use it**"):
        assert words in first
    assert "200 nodes" in first
    assert "8 communities" in first
    assert str(trained.test[0].trained) in first
    names = [(row.name, row.measure) for row in trained.test]
    assert names == [
        ("bp", "AMI, %"),
        ("bp", "NMI, %"),
        ("bp", "bits saved per edge"),
        ("bp, K given", "NMI, %"),
        ("icd", "NMI, %"),
        ("icd, last epoch", "NMI, %"),
    ]
    for row in trained.test:
        scores = f"{row.trained} | {row.control_name} | {row.control} | {row.gain}"
        assert f"| {row.name} | {row.measure} | {scores} |" in text
        assert row.gain.mean == pytest.approx(row.trained.mean - row.control.mean)
    # Kept or not, the last epoch's weights differ from the control's, and are shown.
    assert str(trained.test[-1].trained) != str(trained.test[-1].control)


def test_a_trained_encoder_is_made_again_from_its_own_recipe_into_a_whole_bucket(
    trained: TrainedModel, tmp_path: Path, s3: str
) -> None:
    write_model(trained, tmp_path / "first")
    bucket, recipe = new_bucket(s3), str(tmp_path / "first" / "recipe.toml")
    done = run_here("train", recipe, "--out", bucket, "--threads", "1")
    assert done.returncode == 0, done.stderr
    again = open_store(bucket)
    for name in ("model.safetensors", "recipe.toml", "card.md", "about.toml"):
        assert (tmp_path / "first" / name).read_bytes() == again.open(name).read()
    assert f"{again.name}.checkpoints/checkpoint.safetensors" in again.files()
    assert open_model(bucket).version.startswith("small@")


MIXTURE = "lfr:mixing=0.1,nodes=300,graphs=3 + gn:p_in=0.6,nodes=300,communities=50,graphs=2"


def test_a_model_for_graphs_of_every_kind_is_learned_from_a_mixture(tmp_path: Path) -> None:
    graphs = training_graphs(MIXTURE)  # its kinds in turns
    assert [graph.n_communities == 50 for graph in graphs] == [False, True, False, True, False]
    recipe = Recipe(name="any", split=(0.0, 0.8, 0.2)).changed(data=MIXTURE, every_kind=True)
    trained = train_model(graphs, recipe)
    write_model(trained, tmp_path / "any")
    assert trained.fit.parameters == BpParameters(search=True)
    assert open_model(str(tmp_path / "any")).model.bp == trained.fit.parameters
    card = (tmp_path / "any" / "card.md").read_text()
    assert "description length chooses the resolution and the method for each graph" in card


THREE = DEFAULT.changed(split=(0.8, 0.1, 0.1))


def sliding(n: int, hours: float = 1, every: float = 1) -> list[LabelledGraph]:
    """Windows of so many hours, one every so many hours."""
    moments = (moment(number * every, [1], hours=hours) for number in range(n))
    return [LabelledGraph(csr_array((1, 1)), moment=one) for one in moments]


@given(st.integers(10, 500))
def test_every_graph_is_in_one_part_in_order(n: int) -> None:
    adjacency = csr_array((1, 1))
    graphs = [LabelledGraph(adjacency) for _ in range(n)]
    parts = split(graphs, THREE)
    assert [graph for part in parts for graph in part] == graphs
    assert abs(len(parts[0]) - 0.8 * n) <= 1
    assert min(len(parts[1]), len(parts[2])) >= 1


def test_too_few_graphs_are_refused_and_a_share_of_nothing_is_empty() -> None:
    with pytest.raises(BadSettings, match="too few"):
        split(sliding(3), THREE)
    graphs = sliding(4)
    assert split(graphs, DEFAULT.changed(split=(0.75, 0.25, 0))) == (graphs[:3], graphs[3:], [])


def test_windows_that_overlap_those_of_the_test_teach_nothing() -> None:
    graphs = sliding(20, hours=3)
    assert split(graphs, DEFAULT) == ([], graphs[:14], graphs[16:])
    with pytest.raises(BadSettings, match="overlap those to test on"):
        split(sliding(5, hours=10), DEFAULT)
    for apart in (sliding(10), sliding(10, every=0)):  # also all those of one day
        assert split(apart, DEFAULT) == ([], apart[:8], apart[8:])


LFR = open_model("lfr").model


def drifting(n_windows: int, *, labels: bool = True, mixing: float = 0.55) -> list[LabelledGraph]:
    return drifting_windows(3, n_windows, LfrSettings(800, mixing=mixing), labels=labels)


def test_windows_are_found_as_a_detector_finds_them_with_memory() -> None:
    graphs, icd, memory = drifting(4), ICD.load("lfr"), None
    for graph, (judged,) in zip(graphs, judge(graphs, [LFR]), strict=True):
        found = icd.predict_next(graph.adjacency, memory)
        memory = found.memory
        expected = adjusted_mutual_info_score(graph.labels, found.communities)
        assert judged.ami == pytest.approx(expected)
    (alone,) = next(judge([replace(graphs[-1], moment=None)], [LFR]))
    assert judged.ami > alone.ami + 0.02


def test_without_labels_the_new_edges_of_the_next_window_judge() -> None:
    graphs = drifting(3, labels=False, mixing=0.4)
    joins_all = Model(LFR.recipe, BpParameters(resolution=0.01))
    first, *later = judge(graphs, [LFR, joins_all])
    assert [one.bits for one in first] == [None, None]  # nothing came before
    for good, bad in later:
        assert good.ami is None
        assert good.bits > bad.bits + 0.1
    [compared] = compared_with_default(joins_all, [], graphs, memory=True)
    expected = "bp with memory", "bits saved per edge", 2
    assert (compared.name, compared.measure, compared.n_graphs) == expected
    assert verdict([compared]).startswith("not better than the model default, so use default: -")


def test_streams_do_not_share_a_memory() -> None:
    graphs = drifting(3)
    others = [
        replace(one, moment=replace(one.moment, graph="h")) for one in drifting(3) if one.moment
    ]
    mixed = [graph for pair in zip(graphs, others, strict=True) for graph in pair]
    separate = list(judge(graphs, [LFR]))
    assert list(judge(mixed, [LFR]))[::2] == separate == list(judge(mixed, [LFR]))[1::2]


def test_the_card_answers_with_memory_against_default_on_windows_not_learned_from() -> None:
    graphs = drifting_windows(3, 10, LfrSettings(300, mixing=0.55))
    trained = train_model(graphs, DEFAULT, threads=1)
    first = trained.test[0]
    assert (first.name, first.measure) == ("bp with memory", "AMI, %")
    assert (first.control_name, first.n_graphs) == ("default", 2)
    judged = list(judge(graphs[3:], [trained.model, open_model("default").model]))[-2:]
    means = 100 * np.array([[one.ami for one in both] for both in judged]).mean(axis=0)
    assert [first.trained.mean, first.control.mean] == pytest.approx(list(means))
    text = card(trained)
    scores = f"{first.trained} | default | {first.control} | {first.gain}"
    assert f"| bp with memory | AMI, % | {scores} |" in text
    assert ("not better than the model `default`" in text) == (not first.is_gain)


def test_a_gain_within_the_standard_error_is_none() -> None:
    none = ModelComparison.of("bp", "AMI, %", "default", [[80.0, 79.0], [70.0, 70.9]])
    assert verdict([none]).startswith("not better than the model default, so use default: +0.05")
    one = ModelComparison.of("bp", "AMI, %", "default", [[80.0, 70.0]])
    assert (one.is_gain, str(one.gain)) == (False, "10.00")
    assert verdict([one]).startswith("one graph does not tell whether")
    assert verdict([]).startswith("not compared: there are no new edges")
