"""What each rule of a detector brings, on the streams that are for choosing.

from benchmarks.shared.pages.rule_table import compare_rules

compare_rules({"ours": detect_remembering, "without merges": other}, data)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.shared.methods.stream_methods import Remember, remembering
from benchmarks.shared.spread import with_spread
from benchmarks.shared.streams.known_streams import known_streams
from benchmarks.shared.streams.stream_scores import StreamScores, scores_of
from stream_icd.registry.find import open_model

HEAD = "| stream | rule | AMI | last three | NMI | churn | K | classes | horizon | CPU ms |\n"


def compare_rules(
    rules: Mapping[str, Remember],
    data: Path,
    n_seeds: int = 2,
    only: Sequence[str] = (),
    model: str = "default",
) -> dict[tuple[str, str], list[StreamScores]]:
    """Follow each choosing stream with each rule, print a row each, and return all scores.

    rules: `detect_remembering`, and functions with its arguments that leave out a rule, by name.
    only: the streams whose names begin so.
    """
    frozen, found = open_model(model).model, dict[tuple[str, str], list[StreamScores]]()
    print(HEAD + "|---" * 10 + "|", flush=True)
    for stream in known_streams(data).values():
        if only and not stream.name.startswith(tuple(only)):
            continue
        for seed in stream.seeds("choose", n_seeds):
            windows = stream.load(seed)
            for name, detect in rules.items():
                scores = scores_of(windows, remembering(detect, frozen)(windows))
                found.setdefault((stream.name, name), []).append(scores)
        for name in rules:
            if (stream.name, name) in found:
                print(f"| {stream.name} | {name} {cells(found[stream.name, name])}", flush=True)
    return found


def cost_table(found: Mapping[tuple[str, str], Sequence[StreamScores]]) -> str:
    """What each rule loses against the first one, in AMI: a row for each, a column a stream.

    Mean over the seeds, and the standard deviation of the differences. At the end: their means, and
    how many times as much processor time the rule takes.
    """
    streams, rules = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
    rows = [f"| rule | {' | '.join(streams)} | mean | CPU |", "|---" * (len(streams) + 3) + "|"]
    for rule in rules[1:]:
        costs = [
            np.array([scores.ami for scores in found[stream, rules[0]]])
            - np.array([scores.ami for scores in found[stream, rule]])
            for stream in streams
        ]
        shown = [
            f"{cost.mean():+.1f}" + (f" ± {cost.std(ddof=1):.1f}" if len(cost) > 1 else "")
            for cost in costs
        ]
        mean = np.mean([cost.mean() for cost in costs])
        times = [
            _milliseconds(found[stream, rule]) / _milliseconds(found[stream, rules[0]])
            for stream in streams
        ]
        rows.append(f"| {rule} | {' | '.join(shown)} | {mean:+.1f} | {np.mean(times):.2f} |")
    return "\n".join([*rows, ""])


def _milliseconds(scores: Sequence[StreamScores]) -> float:
    return float(np.mean([one.milliseconds for one in scores]))


def cells(scores: Sequence[StreamScores]) -> str:
    """The cells of a row: means over the seeds, and the standard deviation of AMI."""
    ami = [score.ami for score in scores]
    horizons = [score.horizon for score in scores if score.horizon is not None]
    means = [
        f"{np.mean([getattr(score, name) for score in scores]):.{digits}f}"
        for name, digits in (
            ("ami_last", 1),
            ("nmi", 1),
            ("churn", 1),
            ("communities", 0),
            ("classes", 0),
        )
    ]
    horizon = f"{np.mean(horizons):.1f}" if horizons else ""
    spent = f"{np.mean([score.milliseconds for score in scores]):.1f}"
    return f"| {with_spread(ami)} | {' | '.join(means)} | {horizon} | {spent} |"
