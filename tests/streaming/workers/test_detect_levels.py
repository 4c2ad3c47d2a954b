"""A detector that says which communities are one on further levels: `consume detect --levels`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from stream_icd.core.arrays import Labels
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadCommunities
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.messages.records import Processed
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.record import RecordDetection
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.work import Relay
from stream_icd.wire.communities import decode_communities, encode_communities
from tests.streaming.workers.remembered import records

N_SMALL, SIZE, OF_LARGE = 24, 25, 4


def windows(count: int, graph: str = "g") -> list[Snapshot]:
    """Windows of small communities, four of which are a large one; some nodes move."""
    return [snapshot for snapshot, _ in planted(count, N_SMALL, SIZE, (0.5, 0.03, 0.004), graph)]


def planted(
    count: int, n_small: int, size: int, chances: Sequence[float], graph: str = "g"
) -> Iterator[tuple[Snapshot, Labels]]:
    """Windows of communities, four of which are one on each further level, and the smallest ones.

    The chances are those of an edge in the same community of each level, and of any other edge.
    """
    rng, small = np.random.default_rng(3), np.repeat(np.arange(n_small), size)
    for number in range(count):
        moved = rng.random(len(small)) < 0.02
        small = np.where(moved, rng.integers(0, n_small, len(small)), small)
        chance = np.full((len(small), len(small)), chances[-1])
        for level, inside in reversed(list(enumerate(chances[:-1]))):
            of_level = small // OF_LARGE**level
            chance = np.where(of_level[:, None] == of_level, inside, chance)
        src, dst = np.nonzero(np.triu(rng.random(chance.shape) < chance, 1))
        start = datetime(2026, 1, 1, tzinfo=UTC) + number * timedelta(days=1)
        day = Window(start, start + timedelta(days=1))
        snapshot = snapshot_from_pairs(src, dst, graph=graph, id=f"{graph}/{number}", window=day)
        yield snapshot, small.astype(np.int32)


def results(settings: DetectSettings, count: int) -> list[Communities]:
    detection, relay, found = RecordDetection(open_model("default"), settings), Relay(), []
    for record in records(windows(count)):
        done = detection(record, relay if settings.memory == "auto" else None)
        assert isinstance(done, Processed)
        (sent,) = done.outgoing
        found.append(decode_communities(sent.key, sent.value, sent.headers))
    return found


def parents_of(result: Communities) -> dict[int, int]:
    assert result.levels is not None
    assert result.community_ids is not None
    return dict(zip(result.community_ids.tolist(), result.levels[0].tolist(), strict=True))


def test_ids_last_on_each_level() -> None:
    settings = DetectSettings(memory="auto", group="g", threads=1, levels=True)
    first, *later = results(settings, 5)
    parents = parents_of(first)
    assert len(parents) == N_SMALL
    assert len(set(parents.values())) == N_SMALL // OF_LARGE
    assert all(parents[parent] == parent <= own for own, parent in parents.items())
    assert all(parents_of(result) == parents for result in later)


def test_ids_last_on_each_of_several_levels() -> None:
    memory, seen, model = None, [], open_model("default").model
    for snapshot, small in planted(5, 48, 16, (0.9, 0.08, 0.01, 0.001)):
        found = detect_remembering(
            snapshot, model, memory, levels="above", find=lambda *_, now=small: now, threads=1
        )
        memory = found.memory
        seen.append(found.levels.ancestors(found.community_ids))
        assert [len(np.unique(level)) for level in seen[-1]] == [3, 12]
    assert all(set(one[at]) == set(seen[0][at]) for one in seen for at in (0, 1))


def test_without_memory_levels_are_of_the_numbers_of_communities() -> None:
    (found,) = results(DetectSettings(threads=1, levels=True), 1)
    assert found.levels is not None
    assert found.community_ids is None
    assert set(found.levels[0]) <= set(range(N_SMALL))


@pytest.mark.parametrize("memory", ["auto", "off"])
def test_levels_change_nothing_else_but_the_revision(memory: str) -> None:
    off = DetectSettings(memory=memory, group="g", threads=1)
    for one, other in zip(results(off, 2), results(replace(off, levels=True), 2), strict=True):
        assert one.levels is None
        assert one.labels.tolist() == other.labels.tolist()
        assert one.revision != other.revision
        assert (
            encode_communities(one).value == encode_communities(replace(other, levels=None)).value
        )


def test_levels_that_cannot_be_are_refused() -> None:
    (found,) = results(DetectSettings(threads=1, levels=True), 1)
    with pytest.raises(BadCommunities, match=r"levels have shape \(3,\); need \(L, 24\)"):
        replace(found, levels=np.arange(3))
    with pytest.raises(BadCommunities, match="level 0 does not unite communities of the level"):
        replace(found, levels=np.ones((1, N_SMALL), np.int64))
    assert found.levels is not None
    with pytest.raises(BadCommunities, match="level 0 does not unite"):
        replace(found, levels=np.stack([np.arange(N_SMALL), found.levels[0]]))
    none = replace(found, levels=np.empty((0, N_SMALL), np.int64))
    message = encode_communities(none)
    again = decode_communities(message.key, message.value, message.headers)
    assert again.levels is not None
    assert again.levels.shape == (0, N_SMALL)
