"""What a demonstration found over time, with memory and without, beside the truth; its tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.printable import say
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.demo.run import DemoRun, Story
from stream_icd.kafka.messages.claims import Content, Decode, MessageReader
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, LABELS, SNAPSHOTS
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.tracking.track import remember, track
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import detect
from stream_icd.wire.communities import decode_communities, decode_labels
from stream_icd.wire.snapshots import decode_snapshot

_PART = 2 / 3  # fraction of the nodes of its neighbours below which a snapshot is incomplete
_NEAR = 30  # how many snapshots before and after one are its neighbours: a longer gap is a change


_ALONE = "each snapshot alone"
_UNLEARNED, _REMEMBERING = "bp, which learns nothing", "bp with memory of earlier snapshots"


@dataclass(frozen=True, slots=True)
class FoundSeries:
    """The communities of all snapshots, detected in one way."""

    windows: Sequence[CommunityEvents]  # of the complete snapshots, with stable ids
    agreement: Sequence[float] = ()  # NMI of each snapshot with the truth; empty: it is unknown


@dataclass(frozen=True, slots=True)
class DemoResults:
    """All that was found."""

    incomplete: list[str]  # snapshots that lack nodes at the source; the windows lack these
    last: Snapshot  # the last complete one
    found: FoundSeries
    compared: Mapping[str, FoundSeries] = field(default_factory=dict)  # by how it was found

    @classmethod
    def of(
        cls,
        run: DemoRun,
        settings: KafkaSettings,
        model_of: Callable[[str], Model],
        method: MethodChoice,
        story: Story | None = None,
    ) -> DemoResults:
        """Return what was found, from the arrivals and the topics of a run, and models by version.

        It is compared, in a story, with what the method bp finds without learning, alone and with
        memory; else, if the detector has memory, with what it finds in each snapshot alone.
        """
        labels = _decoded(settings, LABELS, decode_labels)
        truth = {of_snapshot.snapshot_id: of_snapshot.labels for of_snapshot in labels}
        detected = _decoded(settings, COMMUNITIES, decode_communities)
        by_id = {result.snapshot_id: result for result in detected}
        results = [by_id[arrival.result["snapshot_id"]] for arrival in run.arrivals]
        complete = _complete_places([len(result.nodes) for result in results])

        def followed(found: Sequence[Communities]) -> FoundSeries:
            windows = _tracked(found[place] for place in complete)
            return FoundSeries(windows, _agreement(truth, found))

        compared = {}
        if story is not None:
            unlearned = open_model("default").model
            pairs: _Pairs = list(_with_snapshots(settings, results))  # read once, used twice
            compared[_UNLEARNED] = followed(list(_found_alone(pairs, lambda _: unlearned, "bp")))
            compared[_REMEMBERING] = followed(list(_found_with_memory(pairs, unlearned)))
        elif results[-1].community_ids is not None:
            pairs = _with_snapshots(settings, results)
            compared[_ALONE] = followed(list(_found_alone(pairs, cache(model_of), method)))
        left_out = sorted(set(range(len(results))) - set(complete))
        found = followed(results)
        last_id = found.windows[-1].snapshot_id
        return cls(
            incomplete=[results[place].snapshot_id for place in left_out],
            last=next(snapshot for snapshot in _snapshots(settings) if snapshot.id == last_id),
            found=found,
            compared=compared,
        )

    def tell(self, console: Console, run: DemoRun, story: Story | None) -> None:
        """Print tables of what was found, what the retrainer did, and what was received."""
        console.print(_totals_table(run, self), _stages_table(run))
        if story is not None:
            console.print(_story_table(run, self, story.change_at))
            models = shlex.join(("stream-icd", "models", "history", "--registry", story.registry))
            say(
                *(f"retrainer: {decision}" for decision in story.decisions()),
                f"see its models: {models}",
            )
        if self.incomplete:
            say(
                f"incomplete at the source: {len(self.incomplete)} snapshots, the first is "
                f"{self.incomplete[0]}; the picture leaves them out"
            )
        received = len(run.arrivals)
        console.print(
            f"sent {run.sent} snapshots, received {received} results in {run.seconds:.1f} s "
            f"({received / run.seconds:.1f} a second); dead letters: {run.dead_letters}",
            soft_wrap=True,
        )


def _tracked(results: Iterable[Communities]) -> list[CommunityEvents]:
    recent: Sequence[CommunityEvents] = ()
    windows: list[CommunityEvents] = []
    for result in results:
        events = track(recent, result)
        recent = remember(recent, events)
        windows += [] if events.late else [events]
    return windows


_Pairs = Iterable[tuple[Snapshot, Communities]]  # snapshots, each with its result


def _with_snapshots(settings: KafkaSettings, results: Sequence[Communities]) -> _Pairs:
    """Yield each result behind its snapshot, in the order of the snapshots topic."""
    by_id = {result.snapshot_id: result for result in results}
    snapshots = _snapshots(settings)
    return ((snapshot, by_id[snapshot.id]) for snapshot in snapshots if snapshot.id in by_id)


def _found_alone(
    pairs: _Pairs, model_of: Callable[[str], Model], method: MethodChoice
) -> Iterator[Communities]:
    """Yield each result with the communities that would be found without memory."""
    for snapshot, before in pairs:
        model, n_communities = model_of(before.model), snapshot.n_communities
        detection = detect(snapshot.adjacency(), model, n_communities, method=method)
        yield before.with_communities(detection.communities)


def _found_with_memory(pairs: _Pairs, model: Model) -> Iterator[Communities]:
    memory = None
    for snapshot, before in pairs:
        detection = detect_remembering(snapshot, model, memory, snapshot.n_communities)
        memory = detection.memory
        ids, replaced = detection.community_ids, detection.replaced
        yield before.with_communities(detection.communities, ids, replaced)


def _snapshots(settings: KafkaSettings) -> Iterator[Snapshot]:
    return _decoded(settings, SNAPSHOTS, decode_snapshot)


def _decoded(settings: KafkaSettings, topic: str, decode: Decode[Content]) -> Iterator[Content]:
    reader = MessageReader()
    with open_reader(settings, topic, start="beginning", until="end") as records:
        for record in records:
            yield reader.decoded(record, decode)


def _agreement(
    truth: Mapping[str, NDArray[np.int32]], results: Sequence[Communities]
) -> list[float]:
    """Return the NMI of each result with the known communities; empty unless all are known."""
    if not all(result.snapshot_id in truth for result in results):
        return []
    return [nmi(truth[result.snapshot_id], result.labels) for result in results]


def _complete_places(sizes: Sequence[int]) -> list[int]:
    """Return the positions of the complete snapshots, ascending.

    A topology of the Internet that loses half of its nodes for some days, and has them again later,
    was not collected completely. What seems to happen to its communities then did not happen.

    A snapshot is incomplete if it has less than `_PART` of the nodes of some snapshot among the
    `_NEAR` before it, and of some among the `_NEAR` after it. So a system that grows or shrinks for
    good is complete; for the last snapshots, only those before them tell.
    """
    complete = []
    for at, size in enumerate(sizes):
        before, after = sizes[max(0, at - _NEAR) : at], sizes[at + 1 : at + 1 + _NEAR]
        if not before or size >= _PART * min(max(side) for side in (before, after) if side):
            complete.append(at)
    return complete


def _totals_table(run: DemoRun, results: DemoResults) -> Table:
    table = _table("What was seen", "", "median", "least", "most")
    table.caption = f"evidence for communities: {run.evidence} (snapshots)"
    table.caption_justify = "left"
    rows: list[tuple[str, Sequence[float], str]] = [
        (name, [arrival.result[key] for arrival in run.arrivals], form)
        for name, key, form in (
            ("nodes", "n_nodes", ",.0f"),
            ("edges", "n_edges", ",.0f"),
            ("communities", "n_communities", ",.0f"),
            ("modularity", "modularity", ".4f"),
            ("bits saved per edge", "bits_saved", ".4f"),
        )
    ]
    rows.append(("NMI with the truth", results.found.agreement, ".4f"))
    rows += [(f"NMI of {name}", line.agreement, ".4f") for name, line in results.compared.items()]
    for name, values, form in rows:
        if values:
            cells = np.median(values), min(values), max(values)
            table.add_row(name, *(format(value, form) for value in cells))
    return table


def _stages_table(run: DemoRun) -> Table:
    table = _table("Milliseconds per snapshot", "stage", "median", "95th percentile")
    stages = {
        stage: [arrival.result["milliseconds"][stage] for arrival in run.arrivals]
        for stage in STAGES
    }
    stages["publish"] = [arrival.publish_ms for arrival in run.arrivals]
    for stage, times in stages.items():
        if not any(times):
            table.add_row(stage, "not used", "(--method icd does)")
        else:
            table.add_row(stage, f"{np.median(times):,.1f}", f"{np.percentile(times, 95):,.1f}")
    return table


def _story_table(run: DemoRun, results: DemoResults, change_at: int) -> Table:
    """Quality with each model, before the communities of the stream become others and after it.

    NMI with the truth, medians: of the detector, and of what is compared with it.
    """
    names = ("snapshots", "encoder and K-means", *results.compared)
    table = _table(f"NMI with the truth; other communities from {change_at} on", "model", *names)
    lines = [series.agreement for series in (results.found, *results.compared.values())]
    n = len(run.arrivals)
    changes = {at for at in (change_at, *run.model_changes) if 0 < at < n}
    for first, end in pairwise((0, *sorted(changes), n)):
        medians = [f"{np.median(line[first:end]):.3f}" if line else "" for line in lines]
        model = run.arrivals[first].result["model"]
        table.add_row(model, f"{first}-{end - 1}", *medians)
    return table


def _table(title: str, first: str, *numbers: str) -> Table:
    table = Table(first, title=title, title_justify="left")
    for name in numbers:
        table.add_column(name, justify="right")
    return table
