"""All answers that a report holds, so that its page needs no server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stream_icd.errors import StreamIcdError
from stream_icd.events import KINDS
from stream_icd.view.data.series import SeriesName
from stream_icd.view.data.window import SeenWindow, unpacked
from stream_icd.view.panels.community_map import opened
from stream_icd.view.panels.event_list import event_list, of_events
from stream_icd.view.panels.flow import flow, spread
from stream_icd.view.panels.life import life
from stream_icd.view.panels.names import composition, names_in
from stream_icd.view.panels.queries import MOST_COLUMNS, MOST_WINDOWS, NothingSeen, Queries

BANDS = 30
MOST_EVENTS = 5000
MOST_PLACES = 20_000_000
"""Nodes of all windows together, up to which the report can be searched."""
MOST_SPANS = 400_000

Answers = dict[str, Any]
Spans = dict[str, list[list[int | None]]]


def kept_answers(queries: Queries, name: SeriesName, left_out: Sequence[str] = ()) -> Answers:
    """Return what the page of a report asks for.

    Args:
        left_out: what the report does not show, a sentence each.

    Raises:
        NothingSeen: there is no such series.
    """
    windows = queries.seen.windows(name, MOST_WINDOWS)
    if not windows:
        raise NothingSeen(f"there are no results of graph {name.graph} and model {name.model}")
    asked = name._asdict()
    overview = queries.overview(asked)
    mine = [one for one in overview["series"] if asked.items() <= one.items()]
    drawn = queries.map(asked)
    bands = flow(spread(windows, MOST_COLUMNS), BANDS)
    happened = event_list(windows, frozenset(KINDS) - {"continued"}, None, MOST_EVENTS)
    named = {*bands["shown"], *of_events(happened)}
    names = names_in(windows, named, queries.seen.naming)
    return {
        "overview": {**overview, "series": mine, "left_out": list(left_out)},
        "flow": {**bands, "names": names},
        "life": life(windows),
        "events": {**happened, "names": names},
        "composition": _compositions(queries, windows[-1]),
        "map": drawn,
        "places": queries.places(asked) if drawn["placed"] else None,
        "members": _members(queries, name, windows[-1]),
        "nodes": node_spans(windows),
        "compare": None,
        "explain": None,
        "explain_community": None,
    }


def node_spans(windows: Sequence[SeenWindow]) -> Spans | None:
    """Return where each node was, `[community, first number, last number]`, as `nodes.node_past`.

    The community of a span is None where the node is missing. None if there are too many nodes.
    """
    if sum(one.n_nodes for one in windows) > MOST_PLACES:
        return None
    read = [unpacked(one.members) for one in windows]
    names = pa.chunked_array([nodes.cast(pa.large_utf8()) for nodes, _ in read])
    encoded = names.combine_chunks().dictionary_encode()
    node = encoded.indices.to_numpy()
    window = np.repeat([one.number for one in windows], [len(nodes) for nodes, _ in read])
    community = np.concatenate([ids for _, ids in read])
    order = np.lexsort((window, node))
    node, window, community = node[order], window[order], community[order]
    begins = np.ones(len(node), bool)
    same_node = node[1:] == node[:-1]
    begins[1:] = ~same_node | (community[1:] != community[:-1]) | (window[1:] != window[:-1] + 1)
    starts = np.flatnonzero(begins)
    if len(starts) > MOST_SPANS:
        return None
    ends = np.append(starts[1:], len(node)) - 1
    newest = windows[-1].number
    spans: Spans = {str(one): [] for one in encoded.dictionary.to_pylist()}
    lists = list(spans.values())
    for at, start, end in zip(node[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
        first, last = int(window[start]), int(window[end])
        of_node = lists[at]
        if of_node and (before := of_node[-1][2]) is not None and first > before + 1:
            of_node.append([None, before + 1, first - 1])
        of_node.append([int(community[start]), first, last])
    for of_node in lists:
        if (last_seen := of_node[-1][2]) is not None and last_seen < newest:
            of_node.append([None, last_seen + 1, newest])
    return spans


def _compositions(queries: Queries, one: SeenWindow) -> Answers:
    """Return what the largest communities of the newest window are made of, by id."""
    largest = one.ids[np.argsort(-one.sizes, kind="stable")[:BANDS]].tolist()
    naming = queries.seen.naming
    return {str(at): composition(one, at, naming) for at in largest} if naming else {}


def _members(queries: Queries, name: SeriesName, one: SeenWindow) -> Answers | None:
    """Return members and edges of the newest window, as far as the page can draw them."""
    try:
        snapshot = queries.sources.snapshots.read(name, one)
    except StreamIcdError:
        return None
    return opened(one, snapshot, None, queries.centres(name))
