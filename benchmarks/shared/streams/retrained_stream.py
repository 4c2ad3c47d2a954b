"""A stream with a retrainer at work: which model is the champion in each window, and how good."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stream_icd.core.communities import Labels
from stream_icd.core.lineage import DataRange, Lineage
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive
from stream_icd.learning.retraining.gate import hidden_edges
from stream_icd.learning.retraining.retrain import Decision, retrain
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.windows import Lesson
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.registry.aliases import champion, promote
from stream_icd.registry.model import PackedModel
from stream_icd.registry.versions import open_version, publish
from stream_icd.streaming.detection.detect import finding
from stream_icd.wire.snapshots import encode_snapshot

Windows = Sequence[tuple[Snapshot, Labels | None]]
START = datetime(2026, 1, 1, tzinfo=UTC)

Qualities = Callable[[Windows, Sequence[Model]], list[float]]
"""The quality of each window, detected with the model of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One window of the stream.

    Attributes:
        before, after: the champion when it came, and after the retrainer's round, if there was one.
        decision: what the retrainer decided; None: there was no round.
    """

    before: Model
    after: Model
    decision: Decision | None

    @property
    def outcome(self) -> str:
        """What was decided; empty without a round."""
        return "" if self.decision is None else self.decision.outcome


def learned_model(windows: Windows, *, by_labels: bool = False, name: str = "first") -> Model:
    """A model learned from consecutive windows, as by `stream-icd train`."""
    lessons = [
        Lesson.of(snapshot, labels) if by_labels and labels is not None else Lesson(snapshot)
        for snapshot, labels in windows
    ]
    fit = fit_parameters([one.graph(by_labels=by_labels) for one in lessons], 0, 1)
    recipe = Recipe(name=name)
    return Model(recipe, fit.parameters)


def nmi_by_memory(windows: Windows, models: Sequence[Model]) -> list[float]:
    """NMI with the labels, in percent, of a detector that changes its model: with memory."""
    return [
        100 * nmi(labels.labels, found)
        for (_, labels), found in zip(windows, _detected(windows, models), strict=True)
        if labels is not None
    ]


def hidden_edges_alone(windows: Windows, models: Sequence[Model]) -> list[float]:
    """Bits per edge by which the communities of single windows predict hidden edges.

    These are other edges than those that the gate hides.
    """
    known: dict[tuple[str, int], float] = {}
    for (snapshot, _), model in zip(windows, models, strict=True):
        key = snapshot.id, id(model)
        if key not in known:
            known[key] = hidden_edges(Lesson(snapshot), model, seed=1)
    return [
        known[snapshot.id, id(model)] for (snapshot, _), model in zip(windows, models, strict=True)
    ]


def _detected(windows: Windows, models: Sequence[Model]) -> Iterator[Sequence[int]]:
    memory = None
    for (snapshot, _), model in zip(windows, models, strict=True):
        k, find = snapshot.n_communities, finding("auto", model, threads=1)
        found = detect_remembering(snapshot, model, memory, k, find=find)
        memory = found.memory
        yield found.communities


def play(
    windows: Windows, n_first: int, first: Model, settings: Retraining, every: int = 1
) -> Iterator[Step]:
    """Play a stream: archive each window without labels, and make rounds of retraining.

    Args:
        n_first: number of windows that were archived before the stream begins, and that the first
            champion learned from.
        settings: its archive is replaced by one in a temporary folder.
        every: windows from one round to the next.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "archive")
        registry, archive = open_store(str(Path(folder) / "registry")), Archive(open_store(place))
        known = [snapshot for snapshot, _ in windows[:n_first]]
        _archived(archive, known)
        packed = PackedModel.of(first)
        data = DataRange((known[0].graph,), known[0].window.start, known[-1].window.end, len(known))
        publish(registry, packed, Lineage("benchmark", START, "", data=data))
        promote(registry, packed.version, "the first", START, by="benchmark", seen=None)
        here, before = replace(settings, archive=place), first
        for at, (snapshot, _) in enumerate(windows[n_first:], 1):
            _archived(archive, [snapshot])
            if at % every:
                yield Step(before, before, None)
                continue
            now = START + timedelta(hours=at)
            decision = retrain(registry, here, now, run=lambda job, _budget: job())
            after = before
            if decision.outcome in ("promoted", "rolled back"):
                after = open_version(registry, champion(registry).champion).model
            yield Step(before, after, decision)
            before = after


def _archived(archive: Archive, snapshots: Iterable[Snapshot]) -> None:
    for snapshot in snapshots:
        archive.add("snapshots", encode_snapshot(snapshot))
