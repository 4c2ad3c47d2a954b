"""The questions that the page asks, with limits on what an answer may cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from stream_icd.core.errors import BadSettings, StreamIcdError
from stream_icd.core.events import CHANGES, EVENT_KINDS
from stream_icd.core.printable import shortened
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.times import parse_utc
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.data.kept import KeptValues
from stream_icd.interfaces.view.data.series import SeenWindow, SeriesName
from stream_icd.interfaces.view.feeds.sources import Sources
from stream_icd.interfaces.view.panels.community_map import node_places, opened, quotient
from stream_icd.interfaces.view.panels.details import (
    LOOKED_BACK,
    composition,
    explained,
    explained_community,
    legend,
    names_like,
)
from stream_icd.interfaces.view.panels.flow import event_list, flow, names_in
from stream_icd.interfaces.view.panels.life import comparison, life
from stream_icd.methods.tracking.confirmation import CONFIRMED
from stream_icd.methods.tracking.explain import Explanation
from stream_icd.methods.tracking.explain_community import CommunityExplanation

Parameters = Mapping[str, str]
_Answer = dict[str, Any]
_Past = MutableMapping[SeenWindow, int | None]  # a node's community; None where it is missing

MOST_WINDOWS = 6000
MOST_COLUMNS = 120
_MOST_BANDS = 40
_MOST_LEVELS = 30
_MOST_ROWS = 1000
_MOST_NAMES = 20
_MOST_TEXT = 1024
_MOST_OPENED = 20
_MOST_LISTED = 1000
_COMPARED_WINDOWS = 300
_SEARCHED_WINDOWS = 3000
_COLOURED_WINDOWS = 24  # in a small newest window, few values have a node
_KEPT_CENTRES = 5000
_KEPT_MAPS = 100
_KEPT_PASTS = 20  # nodes whose past is known when another window comes: 0.5 MB each at most
_MOST_MODELS = 8
_MOST_BITS = 10**6

_ANNOUNCED = ("kind", "version", "reason", "by")
_NO_WINDOW = "this window is no longer in memory, or was never seen"


class BadQuestion(BadSettings):
    """A parameter of a question is wrong; the message names it and what it may be."""


class NothingSeen(StreamIcdError):
    """There is no such series or window; the message says so."""


@dataclass(slots=True)
class _Drawn:
    """Where discs and nodes lie on the last map of a series: they stay there on the next one."""

    centres: dict[int, tuple[float, float]] = field(default_factory=dict)
    frame: tuple[float, float, float, float] | None = None


@dataclass(slots=True)
class Queries:
    """Answers the page's questions about what was seen, and where it was read from.

    Raises:
        BadQuestion, NothingSeen: see these classes.
        StreamIcdError: the graph of a window cannot be read.
    """

    seen: AllSeries
    sources: Sources
    zone: str = "UTC"  # of the times on the page
    _maps: KeptValues[SeriesName, _Drawn] = field(default_factory=lambda: KeptValues(_KEPT_MAPS))
    _coloured: KeptValues[tuple[SeriesName, str, bool], list[str]] = field(
        default_factory=lambda: KeptValues(_KEPT_MAPS)
    )
    _pasts: KeptValues[str, _Past] = field(
        default_factory=lambda: KeptValues(_KEPT_PASTS)
    )  # by node

    def overview(self, query: Parameters) -> _Answer:
        """Series in short, dead letters, decisions about models, and what is wrong.

        The series of the graph that is asked for are there, however many others there are.
        """
        summaries = self.seen.summaries(_MOST_LISTED, query.get("graph", ""))
        count, letters = self.seen.dead_letters()
        naming = self.seen.naming
        troubles = dict(self.sources.troubles())
        if naming and naming.trouble:
            troubles["the table of names"] = naming.trouble
        return {
            "archive": self.sources.archive,
            "zone": self.zone,
            "latest": None if (latest := self.sources.latest()) is None else latest.isoformat(),
            "caught_up": self.sources.caught_up(),
            "series": [
                {
                    **summary.name._asdict(),
                    "models": [shortened(model) for model in summary.models[-_MOST_MODELS:]],
                    "windows": summary.kept,
                    "dropped": summary.dropped,
                    "late": summary.late,
                    "number": summary.newest.number,
                }
                for summary in summaries
            ],
            "series_left_out": max(0, len(self.seen.index) - len(summaries)),
            "dead_letters": count,
            "dead_letter_list": [
                {**asdict(letter), "at": letter.at.isoformat()}
                for letter in reversed(letters[-100:])
            ],
            "announcements": [
                {
                    "at": decision.at.isoformat(),
                    **{name: getattr(decision, name) for name in _ANNOUNCED},
                }
                for decision in reversed(self.seen.announcements()[-100:])
            ],
            "troubles": troubles,
            "attributes": [] if naming is None else list(naming.names),
            "lag": self.sources.lag(),
            "snapshots_there": self.sources.snapshots_there(),
            "bytes_held": self.seen.bytes_held,
        }

    def flow(self, query: Parameters) -> _Answer:
        """Bands and streams of the `last` windows of all that are kept.

        `above`: bands are communities of communities, so many levels above. `inside`: only those in
        one band, given as `LEVEL:ID`, with a level as in `above`.
        `around`: the start of a window that they hold: the newest ones, unless it is older.
        """
        last = _whole(query, "last", 60, 1, MOST_WINDOWS)
        all_kept = self.seen.windows(self.name(query), sys.maxsize)
        windows = _last_with(all_kept, last, _moment(query, "around"))
        bands = _whole(query, "bands", 20, 1, _MOST_BANDS)
        columns = _whole(query, "columns", MOST_COLUMNS, 2, MOST_COLUMNS)
        followed = _ids(query, "follow", _MOST_BANDS)
        above = _whole(query, "above", 0, 0, _MOST_LEVELS)
        drawn = flow(windows, columns, bands, followed, above, _inside(query, above))
        names = {} if above else names_in(windows, drawn["shown"])
        return {**drawn, "windows": len(windows), "kept": len(all_kept), "names": names}

    def life(self, query: Parameters) -> _Answer:
        """The numbers of `last` windows."""
        return life(self._windows(query, 700, MOST_WINDOWS))

    def events(self, query: Parameters) -> _Answer:
        """The events of some kinds, newest first; `of_newest`: of so many windows, not of all.

        Events of negative strength are hidden unless `least_bits` is `any`: the edges of their
        window speak against them.
        """
        kinds = frozenset((query.get("kinds") or ",".join(CHANGES)).split(","))
        if unknown := kinds - set(EVENT_KINDS):
            raise BadQuestion(
                f"kinds: {min(unknown)!r:.40} is unknown; known: {', '.join(EVENT_KINDS)}"
            )
        community = _ids(query, "community", 1)
        name, windows = self.name(query), self._windows(query, MOST_WINDOWS, MOST_WINDOWS)
        older = bool(windows) and self.seen.window(name, windows[0].number - 1) is not None
        limit = _whole(query, "limit", 200, 1, _MOST_ROWS)
        lasting = _whole(query, "lasting", 0, 0, CONFIRMED)
        any_bits = query.get("least_bits") == "any"
        least_bits = -inf if any_bits else _whole(query, "least_bits", 0, 0, _MOST_BITS)
        chosen = community[0] if community else None
        listed = event_list(windows, kinds, chosen, limit, lasting, least_bits)
        return {**listed, "of_newest": len(windows) if older else None}

    def map(self, query: Parameters) -> _Answer:
        """The communities of a window as discs, and the links between them."""
        name, window = self._window(query)
        trouble = None
        try:
            snapshot = self.sources.snapshot(name, window)
        except StreamIcdError as error:
            snapshot, trouble = None, str(error)
        before = self._drawn(name).centres
        drawn = quotient(window, snapshot, before)
        if len(before) > _KEPT_CENTRES:  # of communities that ended long ago, too
            before.clear()
        before |= {disc["id"]: (disc["x"], disc["y"]) for disc in drawn["communities"]}
        earlier = self.seen.windows(name, LOOKED_BACK, window.number)  # some have no name now
        names = names_in(earlier, window.ids.tolist())
        return {**drawn, "names": names, "trouble": trouble}

    def composition(self, query: Parameters) -> _Answer:
        """What a community of a window is made of."""
        _, window = self._window(query)
        return composition(window, _one_id(query), self.seen.naming)

    def legend(self, query: Parameters) -> _Answer:
        """The values of an attribute that have a colour, and how many nodes of a window have each.

        They are the most frequent ones of the newest window, then of those before it, when somebody
        first asked after all that was there had been read: a value keeps its colour, and an archive
        has the same ones whenever it is opened.
        """
        name, window = self._window(query)
        attribute = _text(query, "by")
        key = name, attribute, self.sources.caught_up()
        recent = self.seen.windows(name, _COLOURED_WINDOWS) or [window]
        coloured = self._coloured.get(key) or []
        answer = legend(window, attribute, self.seen.naming, coloured, recent)
        self._coloured.put(key, [row["value"] for row in answer["values"]])
        return answer

    def members(self, query: Parameters) -> _Answer:
        """Members and edges of some communities, or of all with `community=all`."""
        name, window = self._window(query)
        everything = query.get("community") == "all"
        chosen = None if everything else _ids(query, "community", _MOST_OPENED)
        if chosen == []:
            raise BadQuestion("community: give the ids of communities, or all")
        snapshot = self.sources.snapshot(name, window)
        drawn = opened(window, snapshot, chosen)
        return {**drawn, "values": self._values(name, snapshot, drawn["at"], query)}

    def places(self, query: Parameters) -> _Answer:
        """Nodes of a window where their source says they are."""
        name, window = self._window(query)
        snapshot = self.sources.snapshot(name, window)
        if snapshot.coordinates is None:
            raise NothingSeen("the snapshot does not say where its nodes are")
        drawn = self._drawn(name)
        placed = node_places(window, snapshot, snapshot.coordinates, drawn.frame)
        drawn.frame = placed["frame"]
        return {**placed, "values": self._values(name, snapshot, placed["at"], query)}

    def nodes(self, query: Parameters) -> _Answer:
        """Nodes of a window whose names begin with some text."""
        _, window = self._window(query)
        return {"nodes": names_like(window, _text(query, "beginning"), _MOST_NAMES)}

    def node(self, query: Parameters) -> _Answer:
        """Where a node was: a span for each time that its community stayed the same.

        A span has the numbers and starts of its first and last window, and the community, or None
        for windows in which the node is missing. Before its first appearance there is no span.
        """
        windows = self._windows(query, _SEARCHED_WINDOWS, _SEARCHED_WINDOWS)
        node = _text(query, "node")
        past = self._pasts.get(node) or self._pasts.put(node, WeakKeyDictionary())
        spans: list[dict[str, Any]] = []
        n_windows = 0
        for window in windows:
            if window not in past:  # only then: to unpack a window takes milliseconds
                past[window] = window.community_of(node)
            community, start = past[window], window.result.window.start.isoformat()
            n_windows += community is not None
            last = {"to": window.number, "last": start}
            if spans and spans[-1]["id"] == community:
                spans[-1] |= last
            elif spans or community is not None:
                spans.append({"id": community, "from": window.number, "start": start, **last})
        return {"node": node, "seen": n_windows, "of": len(windows), "spans": spans}

    def explain(self, query: Parameters) -> _Answer:
        """What happened around a node."""
        name, windows = self._until(query)
        read = partial(self.sources.snapshot, name)
        explanation, names = explained(windows, _text(query, "node"), read)
        return _as_answer(explanation, names)

    def explain_community(self, query: Parameters) -> _Answer:
        """What holds a community together."""
        name, windows = self._until(query)
        read = partial(self.sources.snapshot, name)
        after = self.seen.window(name, windows[-1].number + 1)
        community = _one_id(query)
        if not any(community in window.ids for window in windows):
            at = windows[-1].result.window.start
            raise NothingSeen(f"no window up to {at} has community {community}")
        explanation, names = explained_community(windows, community, read, after)
        return _as_answer(explanation, names)

    def _values(
        self, name: SeriesName, snapshot: Snapshot, at: list[int], query: Parameters
    ) -> list[str | None] | None:
        """Return the value of the attribute `by` of some nodes of a snapshot; None without one."""
        naming = self.seen.naming
        if naming is None or not query.get("by"):
            return None
        return naming.values(name.graph, snapshot.nodes.take(at), query["by"])

    def _drawn(self, name: SeriesName) -> _Drawn:
        return self._maps.get(name) or self._maps.put(name, _Drawn())

    def _until(self, query: Parameters) -> tuple[SeriesName, list[SeenWindow]]:
        """Return a series, and its windows up to the one that is asked for."""
        name = self.name(query)
        windows = self.seen.windows(name, LOOKED_BACK, self._number(name, query))
        if not windows:
            raise NothingSeen(_NO_WINDOW)
        return name, windows

    def compare(self, query: Parameters) -> _Answer:
        """Two series side by side, in the last windows that both have."""
        last = _whole(query, "last", 60, 1, _COMPARED_WINDOWS)
        series, other = self.name(query), self.name(self._other(query))
        windows = self.seen.windows(series, MOST_WINDOWS)
        return comparison(windows, self.seen.windows(other, MOST_WINDOWS), last)

    def version(self, query: Parameters) -> tuple[int, ...]:
        """Return numbers that change whenever the answer to a question may change."""
        other = self._other(query)
        compared = [query, other] if any(other.values()) else [query]
        # The index, not the windows: this runs in the event loop, and must not wait for a window
        # that is being tracked.
        versions = (self.seen.index.version_of(self.name(series)) for series in compared)
        return self.sources.caught_up(), *versions

    def name(self, query: Parameters) -> SeriesName:
        """Return the series that is asked for: the first one that fits what is given."""
        name = self.seen.index.find(*(query.get(field, "") for field in SeriesName._fields))
        if name is None:
            raise NothingSeen("no results of this graph and model were seen yet")
        return name

    def _other(self, query: Parameters) -> Parameters:
        return {name: query.get(f"other_{name}", "") for name in SeriesName._fields}

    def _windows(self, query: Parameters, default: int, most: int) -> list[SeenWindow]:
        last = _whole(query, "last", default, 1, most)
        return self.seen.windows(self.name(query), last)

    def _window(self, query: Parameters) -> tuple[SeriesName, SeenWindow]:
        name = self.name(query)
        window = self.seen.window(name, self._number(name, query))
        if window is None:
            raise NothingSeen(_NO_WINDOW)
        return name, window

    def _number(self, name: SeriesName, query: Parameters) -> int | None:
        """Return the number of the window that starts `at` a time; None if none is given."""
        at = _moment(query, "at")
        if at is None:
            return None
        for window in reversed(self.seen.windows(name, sys.maxsize)):
            if _starts_at(window, at):
                return window.number
        raise NothingSeen(_NO_WINDOW)


def _whole(query: Parameters, name: str, default: int, least: int, most: int) -> int:
    text = query.get(name) or str(default)
    # `isdigit` alone accepts superscripts, too, which `int` cannot read.
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadQuestion(f"{name}: {text!r:.40} is not a whole number")
    if not least <= int(text) <= most:
        raise BadQuestion(f"{name}: {text} must be from {least} to {most}")
    return int(text)


def _moment(query: Parameters, name: str) -> datetime | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return parse_utc(text)
    except ValueError as error:
        raise BadQuestion(
            f"{name}: {text!r:.40} is not a time, such as 2026-01-31T12:00:00Z"
        ) from error


def _starts_at(window: SeenWindow, at: datetime) -> bool:
    """Whether a window starts in this millisecond: a browser knows none shorter."""
    return timedelta(0) <= window.result.window.start - at < timedelta(milliseconds=1)


def _last_with(
    windows: Sequence[SeenWindow], last: int, around: datetime | None
) -> Sequence[SeenWindow]:
    """Return the last windows, or those in whose middle one that starts then is; else none."""
    if around is None:
        return windows[-last:]
    starts = (place for place, window in enumerate(windows) if _starts_at(window, around))
    place = next(starts, None)
    if place is None:
        return []
    end = len(windows) if place >= len(windows) - last else place + last // 2 + 1
    return windows[max(0, end - last) : end]


def _ids(query: Parameters, name: str, most: int) -> list[int]:
    texts = [text for text in query.get(name, "").split(",") if text]
    if len(texts) > most or not all(text.isascii() and text.isdigit() for text in texts):
        raise BadQuestion(f"{name}: give at most {most} ids of communities, such as 3,17")
    if any(len(text) > 18 for text in texts):  # which an int64 holds
        raise BadQuestion(f"{name}: an id has at most 18 digits")
    return [int(text) for text in texts]


def _inside(query: Parameters, above: int) -> tuple[int, int] | None:
    """Return in which band of a level above the shown ones these are: the level, and its id."""
    text = query.get("inside")
    if not text:
        return None
    level, _, band = text.partition(":")
    above_bands = _whole({"inside": level}, "inside", 0, above + 1, _MOST_LEVELS)
    ids = _ids({"inside": band}, "inside", 1)
    if not ids:
        raise BadQuestion(f"inside: {text!r:.40} is no band: give LEVEL:ID, such as 1:7")
    return above_bands, ids[0]


def _one_id(query: Parameters) -> int:
    ids = _ids(query, "community", 1)
    if not ids:
        raise BadQuestion("community: give the id of a community")
    return ids[0]


def _text(query: Parameters, name: str) -> str:
    text = query.get(name, "")
    if not text or len(text) > _MOST_TEXT:
        raise BadQuestion(f"{name}: give 1 to {_MOST_TEXT} characters")
    return text


def _as_answer(
    explanation: Explanation | CommunityExplanation, names: dict[int, str]
) -> dict[str, Any]:
    """Return an explanation as the page shows it: `sentences`, then the numbers."""
    row = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(explanation).items()
    }
    return {**row, "sentences": list(explanation.sentences(names))}
