"""What retraining wins back when the law of a stream changes, and whether it ever does harm.

    python -m benchmarks.retraining streams --data FOLDER [--results FILE]
    python -m benchmarks.retraining runs [--results FILE]

Retraining has no labels here; only the oracle and the score do. Settings are those of
`stream-icd retrain`, unless the page says otherwise. Each figure is kept in FILE (JSON lines) as
soon as it is known; a run that was ended goes on from there. Each part writes its section of
docs/measured/retraining.md. Choices were made on the seeds of `--validation`; test seeds are
reported.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import numpy as np

from benchmarks.shared.graphs.data_sets import TEST_SEED, TRAINING_SEED
from benchmarks.shared.kept import Figures, Kept
from benchmarks.shared.pages.retraining_page import (
    AFTER,
    BEFORE,
    draw_streams,
    runs_table,
    streams_table,
)
from benchmarks.shared.pages.sections import DOCS, write_section
from benchmarks.shared.streams.retrained_stream import (
    Qualities,
    Step,
    Windows,
    hidden_edges_alone,
    learned_model,
    nmi_by_memory,
    play,
)
from benchmarks.shared.streams.retraining_laws import (
    CHANGES,
    LAWS,
    NO_COMMUNITIES,
    SMALL_LAWS,
    Change,
    windows_of,
)
from stream_icd.learning.retraining.settings import Retraining, Sizes
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model
from stream_icd.sources.datasets.as_topology import read_as_topology

FIRST = 8
"""Windows that the first champion learns from."""

SETTINGS = Retraining("", every_windows=40)

AS_EVERY, AS_BLOCK = 12, 18
"""Each twelfth day of the AS years; the oracle learns anew for each 18 of these windows."""

RUN_SHIFT, RUN_AFTER, RUN_EVERY = 6, 26, 8
"""Windows of a short stream before and after the shift, and from one round to the next."""

FRESH = 12
"""Further windows on which both champions are compared after a promotion."""


def main() -> None:
    """Run a part, and write its section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    streams = parts.add_parser("streams", help="what is won back after a shift; the picture")
    streams.add_argument("--data", type=Path, required=True, help="folder of the real data")
    streams.add_argument("--seeds", type=int, default=3, help="streams of each kind")
    runs = parts.add_parser("runs", help="how often a worse model is promoted")
    runs.add_argument("--runs", type=int, default=100, help="half of them with a shift")
    for part in (streams, runs):
        part.add_argument("--results", type=Path, default=Path("retraining-results.jsonl"))
        part.add_argument("--validation", action="store_true", help="no page, other seeds")
    options = parser.parse_args()
    kept = Kept(options.results)
    seed = TRAINING_SEED if options.validation else TEST_SEED
    if options.part == "streams":
        found = _streams(kept, options.data, range(seed, seed + options.seeds))
        table = streams_table(found)
        draw = partial(draw_streams, found, DOCS / "retraining.png")
    else:
        table = runs_table(_runs(kept, range(seed, seed + options.runs)))
        draw = None
    print(table)
    if not options.validation:
        write_section("measured/retraining.md", f"retraining.py {options.part}", table)
        if draw is not None:
            draw()


def _streams(kept: Kept, data: Path, seeds: Sequence[int]) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {}
    for seed in seeds:
        for change in CHANGES:
            name = f"{change.name}, seed {seed}"
            found.setdefault(change.name, []).append(
                kept.of(name, partial(_planted, kept, change, seed))
            )
    name = f"AS, each {AS_EVERY}th day"
    found[name] = [kept.of(name, partial(_as_years, kept, data))]
    return found


def _planted(kept: Kept, change: Change, seed: int) -> Figures:
    """The quality of each window of a planted stream: NMI of a detector with memory."""
    counts = (FIRST + BEFORE, *repeat(AFTER, len(change.laws) - 1))
    laws = [LAWS[name] for name in change.laws]
    windows = windows_of(list(zip(laws, counts, strict=True)), seed)
    first = _known_model(kept, f"first {change.laws[0]}, seed {seed}", windows[:FIRST])
    oracles = [_oracle(kept, name) for name in change.laws]
    by_window = list(chain.from_iterable(map(repeat, oracles, counts)))
    shifts = [BEFORE + AFTER * at for at in range(len(change.laws) - 1)]
    return {"shifts": shifts, **_played(windows, first, by_window[FIRST:], nmi_by_memory)}


def _oracle(kept: Kept, law: str) -> Model:
    """A model learned with labels from other windows of a law."""
    others = windows_of([(LAWS[law], FIRST)], TEST_SEED - 1)
    return _known_model(kept, f"oracle {law}", others, by_labels=True)


