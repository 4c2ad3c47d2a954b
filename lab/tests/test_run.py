"""`python -m lab --quick`: every method that is installed has a result, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab import __main__ as program
from lab.packages import PACKAGES
from lab.page import page
from lab.results import read_rows, write_rows
from stream_icd.evaluation.discover import methods_in

QUICK = ("--quick", "--only", "LFR, small")
"""One of the two families: the other takes as long, and shows nothing else."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "quick.parquet"
    program.main([*QUICK, "--results", str(path)])
    return path


def test_every_method_has_a_result_or_says_what_to_install(results: Path) -> None:
    rows = read_rows(results)
    assert {row.method for row in rows} == set(methods_in(*PACKAGES))
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
    rows = [replace(row, status="crash", detail="why") for row in read_rows(results)[:1]]
    assert "- bp, graph 0: crash, why" in page(rows)
