"""Connections to the page that end when nobody uses them: there is room for a limited number."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE_S = 20.0
"""Time without a request, or without taking what was sent, after which a connection ends."""


class PatientForAWhile(H11Protocol):
    """Ends a connection that is not used, and the oldest of these where there are too many.

    uvicorn itself waits for ever for the first request, for the rest of a request that has begun,
    and for a client that does not take its answer.
    """

    _looking: asyncio.TimerHandle | None = None
    _unsent: float = math.inf
    _made_at: float = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._made_at = self.loop.time()
        self._make_room()
        self._look_later()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unsent = math.inf
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_looking()

    def _make_room(self) -> None:
        """End the oldest connection without a request if no further one would be answered."""
        there = [one for one in self.connections if not one.transport.is_closing()]
        if self.limit_concurrency is None or len(there) < self.limit_concurrency:
            return
        idle = [
            one
            for one in there
            if one is not self and isinstance(one, PatientForAWhile) and one._has_no_request()
        ]
        if idle:
            min(idle, key=lambda one: one._made_at).transport.abort()

    def _has_no_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look_later(self) -> None:
        self._stop_looking()
        self._looking = self.loop.call_later(IDLE_S, self._look)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _look(self) -> None:
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        if (self._unsent >= before) if self._unsent else self._has_no_request():
            self.transport.abort()  # closing would wait until all that was sent is taken
        else:  # an answer that is computed or on its way, or a stream of news
            self._look_later()
