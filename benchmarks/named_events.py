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

import numpy as np

from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.memory import detect as memory_detect
from stream_icd.methods.memory.changes import moved
from stream_icd.methods.names.names import named
from stream_icd.methods.tracking.confirmation import CONFIRMED, confirmed
from stream_icd.methods.tracking.track import remember, track
from stream_icd.registry.find import find_model
from stream_icd.registry.model import read_model
from stream_icd.sources.datasets.as_topology import read_as_topology
from stream_icd.sources.node_tables import read_attributes

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "named_events.md"
NOTES = """The last column, and what
is known from elsewhere:

- The one of 1998-03-10 belongs to the record: that of the day before lacks 103 of 414 edges of
  AS1239, which then come back.
- The two of November 1997 are in the first week, in which the communities are still being found.
- The one of 1998-09-03 is in the data: on 1998-08-16, AS721, of the Department of Defense of the
  United States, gained 73 edges in one day (it had 2 on 1998-08-13 and has 88 on 1998-08-17), and
  then it and 85 other systems become a community. We know of no report of it.
- Of the others, none is known from elsewhere.
- The communities also change on days on which detection corrects itself, and events of these days
  have no strength. A search without the past found communities that describe the evidence in fewer
  bits on seventeen days, from 1997-11-14 to 2000-01-01, and the horizon changed once, on
  1997-12-06. Only on these days and where records are incomplete does the number of communities
  change by 4 or more.
- On 1998-04-07, AS8584 announced the routes of others. Operators discussed it as
  ["AS8584 taking over the internet"][nanog]. The record of that day lacks 443 of 6,341 edges, and
  AS8584 has 2 of 7. Its community goes on, with 9 of 10 systems; another one is split on that day,
  against its edges (−76 bits).
- In September 1998, MCI's Internet (AS3561) was sold to Cable & Wireless, since its owner merged
  with that of UUNET (AS701). That changed who owns the systems, not their edges: there is no event.
- The records of 1998-12-29 to 1999-01-11, of 1999-08-29 and of 1999-12-08 to 1999-12-31 lack most
  systems. Events of the days after them belong to the record.

[nanog]: https://mailman.nanog.org/pipermail/nanog/1998-April/127252.html
"""
"""What a reader should know besides the figures; each is checked in the data."""

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


@dataclass(frozen=True)
class Day:
    """The events of a day.

    Attributes:
        called: name and hub of each community.
        n_named: how many of them have a name.
        changed: the systems that gained and lost most edges since the day before.
    """

    tracked: CommunityEvents
    called: dict[int, str]
    n_named: int
    changed: str


def named_days(data: Path, names: Path, spent: Spent) -> Iterator[Day]:
    """Yield all days."""
    model, attributes = read_model(find_model("as")).model, read_attributes(names)
    memory, recent, before = None, (), None
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
        names_of = spent.on("names", window.names)
        called = {
            community: f"{names_of.get(community, 'no name')} (AS{hub})"
            for community, hub in hubs(snapshot, tracked).items()
        }
        changed, before = changes(before, snapshot), snapshot
        yield Day(tracked, called, len(names_of), changed)


def changes(before: Snapshot | None, now: Snapshot) -> str:
    """Return which system gained most edges, and which one lost most."""
    if before is None:
        return ""
    pairs = [
        set(map(tuple, snapshot.nodes.to_numpy()[snapshot.edges].T.tolist()))
        for snapshot in (before, now)
    ]
    said = []
    for sign, edges in (("+", pairs[1] - pairs[0]), ("−", pairs[0] - pairs[1])):
        if edges:
            ((system, n),) = Counter(end for pair in edges for end in pair).most_common(1)
            said.append(f"AS{system} {sign}{n}")
    return ", ".join(said)


def hubs(snapshot: Snapshot, tracked: CommunityEvents) -> dict[int, int]:
    """Return the member of each community that has the most edges."""
    degrees = np.bincount(snapshot.edges.ravel(), minlength=snapshot.n_nodes)
    of_nodes = degrees[places(tracked.nodes, snapshot.nodes)]
    order = np.argsort(of_nodes, kind="stable")  # the last one of a community stays
    nodes = tracked.nodes.to_numpy()
    return dict(zip(tracked.communities[order].tolist(), nodes[order].tolist(), strict=True))


def strongest(days: list[Day], lasting: list[CommunityEvents]) -> list[str]:
    """Return a row for each of the strongest mergers and splits, one a day."""
    known = {
        day.tracked.snapshot_id: ({**before.called, **day.called}, day.changed)
        for day, before in zip(days[1:], days, strict=False)
    }
    found = [
        (event, events)
        for events in lasting
        for event in events.events
        if event.kind in ("merged", "split") and event.bits is not None
    ]
    found.sort(key=lambda pair: -(pair[0].bits or 0))
    rows: dict[str, str] = {}
    for event, events in found:
        called, changed = known[events.snapshot_id]
        rows.setdefault(events.snapshot_id, f"{row(event, events, called)} | {changed}")
    return list(rows.values())[:SHOWN]


def row(event: CommunityEvent, events: CommunityEvents, names: dict[int, str]) -> str:
    others = [part for part in (*event.parents, *event.children) if part != event.community]
    parts = "; ".join(names.get(part, "no name") for part in others)
    which = names.get(event.community, "no name")
    return (
        f"{events.window.start:%Y-%m-%d} | {event.kind} | {which} ({event.size_before:,} → "
        f"{event.size:,}) | {parts} | {event.bits:,.0f}"
    )


def counts(events: list[CommunityEvent]) -> str:
    found = Counter(event.kind for event in events)
    return " | ".join(f"{found[kind]:,}" for kind in KINDS)


def page(days: list[Day], spent: Spent) -> str:
    seconds, n_days = spent.seconds, len(days)
    lasting = list(confirmed((day.tracked for day in days), CONFIRMED))
    everything = [event for day in days[1:] for event in day.tracked.events]
    held = [event for events in lasting[1:] for event in events.events]
    strong = [event for event in held if (event.bits or 0) >= LEAST_BITS]
    rows = "\n".join(
        f"{what} | {1000 * seconds[what] / n_days:.2f} | {seconds[what] / seconds['detection']:.1%}"
        for what in ("detection", "strength", "names", "tracking")
    )
    n_named = sum(day.n_named for day in days)
    n_communities = sum(len(day.called) for day in days)
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
those that went into it or came out of it; in brackets the member with the most edges. The last one
names the systems that gained and lost most edges since the day before:

day | event | community (members) | with | bits | edges
--- | --- | --- | --- | --- | ---
{chr(10).join(strongest(days, lasting))}

A strength says that the edges of that day prefer the new communities, not that the network changed
on that day. {NOTES}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="as733.parquet")
    parser.add_argument("--names", type=Path, required=True, help="table of node and country")
    options = parser.parse_args()
    spent = Spent()

    def measured(*arguments: Any) -> Any:
        return spent.on("strength", moved, *arguments)

    memory_detect.moved = measured  # type: ignore[attr-defined]
    PAGE.write_text(page(list(named_days(options.data, options.names, spent)), spent))


if __name__ == "__main__":
    main()
