"""Answers to questions: computed once for all tabs that ask the same, a few at a time."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from stream_icd.errors import Overloaded
from stream_icd.view.data.series import SeriesName
from stream_icd.view.panels.queries import BadQuestion, Parameters, Queries

AT_A_TIME = 2
MOST_WAITING = 64
KEPT_BYTES = 32 * 2**20
ENTRY = 200
"""Bytes of an entry of an `OrderedDict`."""

Key = tuple[str, tuple[tuple[str, str], ...], tuple[int, ...]]

SERIES = frozenset(SeriesName._fields)
SPAN = SERIES | {"last", "until"}
WINDOW = SERIES | {"number"}
EVENTS = {"kinds", "community", "limit", "lasting", "least_bits"}


@dataclass(frozen=True, slots=True)
class Question:
    """How a question is answered, and the parameters that it has."""

    compute: Callable[[Parameters], dict[str, Any]]
    parameters: frozenset[str]


def questions_of(queries: Queries) -> dict[str, Question]:
    """Return all questions that the page may ask, by name."""
    others = {f"other_{name}" for name in SERIES}
    return {
        "overview": Question(queries.overview, frozenset()),
        "flow": Question(queries.flow, SPAN | {"bands", "columns", "follow"}),
        "life": Question(queries.life, SPAN),
        "events": Question(queries.events, SPAN | EVENTS),
        "map": Question(queries.map, WINDOW),
        "composition": Question(queries.composition, WINDOW | {"community"}),
        "members": Question(queries.members, WINDOW | {"community"}),
        "places": Question(queries.places, WINDOW),
        "nodes": Question(queries.nodes, WINDOW | {"beginning"}),
        "explain": Question(queries.explain, WINDOW | {"node"}),
        "explain_community": Question(queries.explain_community, WINDOW | {"community"}),
        "node": Question(queries.node, SPAN | {"node"}),
        "compare": Question(queries.compare, SPAN | others),
    }


def check_known(asked: Parameters, known: frozenset[str]) -> None:
    """Refuse unknown parameters: each would be another question, computed and kept for itself."""
    if unknown := asked.keys() - known:
        names = ", ".join(sorted(known)) or "none"
        raise BadQuestion(f"{min(unknown)!r:.40} is no parameter of this question; known: {names}")


class Answers:
    """Answers of `Queries` as gzip-compressed JSON, remembered until what was seen changes."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._pool = ThreadPoolExecutor(AT_A_TIME, "view")
        self._running: dict[Key, asyncio.Future[bytes]] = {}
        self._kept: OrderedDict[Key, bytes] = OrderedDict()
        self._bytes = 0
        self.questions = questions_of(queries)

    async def answer(self, question: str, asked: Parameters) -> bytes:
        """Return an answer; a question that is being answered is not asked a second time.

        Raises:
            Overloaded: too many other questions wait.
            StreamIcdError: there is no answer; see `Queries`.
        """
        check_known(asked, self.questions[question].parameters)
        version = () if question == "overview" else self._queries.version(asked)
        key = question, tuple(sorted(asked.items())), version
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._running:
            if len(self._running) >= MOST_WAITING:
                raise Overloaded("too many questions wait for an answer: try again")
            loop = asyncio.get_running_loop()
            compute = self.questions[question].compute
            running = loop.run_in_executor(self._pool, lambda: _encoded(compute(asked)))
            running.add_done_callback(lambda done: self._done(key, done))
            self._running[key] = running
        return await asyncio.shield(self._running[key])

    def close(self) -> None:
        """Stop computing."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, key: Key, done: asyncio.Future[bytes]) -> None:
        self._running.pop(key, None)
        if done.cancelled() or done.exception() is not None or key[0] == "overview":
            return
        self._kept[key] = done.result()
        self._bytes += bytes_of(key, done.result())
        while self._bytes > KEPT_BYTES:
            self._bytes -= bytes_of(*self._kept.popitem(last=False))


def bytes_of(key: Key, answer: bytes) -> int:
    """Return the bytes of memory of a kept answer with its key, whose names may be long."""
    question, asked, version = key
    texts = sum(sys.getsizeof(pair) + sum(map(sys.getsizeof, pair)) for pair in asked)
    return texts + sum(map(sys.getsizeof, (question, asked, version, key, answer))) + ENTRY


def _encoded(answer: dict[str, Any]) -> bytes:
    text = json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()
    return gzip.compress(text, 3, mtime=0)
