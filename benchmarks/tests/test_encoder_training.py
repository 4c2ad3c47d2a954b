"""Curves of training go on where they stopped, and the sets are what their page says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import encoder_training
from benchmarks.encoder_training import main
from benchmarks.shared.graphs import training_sets
from benchmarks.shared.pages import sections
from benchmarks.shared.training.curves import find_by_library, find_on, read_points
from benchmarks.shared.training.literal import literal
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi

CHOSEN = ("gcn", "hops")
MARKS = "before\n<!-- benchmarks/encoder_training.py -->\n<!-- end -->\nafter\n"


def test_a_curve_goes_on_and_the_page_has_a_row_for_each_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = tmp_path / "measured"
    measured.mkdir()
    monkeypatch.setattr(sections, "DOCS", tmp_path)
    monkeypatch.setattr(encoder_training, "MEASURED", measured)
    for part in ("N_VALIDATION", "N_TEST"):
        monkeypatch.setattr(training_sets, part, 1)
    (measured / "encoder.md").write_text(MARKS)
    given = ["--only", "GN.3", "--graphs", "3", "--seeds", "0", "1", "--folder", str(tmp_path)]
    given += ["--encoders", *CHOSEN]
    main([*given, "--steps", "2"])
    before = read_points(tmp_path / "GN.3" / "gcn" / "1")
    main([*given, "--steps", "3", "--page"])
    after = read_points(tmp_path / "GN.3" / "gcn" / "1")
    assert [point["steps"] for point in after] == [0, 2, 3]
    assert after[:2] == before
    assert all(0 < point["test"] < 100 and point["induced"] == 100 for point in after)
    table = (measured / "encoder.md").read_text()
    assert all(f"| GN.3 | {encoder} | 3 |" in table for encoder in CHOSEN)
    assert (measured / "encoder.png").stat().st_size


def test_graphs_of_full_size_have_a_section_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sections, "DOCS", tmp_path)
    monkeypatch.setattr(encoder_training, "MEASURED", tmp_path)
    monkeypatch.setattr(training_sets, "full_gn", training_sets.small_gn)
    for part in ("FULL_VALIDATION", "FULL_TEST"):
        monkeypatch.setattr(training_sets, part, 1)
    (tmp_path / "measured").mkdir()
    page = tmp_path / "measured" / "encoder.md"
    page.write_text(MARKS.replace(".py", ".py --full-size") + MARKS)
    given = ["--full-size", "--only", "GN.3", "--graphs", "2", "--seeds", "0", "--steps", "1"]
    main([*given, "--encoders", "gcn, ICD-C", "--folder", str(tmp_path), "--page"])
    first, second = page.read_text().split(sections.END)[:2]
    assert "| GN.3 | gcn, ICD-C | 1 |" in first
    assert "GN.3" not in second


def test_what_a_gpu_finds_is_what_the_library_finds() -> None:
    graphs = training_sets.small_sets(None, 1)["GN.3"]()
    model = Model(literal(graphs))
    graph = graphs.training[0]
    assert nmi(find_on("cpu")(model, graph), find_by_library(model, graph)) > 0.99


def test_the_systems_are_linked_on_every_day_and_only_their_order_is_shuffled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_sets, "LEAST_LINKS", 10)
    rng = np.random.default_rng(0)
    ring = np.stack([np.arange(20), (np.arange(20) + 1) % 20])
    days = [np.concatenate([ring, rng.integers(0, 40, (2, 30))], axis=1) * 7 for _ in range(20)]
    days.append(ring[:, :5])  # an incomplete one
    table = pa.table(
        {
            "snapshot": np.repeat(np.arange(21), [day.shape[1] for day in days]),
            "src": np.concatenate([day[0] for day in days]),
            "dst": np.concatenate([day[1] for day in days]),
        }
    )
    pq.write_table(table, tmp_path / "as733.parquet")
    sets = training_sets.small_sets(tmp_path, 16)
    kept, shuffled = sets["AS"](), sets["AS, shuffled"]()
    assert len(kept.training) == 16
    for graph, other in zip(kept.training, shuffled.training, strict=True):
        degrees = graph.adjacency.sum(axis=1)
        assert len(degrees) == kept.widths[0] >= 20
        assert degrees.min() >= 1
        assert sorted(degrees) == sorted(other.adjacency.sum(axis=1))
        for node in range(20):
            assert graph.adjacency[node, (node + 1) % 20] == 1
