"""Our figures beside the published ones: quality, and the trade-off score."""

from __future__ import annotations

from benchmarks.lab.markdown import matrix
from benchmarks.lab.measured import OF_ROW, PUBLISHED_AS, TITLES, Measured, scores
from benchmarks.lab.paper.published import IN_PERCENT, means, printed_scores
from benchmarks.lab.tos import Measure

APART = 3.0
"""Points of difference from the published value that the page marks."""


def beside_the_paper(found: Measured) -> list[str]:
    """Ours, the published mean and the difference, for each measure of the paper."""
    published = means()
    lines = [
        "## Beside the published values",
        "",
        "Ours, the published value in parentheses, and the difference. Ours stands for the same "
        "method run here; ICD is not trained here. A difference of more than "
        f"{APART:.0f} points is bold, except for NCut, whose scale depends on single nodes.",
        "",
    ]
    for measure in OF_ROW:
        factor = 100 if measure in IN_PERCENT else 1

        def text(name: str, method: str, measure: Measure = measure, factor: int = factor) -> str:
            ours = found.mean(name, method, OF_ROW[measure])
            theirs = published.get((measure, PUBLISHED_AS.get(method, ""), name))
            if ours is None or theirs is None:
                return ""
            apart = factor * ours - theirs
            marked = abs(apart) > APART and measure != "ncut"
            return f"{factor * ours:.1f} ({theirs:.1f}) " + (
                f"**{apart:+.1f}**" if marked else f"{apart:+.1f}"
            )

        lines += matrix(TITLES[measure], found.methods, found.data_sets, text)
    return lines


def trade_off(found: Measured) -> list[str]:
    """TOS as if ours stood in the paper's tables, beside the printed score."""
    printed = printed_scores()
    lines = [
        "## Trade-off scores",
        "",
        "TOS as the paper defines it (`lab.tos`), the printed score in parentheses, "
        "and the difference. Ours are computed as if they stood in the paper's tables: the slowest "
        "method and the highest NCut are those of both together. The machines differ: one thread "
        "here, a server with 48 cores and a GPU there. Methods that the paper does not have show "
        "our score alone.",
        "",
    ]
    for measure in OF_ROW:
        computed = {
            name: scores(found, name, measure, beside_paper=True) for name in found.data_sets
        }

        def text(
            name: str,
            method: str,
            measure: Measure = measure,
            computed: dict[str, dict[str, float]] = computed,
        ) -> str:
            ours = computed[name].get(method)
            if ours is None:
                return ""
            theirs = printed.get((measure, PUBLISHED_AS.get(method, ""), name))
            return f"{ours:.2f}" + (
                "" if theirs is None else f" ({theirs:.2f}) {ours - theirs:+.2f}"
            )

        lines += matrix(TITLES[measure], found.methods, found.data_sets, text)
    return lines
