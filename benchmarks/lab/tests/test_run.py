"""`python -m benchmarks.lab --quick`: methods that are installed have a result, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pytest

from benchmarks.lab import __main__ as program
from benchmarks.lab.measured import measured
from benchmarks.lab.page import PICTURE, page
from benchmarks.lab.results import read_rows, write_rows

METHODS = ("bp", "prone", "infomap", "gat", "mc-sbm")
"""One that learns and some that do not, of several libraries; test_method_contract.py has all."""
QUICK = ("--quick", "--only", "LFR, small", "--methods", *METHODS)
"""One of the two families: the other takes as long, and shows nothing else."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "quick.parquet"
    program.main([*QUICK, "--results", str(path)])
    return path


def test_every_method_has_a_result_or_says_what_to_install(results: Path) -> None:
    rows = read_rows(results)
    assert {row.method for row in rows} == set(METHODS)
    for row in rows:
        assert row.status in ("ok", "missing"), (row.method, row.detail)
        if row.status == "missing":
            assert "install" in row.detail
        else:
            assert row.nmi is not None
            assert row.ari is not None
            assert row.seconds > 0
            assert '"numpy"' in row.versions


def test_a_second_run_does_only_what_is_left(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = read_rows(results)
    write_rows(results, [row for row in rows if row.method != "bp"])
    program.main([*QUICK, "--results", str(results)])
    done = [line for line in capsys.readouterr().out.splitlines() if ": ok," in line]
    assert [line.split(":")[0] for line in done] == ["LFR, small 0 bp"]
    assert [row.cell for row in read_rows(results)] == [row.cell for row in rows]


def test_the_page_is_made_again_from_rows_alone(results: Path, tmp_path: Path) -> None:
    page, rows = tmp_path / "lab.md", tmp_path / "rows.csv"
    program.main(
        ["--results", str(results), "--graphs", "0", "--page", str(page), "--csv", str(rows)]
    )
    text = page.read_text(encoding="utf-8")
    assert f"]({PICTURE})" in text
    assert (tmp_path / PICTURE).read_bytes().startswith(b"\x89PNG")
    table = pyarrow.csv.read_csv(rows)
    assert table["method"].to_pylist() == [row.method for row in read_rows(results)]


def test_the_page_says_where_ours_is_first_and_where_not(results: Path) -> None:
    row = next(row for row in read_rows(results) if row.status == "ok")
    kept = replace(row, data_set="GN.3", k_found=row.k_asked, seconds=1.0, modularity=0.3)
    rows = [
        replace(kept, method=method, graph=graph, nmi=nmi, ac=0.8)
        for method, nmi in (("bp", 0.9), ("infomap", 0.899), ("prone", 0.5), ("bp-alone", 0.89))
        for graph in (0, 1)
    ]
    # On the one graph that it shares with bp, spectral is better.
    rows.append(replace(kept, method="spectral", graph=1, nmi=0.95, ac=0.7))
    text = page(rows)
    assert "| NMI | 0 of 1; 5.00 (GN.3, spectral) | 0 of 1; 0.90 (GN.3, infomap) |" in text
    assert "| AC | 1 of 1 | 1 of 1 |" in text
    assert "| NMI | GN.3 | 90.00 | spectral: 95.00 | 5.00 |" in text


def test_the_trade_off_is_compared_on_common_graphs(results: Path) -> None:
    row = next(row for row in read_rows(results) if row.status == "ok")
    ours = replace(row, data_set="GN.3", method="bp", nmi=0.9, seconds=1.0)
    hard = replace(ours, graph=1, nmi=0.3)
    other = replace(ours, method="prone", nmi=0.8)
    slow = replace(ours, method="m-nmf", nmi=0.1, seconds=10.0)
    text = page([ours, hard, other, slow, replace(slow, graph=1)])
    assert "| TOS, NMI | 1 of 1 |" in text, "prone did not run on the hard graph"
    assert measured([ours, hard, other]).common_graphs("GN.3") == {0}


def test_the_page_shows_how_far_graphs_are_apart(results: Path) -> None:
    row = next(row for row in read_rows(results) if row.status == "ok")
    one = replace(row, data_set="GN.3", method="prone", nmi=0.5, ac=None)
    assert "| prone | 50.00 |  |" in page([one]), "one graph has no spread"
    assert "| prone | 52.00 ± 2.83 |  |" in page([one, replace(one, graph=1, nmi=0.54)])


def test_modularity_is_compared_at_about_the_same_number_of_communities(results: Path) -> None:
    row = next(row for row in read_rows(results) if row.status == "ok")
    ours = replace(row, data_set="AS", method="bp", k_found=100, modularity=0.5)
    near = replace(ours, method="prone", k_found=96, modularity=0.4)
    far = replace(ours, method="infomap", k_found=94, modularity=0.6)
    assert "| modularity | 1 of 1 |" in page([ours, near, far])
    assert "| modularity | 0 of 1; 10.00 (AS, infomap) |" in page(
        [ours, near, replace(far, k_found=95)]
    )


def test_the_page_shows_ours_beside_the_published_value(results: Path) -> None:
    rows = read_rows(results)
    here = [replace(row, data_set="GN.3") for row in rows]
    here = [replace(row, nmi=0.9) if row.method == "prone" else row for row in here]
    text = page(here)
    assert "not measured yet: GN.4, L(f,.3)" in text
    assert "| prone | 90.0 (96.5) **-6.5** |" in text
    slow = [replace(row, seconds=1670.29 / 2 if row.method == "prone" else 1.0) for row in here]
    assert "| prone | 0.45 (0.95) -0.50 |" in page(slow), "the paper's slowest took 1670.29 s"


def test_a_run_that_failed_is_noted_on_the_page(results: Path) -> None:
    row = replace(read_rows(results)[0], status="crash", detail="why")
    assert "- bp, graph 0: crash, why" in page([row])
    assert "- bp, graph 0, 1: crash, why" in page([row, replace(row, graph=1)])
