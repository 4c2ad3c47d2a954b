"""The paper's tables, and that our TOS is the paper's."""

from __future__ import annotations

from benchmarks.lab.paper.published import computed_scores, means, printed_scores, without_a_part

LAST_DIGIT = 0.01


def test_the_tables_are_whole() -> None:
    found = means()
    n_methods, n_planted, n_all = 19, 6, 10
    stages = 2 * 3 * n_all
    assert len(found) == n_methods * (2 * n_planted + 3 * n_all) + stages
    assert found["nmi", "ICD-M", "L(f,.6)"] == 56.07
    assert found["seconds", "NECS", "GN.3"] == 1670.29
    assert found["seconds", "ICD-C Clus", "Enron"] == 0.19


def test_the_ablation_is_whole() -> None:
    found = without_a_part()
    n_variants, n_parts, n_data_sets, n_measures = 2, 6, 3, 4
    assert len(found) == n_variants * n_parts * n_data_sets * n_measures
    assert found["nmi", "ICD-M", "without FR", "L(f,.6)"] == 11.89
    assert found["ncut", "ICD-C", "without Feat", "GN.3"] == 1.65e5


def test_our_trade_off_score_is_the_papers() -> None:
    printed, computed = printed_scores(), computed_scores()
    assert len(printed) == 608
    apart = {key: (printed[key], computed[key]) for key in printed}
    wrong = {k: pair for k, pair in apart.items() if abs(pair[0] - pair[1]) > LAST_DIGIT / 2}
    assert not wrong
