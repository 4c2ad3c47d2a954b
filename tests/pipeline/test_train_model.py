"""Training makes a model that detectors can use, and is honest about what it added."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_icd.errors import BadRow, BadSettings, SourceNotFound
from stream_icd.icd.detection import detect
from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.icd.recipe import Recipe
from stream_icd.pipeline.train_model import TrainedModel, card, train_model, write_model
from stream_icd.pipeline.training_data import training_graphs
from stream_icd.registry.shipped import open_model

SMALL = Recipe(
    name="small",
    encoder={"widths": (64, 32, 16)},
    discriminator_widths=(16, 1),
    schedule={"epochs": 2, "samples": 4},
    losses={"rows": 100},
    data="gn:nodes=200,communities=8,p_in=0.4,graphs=10,seed=3",
)


@pytest.fixture(scope="module")
def trained() -> TrainedModel:
    return train_model(training_graphs(SMALL.data), SMALL, threads=1)


def test_a_written_model_detects_as_the_trained_one_did(
    trained: TrainedModel, tmp_path: Path
) -> None:
    write_model(trained, tmp_path / "small")
    opened = open_model(str(tmp_path / "small"))
    (graph,) = training_graphs("gn:nodes=200,communities=8,p_in=0.6,graphs=1,seed=99")
    for mode in ("refined", "faithful"):
        expected = detect(graph.adjacency, trained.model, 8, mode=mode).communities
        found = detect(graph.adjacency, opened.model, 8, mode=mode).communities
        assert np.array_equal(found, expected)
    assert opened.version.startswith("small@")
    assert (tmp_path / "small" / "training.png").read_bytes().startswith(b"\x89PNG")


def test_the_card_says_what_training_added(trained: TrainedModel) -> None:
    text = card(trained)
    assert "8 graphs to train on, the next 1 to choose" in text
    assert [row.name for row in trained.test] == ["refined", "faithful", "faithful, last epoch"]
    for row in trained.test:
        assert f"| {row.name} | {row.trained} | {row.control} | {row.gain} |" in text
        assert row.gain.mean == pytest.approx(row.trained.mean - row.control.mean)
    # Kept or not, the last epoch's weights differ from the control's, and are told.
    assert str(trained.test[2].trained) != str(trained.test[2].control)


def test_the_model_is_made_again_from_its_own_recipe(trained: TrainedModel, tmp_path: Path) -> None:
    write_model(trained, tmp_path / "first")
    done = subprocess.run(
        (
            *(sys.executable, "-m", "stream_icd.cli", "train"),
            *(str(tmp_path / "first" / "recipe.toml"), "--out", str(tmp_path / "second")),
            *("--threads", "1"),
        ),
        capture_output=True,
        text=True,
        timeout=270,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("model.safetensors", "recipe.toml", "card.md"):
        first, second = (tmp_path / side / name for side in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_graphs_without_labels_learn_from_a_teacher() -> None:
    clear = training_graphs(SMALL.data.replace("p_in=0.4", "p_in=0.6"))
    graphs = [LabelledGraph(graph.adjacency) for graph in clear]
    trained = train_model(graphs, SMALL, threads=1)
    assert trained.measure == "modularity"
    assert trained.test[0].trained.mean > 0.3


def test_descriptions_are_checked() -> None:
    with pytest.raises(BadSettings, match="no graphs of kind 'sbm'"):
        training_graphs("sbm:nodes=3")
    with pytest.raises(BadSettings, match="unknown mixing"):
        training_graphs("gn:mixing=0.3")
    with pytest.raises(BadSettings, match="'p_in' is no name=value"):
        training_graphs("gn:p_in")
    with pytest.raises(BadSettings, match="could not convert"):
        training_graphs("gn:p_in=high")
    with pytest.raises(BadSettings, match="'path'"):
        training_graphs("as:graphs=3")
    with pytest.raises(SourceNotFound, match=r"no-such\.tar\.gz"):
        training_graphs("as:path=no-such.tar.gz")


def test_lfr_graphs_of_varying_size_have_their_truth() -> None:
    graphs = training_graphs("lfr:nodes=1000-1200,mixing=0.2,graphs=3,seed=5")
    sizes = [graph.adjacency.shape[0] for graph in graphs]
    assert all(1000 <= size <= 1200 for size in sizes)
    assert len(set(sizes)) > 1
    assert all(graph.labels is not None for graph in graphs)


def test_taxi_fixes_become_graphs_and_disorder_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    fixes = {
        "t": np.repeat(np.arange(0, 600, 30), 20).astype("datetime64[s]"),
        "taxi": np.tile(np.arange(20), 20),
        "lat": 39.9 + rng.normal(0, 0.01, 400),
        "lon": 116.4 + rng.normal(0, 0.01, 400),
    }
    pq.write_table(pa.table(fixes), tmp_path / "fixes.parquet")
    graphs = training_graphs(f"taxi:path={tmp_path}/fixes.parquet,tick=1m,stale=2m,sample=10")
    assert [graph.adjacency.shape for graph in graphs] == [(10, 10)] * len(graphs)
    assert len(graphs) >= 10
    backwards = pa.table({name: column[::-1] for name, column in fixes.items()})
    pq.write_table(backwards, tmp_path / "backwards.parquet")
    with pytest.raises(BadRow, match="sort the file by t"):
        training_graphs(f"taxi:path={tmp_path}/backwards.parquet,tick=1m")
