"""Which windows teach and which prove, and what is known of them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.arrays import NOBODY
from stream_icd.core.snapshot import Window
from stream_icd.history.files import ArchivedDay, ArchivedWindow, Identity
from stream_icd.learning.retraining.settings import Sizes
from stream_icd.learning.retraining.windows import Accumulated, Lesson
from tests.testbed.lessons import small_windows

START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=10)


def _windows(
    count: int, graphs: tuple[str, ...] = ("g",), length: timedelta = STEP
) -> list[ArchivedWindow]:
    """One begins every ten minutes, of the graphs in turn."""
    return [
        ArchivedWindow(
            ArchivedDay(START.date(), graph, "snapshots"),
            Identity(f"w{number}"),
            Window(START + number * STEP, START + number * STEP + length),
            rows=1,
            columns=(),
            headers=(),
        )
        for number, graph in zip(range(count), cycle(graphs), strict=False)
    ]


def choose_windows(
    windows: Sequence[ArchivedWindow], sizes: Sizes = Sizes(), seed: int = 0, **options: Any
) -> Any:
    return Accumulated(tuple(windows), {}, 0).choose(sizes, seed, **options)


@given(
    st.integers(0, 60),
    st.integers(0, 60),
    st.builds(
        Sizes,
        newest=st.integers(3, 8),
        older=st.integers(0, 5),
        prove=st.integers(4, 8),
        least=st.integers(1, 3),
    ),
    st.none() | st.integers(1, 60),
    st.integers(0, 3),
)
def test_what_proves_is_newer_than_what_teaches(
    count: int, unseen: int, sizes: Sizes, since: int | None, seed: int
) -> None:
    unseen, n_usable = min(unseen, count), count if since is None else min(since, count)
    windows = _windows(count)
    usable = windows[count - n_usable :]
    chosen = choose_windows(
        windows,
        sizes,
        seed,
        unseen=windows[count - unseen :],
        since=None if since is None else usable,
    )
    if isinstance(chosen, str):
        assert unseen < sizes.prove or n_usable < sizes.prove + sizes.least
        return
    assert chosen.prove == windows[count - sizes.prove :]
    assert chosen.prove == usable[n_usable - sizes.prove :]  # nothing from before the change
    assert unseen >= sizes.prove  # the champion did not learn from them either
    learn = [usable.index(window) for window in chosen.learn]
    assert learn == sorted(set(learn))
    assert max(learn) < n_usable - sizes.prove
    assert sizes.least <= len(learn) <= sizes.newest + sizes.older


def test_the_seed_alone_draws_older_windows_and_a_longer_stream_keeps_most_of_them() -> None:
    windows = _windows(101)

    def older(count: int, seed: int) -> set[ArchivedWindow]:
        chosen = choose_windows(windows[:count], Sizes(older=5), seed, unseen=windows[:count])
        return set(chosen.learn[:5])

    assert older(100, 1) == older(100, 1) != older(100, 2)
    assert sum(len(older(100, seed) & older(101, seed)) for seed in range(50)) > 230  # of 250


def test_it_says_how_many_windows_are_missing() -> None:
    windows = _windows(20)
    few = choose_windows(windows, unseen=windows[17:])
    assert few == "3 of 8 windows that the champion did not learn from"
    few = choose_windows(windows, unseen=windows, since=windows[15:])
    assert few == "5 of 11 windows after the change"


def test_windows_of_a_graph_that_the_champion_knows_teach_beside_unseen_ones_of_another() -> None:
    windows = _windows(20, ("new", "known"))
    chosen = choose_windows(windows, unseen=windows[::2])
    assert chosen.prove == windows[4::2]
    assert chosen.learn[-6:] == windows[9::2]
    few = choose_windows(windows, unseen=windows[:9], since=windows[5:])
    assert few == "4 of 8 windows after the change that the champion did not learn from"


def test_windows_that_overlap_those_that_prove_do_not_teach() -> None:
    hours = _windows(40, length=timedelta(hours=1))
    chosen = choose_windows(hours, unseen=hours)
    assert chosen.prove == hours[32:]
    assert chosen.learn[-6:] == hours[21:27]
    assert hours[26].window.end == hours[32].window.start
    few = choose_windows(hours[:14], unseen=hours[:14])
    assert few == "1 of 3 windows that end before those that prove"


SNAPSHOT, LABELS = small_windows(1)[0]


def changed(**changes: object) -> Lesson:
    return Lesson.of(SNAPSHOT, replace(LABELS, **changes))  # type: ignore[arg-type]


def test_labels_are_joined_with_the_nodes_they_name() -> None:
    order = np.random.default_rng(0).permutation(len(LABELS.nodes))
    joined = changed(nodes=LABELS.nodes.take(order), labels=LABELS.labels[order])
    assert joined.known == "all nodes"
    assert joined.labels is not None
    assert len(np.unique(np.stack([joined.labels, LABELS.labels]), axis=1).T) == 8
    some = changed(nodes=LABELS.nodes[:100], labels=LABELS.labels[:100])
    assert some.known == "some nodes"
    assert some.labels is not None
    assert (some.labels == NOBODY).sum() == SNAPSHOT.n_nodes - 100
    assert some.graph(by_labels=True).labels is None  # too few to teach
    ghosts = pa.array(range(10_000, 10_003), SNAPSHOT.nodes.type)
    labels = np.append(LABELS.labels, [0, 1, 2]).astype(np.int32)
    more = changed(nodes=pa.concat_arrays([LABELS.nodes, ghosts]), labels=labels)
    assert (more.known, len(joined.labels)) == ("all nodes", SNAPSHOT.n_nodes)
    assert changed(nodes=LABELS.nodes.cast(pa.string())).known == "none"


def test_labels_that_contradict_the_edges_teach_nothing_and_some_wrong_ones_do() -> None:
    rng, labels = np.random.default_rng(1), LABELS.labels
    for wrong in (np.zeros_like(labels), rng.permutation(labels)):
        poisoned = changed(labels=wrong)
        assert (poisoned.known, poisoned.labels) == ("contradicted", None)
    flipped = rng.random(len(labels)) < 0.1
    assert changed(labels=np.where(flipped, (labels + 1) % 8, labels)).known == "all nodes"
