"""What names and strengths of events cost, and which events of the Internet are left.

python -m benchmarks.named_events --data as733.parquet --names countries.csv
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stream_icd.communities import STAGES, Communities
from stream_icd.datasets.as_topology import read_as_topology
from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.memory import detect as memory_detect
from stream_icd.memory.strength import moved
from stream_icd.names.names import named
from stream_icd.registry.find import find_model
from stream_icd.registry.model import read_model
from stream_icd.sources.labels.attribute_table import read_attributes
from stream_icd.tracking.confirmation import CONFIRMED, confirmed
from stream_icd.tracking.track import remember, track

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "named_events.md"
WARM_UP = 5
LEAST_BITS = 10
SHOWN = 10
KINDS = ("born", "merged", "split", "died", "grown", "shrunk")


@dataclass
class Spent:
    """CPU seconds by what they were spent on."""

    seconds: Counter[str] = field(default_factory=Counter)

    def on(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        begun = time.process_time()
        done = call(*arguments)
        self.seconds[what] += time.process_time() - begun
        return done


def named_days(
    data: Path, names: Path, spent: Spent
) -> Iterator[tuple[CommunityEvents, dict[int, str]]]:
    """Yield the events of each day, and the names of its communities."""
    model, attributes = read_model(find_model("as"))[0], read_attributes(names)
    memory, recent = None, ()
    for number, (snapshot, _) in enumerate(read_as_topology(data).snapshots):
        if number == WARM_UP:
            spent.seconds.clear()
        found = spent.on("detection", memory_detect.detect_remembering, snapshot, model, memory)
        memory = found.memory
        if found.damaged:
            continue
        result = Communities(
            snapshot.graph, snapshot.id, snapshot.window, snapshot.nodes, found.communities,
            snapshot.n_edges, "as", 0.0, 0.0, dict.fromkeys(STAGES, 0.0), snapshot.window.end,
            community_ids=found.community_ids, replaced=found.replaced,
            moved=None if found.moved is None else found.moved.pairs,
            moved_bits=None if found.moved is None else found.moved.bits,
        )  # fmt: skip
        tracked = spent.on("tracking", track, recent, result)
        recent = remember(recent, tracked)
        ids = result.ids_of_nodes
        window = spent.on("names", named, result.nodes, ids, attributes)
        called = spent.on("names", window.names)
        yield tracked, {community: str(name) for community, name in called.items()}


def strongest(
    days: list[tuple[CommunityEvents, dict[int, str]]], lasting: list[CommunityEvents]
) -> list[str]:
    """Return a row for each of the strongest mergers and splits, one a day."""
    names = {one.snapshot_id: called for one, called in days}
    before = {
        one.snapshot_id: called for (one, _), (_, called) in zip(days[1:], days, strict=False)
    }
    found = [
        (event, one)
        for one in lasting
        for event in one.events
        if event.kind in ("merged", "split") and event.bits is not None
    ]
    found.sort(key=lambda pair: -(pair[0].bits or 0))
    rows: dict[str, str] = {}
    for event, one in found:
        called = {**before.get(one.snapshot_id, {}), **names[one.snapshot_id]}
        rows.setdefault(one.snapshot_id, row(event, one, called))
    return list(rows.values())[:SHOWN]


def row(event: CommunityEvent, one: CommunityEvents, names: dict[int, str]) -> str:
    others = [part for part in (*event.parents, *event.children) if part != event.community]
    parts = "; ".join(names.get(part, "no name") for part in others)
    which = names.get(event.community, "no name")
    return (
        f"{one.window.start:%Y-%m-%d} | {event.kind} | {which} ({event.size_before:,} → "
        f"{event.size:,}) | {parts} | {event.bits:,.0f}"
    )


def counts(events: list[CommunityEvent]) -> str:
    found = Counter(event.kind for event in events)
    return " | ".join(f"{found[kind]:,}" for kind in KINDS)


def page(days: list[tuple[CommunityEvents, dict[int, str]]], spent: Spent) -> str:
    seconds, n_days = spent.seconds, len(days)
    lasting = list(confirmed((one for one, _ in days), CONFIRMED))
    everything = [event for one, _ in days[1:] for event in one.events]
    held = [event for one in lasting[1:] for event in one.events]
    strong = [event for event in held if (event.bits or 0) >= LEAST_BITS]
    rows = "\n".join(
        f"{what} | {1000 * seconds[what] / n_days:.2f} | {seconds[what] / seconds['detection']:.1%}"
        for what in ("detection", "strength", "names", "tracking")
    )
    n_named = sum(len(called) for _, called in days)
    n_communities = sum(len(set(one.communities.tolist())) for one, _ in days)
    return f"""# Names and strengths of events

For those who want to know what [names](../names.md) and the [strength of events](../tracking.md)
cost, and what they leave of two years of the Internet. Made by
`python -m benchmarks.named_events --data as733.parquet --names countries.csv`; the countries are
those in which the numbers of the systems were registered in 2016.

## Time

{n_days:,} days of *AS-733*, model `as`, with memory. CPU time of one window, and its ratio to
detection, of which the strength is a part:

what | ms | of detection
--- | --- | ---
{rows}

{n_named / n_communities:.0%} of the communities have a name.

## Events

| events | {" | ".join(KINDS)} |
| --- | {" | ".join("---" for _ in KINDS)} |
| all, after the first day | {counts(everything)} |
| confirmed: lasted for {CONFIRMED} days | {counts(held)} |
| confirmed, at least {LEAST_BITS} bits | {counts(strong)} |

The strongest confirmed mergers and splits, one a day. The third column is the community, the fourth
those that went into it or came out of it:

day | event | community (members) | with | bits
--- | --- | --- | --- | ---
{chr(10).join(strongest(days, lasting))}

Known from elsewhere: the record of 1999-08-29 lacks at least half of the systems, so that the
events of the day after it belong to the record, not to the Internet. For the other days we know
of no report. A strength says that the edges of that day prefer the new communities, not that
the network changed on that day: with the model `default`, as in `make demo`, most of the strongest
events fall on other days.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="as733.parquet")
    parser.add_argument("--names", type=Path, required=True, help="table of node and country")
    options = parser.parse_args()
    spent = Spent()

    def measured(*arguments: Any) -> Any:
        return spent.on("strength", moved, *arguments)

    memory_detect.moved = measured
    PAGE.write_text(page(list(named_days(options.data, options.names, spent)), spent))


if __name__ == "__main__":
    main()
