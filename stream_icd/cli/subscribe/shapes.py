"""What can be followed, as a line of text, as JSON, and as an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from stream_icd.communities import Communities
from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.printable import printable, shortened
from stream_icd.subscribers.subscribe import NodeChange
from stream_icd.wire.events import event_table

Item = TypeVar("Item")
Result = Communities | CommunityEvents | NodeChange
ZONED = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Shape(Generic[Item]):
    """How items of one kind are shown.

    Attributes:
        heading: over the lines of the table for people.
        document: an item as JSON, whole.
        table: an item as rows; the same columns for each.
    """

    heading: str
    lines: Callable[[Item], Iterator[str]]
    document: Callable[[Item], dict[str, Any]]
    table: Callable[[Item], pa.Table]


WHO = f"{'graph':<12} {'snapshot':<28}"


def _who(result: Result) -> str:
    return f"{result.graph:<12} {result.snapshot_id:<28}"


def _communities_lines(communities: Communities) -> Iterator[str]:
    yield (
        f"{_who(communities)} {communities.n_nodes:>8,} {communities.n_edges:>9,} "
        f"{communities.n_communities:>11,} {communities.modularity:>10.4f} "
        f"{communities.evidence or '-':>8} {_number(communities.horizon, 1):>7} "
        f"{_number(communities.predicted_bits, 3):>9} {int(communities.sizes.max()):>8,} "
        f"{sum(communities.milliseconds.values()):>8.1f}  {communities.model}"
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _communities_document(communities: Communities) -> dict[str, Any]:
    return {
        **_place(communities),
        "n_nodes": communities.n_nodes,
        "n_edges": communities.n_edges,
        "n_communities": communities.n_communities,
        "modularity": communities.modularity,
        "ncut": communities.ncut,
        "evidence": communities.evidence,
        "bits_saved": communities.bits_saved,
        "milliseconds": communities.milliseconds,
        "detected_at": communities.detected_at.isoformat(),
        "nodes": communities.nodes.to_pylist(),
        "communities": communities.labels.tolist(),
        "community_ids": None
        if communities.community_ids is None
        else communities.community_ids.tolist(),
        "replaced": None if communities.replaced is None else communities.replaced.tolist(),
        "moved": None if communities.moved is None else communities.moved.tolist(),
        "moved_bits": None if communities.moved_bits is None else communities.moved_bits.tolist(),
        "memory": communities.memory,
        "horizon": communities.horizon,
        "predicted_bits": communities.predicted_bits,
    }


def _communities_table(communities: Communities) -> pa.Table:
    ids = communities.ids_of_nodes
    columns = {
        "evidence": pa.repeat(pa.scalar(communities.evidence, pa.string()), communities.n_nodes),
        **{
            name: pa.repeat(
                pa.scalar(getattr(communities, name), pa.float64()), communities.n_nodes
            )
            for name in ("bits_saved", "horizon", "predicted_bits")
        },
        "node": communities.nodes,
        "community": pa.array(communities.labels),
        "community_id": pa.nulls(communities.n_nodes, pa.int64()) if ids is None else pa.array(ids),
    }
    return pa.table({**_columns(communities, communities.n_nodes), **columns})


def _events_lines(events: CommunityEvents) -> Iterator[str]:
    if events.late:
        yield f"{_who(events)} came too late to be tracked"
    for event in events.events:
        yield (
            f"{_who(events)} {event.kind:<10} {event.community:>9} "
            f"{event.size_before:>8,} {event.size:>8,}  {_relatives(event)}".rstrip()
        )


def _relatives(event: CommunityEvent) -> str:
    parts = []
    if event.parents:
        parts.append(f"out of {', '.join(map(str, event.parents))}")
    if event.children:
        parts.append(f"into {', '.join(map(str, event.children))}")
    if event.away:
        parts.append(f"not seen for {event.away}")
    if event.bits is not None:
        bits = f"{event.bits:.0f}"
        parts.append(f"{bits} bit" if bits in ("1", "-1") else f"{bits} bits")
    if event.name is not None:
        parts.append(printable(shortened(event.name)))
    return "; ".join(parts)


def _events_document(events: CommunityEvents) -> dict[str, Any]:
    return {
        **_place(events),
        "model_before": events.model_before,
        "missed": events.missed,
        "late": events.late,
        "events": [asdict(event) for event in events.events],
        "nodes": events.nodes.to_pylist(),
        "communities": events.communities.tolist(),
    }


def _events_table(events: CommunityEvents) -> pa.Table:
    table = event_table(events)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return pa.table({**_columns(events, table.num_rows), **columns})


def _change_lines(change: NodeChange) -> Iterator[str]:
    what = ", ".join(f"{event.kind} {event.community}" for event in change.events)
    before, after = ("-" if it is None else str(it) for it in (change.before, change.after))
    yield f"{_who(change)} {change.node!s:>10} {before:>8} {after:>8}  {what}"


def _change_document(change: NodeChange) -> dict[str, Any]:
    return {
        **_place(change),
        "node": change.node,
        "before": change.before,
        "after": change.after,
        "events": [asdict(event) for event in change.events],
    }


def _change_table(change: NodeChange) -> pa.Table:
    columns = {
        "node": pa.array([str(change.node)]),
        "before": pa.array([change.before], pa.int64()),
        "after": pa.array([change.after], pa.int64()),
    }
    return pa.table({**_columns(change, 1), **columns})


def _place(result: Result) -> dict[str, Any]:
    return {
        "graph": result.graph,
        "snapshot_id": result.snapshot_id,
        "window_start": result.window.start.isoformat(),
        "window_end": result.window.end.isoformat(),
        "model": result.model,
        "revision": result.revision,
    }


def _columns(result: Result, rows: int) -> dict[str, pa.Array]:
    times = {"window_start": result.window.start, "window_end": result.window.end}
    values = _place(result) | {name: pa.scalar(time, ZONED) for name, time in times.items()}
    return {name: pa.repeat(value, rows) for name, value in values.items()}


def members(community: int | None = None) -> Shape[Any]:
    """The members of a community; None: of the one that a node is in now."""

    def of(one: CommunityEvents | NodeChange) -> tuple[int | None, pa.Array]:
        which = one.after if isinstance(one, NodeChange) else community
        return which, one.members_of(which)

    def lines(one: CommunityEvents | NodeChange) -> Iterator[str]:
        which, nodes = of(one)
        shown, ids = "-" if which is None else which, " ".join(map(str, nodes.to_pylist()))
        yield f"{_who(one)} {shown!s:>9} {len(nodes):>8,}  {ids}"

    def document(one: CommunityEvents | NodeChange) -> dict[str, Any]:
        which, nodes = of(one)
        return {**_place(one), "community": which, "members": nodes.to_pylist()}

    def table(one: CommunityEvents | NodeChange) -> pa.Table:
        which, nodes = of(one)
        ids = pa.array([which] * len(nodes), pa.int64())
        return pa.table({**_columns(one, len(nodes)), "community": ids, "node": nodes})

    return Shape(f"{WHO} {'community':>9} {'size':>8}  members", lines, document, table)


COMMUNITIES = Shape(
    f"{WHO} {'nodes':>8} {'edges':>9} {'communities':>11} {'modularity':>10} "
    f"{'evidence':>8} {'horizon':>7} {'predicted':>9} {'largest':>8} {'ms':>8}  model",
    _communities_lines,
    _communities_document,
    _communities_table,
)
EVENTS = Shape(
    f"{WHO} {'event':<10} {'community':>9} {'before':>8} {'members':>8}  relatives",
    _events_lines,
    _events_document,
    _events_table,
)
NODE = Shape(
    f"{WHO} {'node':>10} {'before':>8} {'now':>8}  what happened",
    _change_lines,
    _change_document,
    _change_table,
)
