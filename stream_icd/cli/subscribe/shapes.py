"""What can be followed, as a line of text, as JSON, and as an Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from stream_icd.communities import Communities
from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.printable import printable, shortened
from stream_icd.tracking.node_changes import NodeChange
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


def _who(one: Result) -> str:
    return f"{one.graph:<12} {one.snapshot_id:<28}"


def _communities_lines(one: Communities) -> Iterator[str]:
    yield (
        f"{_who(one)} {one.n_nodes:>8,} {one.n_edges:>9,} {one.n_communities:>11,} "
        f"{one.modularity:>10.4f} {one.evidence or '-':>8} {_number(one.horizon, 1):>7} "
        f"{_number(one.predicted_bits, 3):>9} {int(one.sizes.max()):>8,} "
        f"{sum(one.milliseconds.values()):>8.1f}  {one.model}"
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _communities_document(one: Communities) -> dict[str, Any]:
    return {
        **_place(one),
        "n_nodes": one.n_nodes,
        "n_edges": one.n_edges,
        "n_communities": one.n_communities,
        "modularity": one.modularity,
        "ncut": one.ncut,
        "evidence": one.evidence,
        "bits_saved": one.bits_saved,
        "milliseconds": one.milliseconds,
        "detected_at": one.detected_at.isoformat(),
        "nodes": one.nodes.to_pylist(),
        "communities": one.labels.tolist(),
        "community_ids": None if one.community_ids is None else one.community_ids.tolist(),
        "replaced": None if one.replaced is None else one.replaced.tolist(),
        "moved": None if one.moved is None else one.moved.tolist(),
        "moved_bits": None if one.moved_bits is None else one.moved_bits.tolist(),
        "memory": one.memory,
        "horizon": one.horizon,
        "predicted_bits": one.predicted_bits,
    }


def _communities_table(one: Communities) -> pa.Table:
    ids = one.ids_of_nodes
    columns = {
        "evidence": pa.repeat(pa.scalar(one.evidence, pa.string()), one.n_nodes),
        **{
            name: pa.repeat(pa.scalar(getattr(one, name), pa.float64()), one.n_nodes)
            for name in ("bits_saved", "horizon", "predicted_bits")
        },
        "node": one.nodes,
        "community": pa.array(one.labels),
        "community_id": pa.nulls(one.n_nodes, pa.int64()) if ids is None else pa.array(ids),
    }
    return pa.table({**_columns(one, one.n_nodes), **columns})


def _events_lines(one: CommunityEvents) -> Iterator[str]:
    if one.late:
        yield f"{_who(one)} came too late to be tracked"
    for event in one.events:
        yield (
            f"{_who(one)} {event.kind:<10} {event.community:>9} "
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


def _events_document(one: CommunityEvents) -> dict[str, Any]:
    return {
        **_place(one),
        "model_before": one.model_before,
        "missed": one.missed,
        "late": one.late,
        "events": [asdict(event) for event in one.events],
        "nodes": one.nodes.to_pylist(),
        "communities": one.communities.tolist(),
    }


def _events_table(one: CommunityEvents) -> pa.Table:
    table = event_table(one)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return pa.table({**_columns(one, table.num_rows), **columns})


def _change_lines(one: NodeChange) -> Iterator[str]:
    what = ", ".join(f"{event.kind} {event.community}" for event in one.events)
    before, after = ("-" if it is None else str(it) for it in (one.before, one.after))
    yield f"{_who(one)} {one.node!s:>10} {before:>8} {after:>8}  {what}"


def _change_document(one: NodeChange) -> dict[str, Any]:
    return {
        **_place(one),
        "node": one.node,
        "before": one.before,
        "after": one.after,
        "events": [asdict(event) for event in one.events],
    }


def _change_table(one: NodeChange) -> pa.Table:
    columns = {
        "node": pa.array([str(one.node)]),
        "before": pa.array([one.before], pa.int64()),
        "after": pa.array([one.after], pa.int64()),
    }
    return pa.table({**_columns(one, 1), **columns})


def _place(one: Result) -> dict[str, Any]:
    return {
        "graph": one.graph,
        "snapshot_id": one.snapshot_id,
        "window_start": one.window.start.isoformat(),
        "window_end": one.window.end.isoformat(),
        "model": one.model,
        "revision": one.revision,
    }


def _columns(one: Result, rows: int) -> dict[str, pa.Array]:
    times = {"window_start": one.window.start, "window_end": one.window.end}
    values = _place(one) | {name: pa.scalar(time, ZONED) for name, time in times.items()}
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