def _as_years(kept: Kept, data: Path) -> Figures:
    """The score on hidden edges of each window of the AS years, whose law drifts all the time."""
    source = read_as_topology(data / "as733.parquet")
    windows = [one for at, one in enumerate(source.snapshots) if at % AS_EVERY == 0]
    first = _known_model(kept, "first AS", windows[:FIRST])
    oracles = list[Model]()
    for start in range(FIRST, len(windows), AS_BLOCK):
        block = windows[start : start + AS_BLOCK]
        oracles += [_known_model(kept, f"oracle AS {start}", block[:: AS_BLOCK // 3])] * len(block)
    return {"shifts": [], **_played(windows, first, oracles, hidden_edges_alone)}


def _played(
    windows: Windows, first: Model, oracles: Sequence[Model], qualities: Qualities
) -> Figures:
    steps = list(play(windows, FIRST, first, SETTINGS))
    played = windows[FIRST:]
    models = {
        "frozen": [first] * len(steps),
        "retrained": [step.before for step in steps],
        "oracle": oracles,
        "default": [open_model("default").model] * len(steps),
    }
    found = {name: qualities(played, of_windows) for name, of_windows in models.items()}
    return {**found, **_decided(steps), "first": asdict(first.bp)}


def _decided(steps: Sequence[Step]) -> Figures:
    decisions = [step.decision for step in steps]
    return {
        "outcomes": [step.outcome for step in steps],
        "reasons": [
            decision.reason
            for decision in decisions
            if decision is not None and decision.outcome != "not now"
        ],
    }


def _runs(kept: Kept, seeds: Sequence[int]) -> list[Figures]:
    return [
        kept.of(f"run {seed}", partial(_run, kept, number, seed))
        for number, seed in enumerate(seeds)
    ]


def _run(kept: Kept, number: int, seed: int) -> Figures:
    """Play a short stream; compare both champions of each promotion."""
    started = time.process_time()
    shift, own_first, by_number = number % 2 == 1, number % 4 < 2, number % 8 < 4
    names = _two_laws(number // 2, shift=shift)
    before, after = (SMALL_LAWS[name] for name in names)
    windows = windows_of([(before, FIRST + RUN_SHIFT), (after, RUN_AFTER)], seed)
    own = f"first {names[0]}"  # learned from the first windows of one run, used in all
    first = _known_model(kept, own, windows[:FIRST]) if own_first else open_model("default").model
    settings = Retraining(
        "",
        every_windows=16 if by_number or not shift else None,
        sizes=Sizes(newest=3, older=0),
    )
    steps = list(play(windows, FIRST, first, settings, RUN_EVERY))
    promoted = [
        _gain(step, names[at >= RUN_SHIFT], seed)
        for at, step in enumerate(steps)
        if step.outcome == "promoted"
    ]
    return {
        "laws": names,
        "shift": shift,
        "first": "learned" if own_first else "default",
        "promoted": promoted,
        **_decided(steps),
        "seconds": round(time.process_time() - started, 1),
    }


def _two_laws(number: int, *, shift: bool) -> tuple[str, str]:
    """The law before and after, in turns."""
    laws = list(SMALL_LAWS)
    first = number % len(laws)
    step = 1 + number // len(laws) % (len(laws) - 1) if shift else 0
    return laws[first], laws[(first + step) % len(laws)]


def _known_model(kept: Kept, name: str, windows: Windows, *, by_labels: bool = False) -> Model:
    """The model learned from windows; it is learned once."""
    learned = kept.of(name, lambda: asdict(learned_model(windows, by_labels=by_labels).bp))
    recipe = Recipe(name="first")
    return Model(recipe, BpParameters(**learned))


def _gain(step: Step, law: str, seed: int) -> Figures:
    """What a promotion changes on further windows of the law at that time, on average."""
    fresh = windows_of([(SMALL_LAWS[law], FRESH)], seed + 5000)
    before, after = ([model] * FRESH for model in (step.before, step.after))
    gain = {"hidden edges": _mean_gain(hidden_edges_alone, fresh, before, after)}
    if law != NO_COMMUNITIES:
        gain["nmi"] = _mean_gain(nmi_by_memory, fresh, before, after)
    return gain


def _mean_gain(
    qualities: Qualities, windows: Windows, before: Sequence[Model], after: Sequence[Model]
) -> float:
    return float(np.mean(np.subtract(qualities(windows, after), qualities(windows, before))))


if __name__ == "__main__":
    main()
