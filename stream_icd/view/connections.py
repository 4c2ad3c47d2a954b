"""Connections to the page that end when nobody uses them: there is room for a limited number."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE_S = 20.0
"""Time without a request, or without taking what was sent, after which a connection ends."""


class PatientForAWhile(H11Protocol):
    """Ends a connection that is not used.

    uvicorn itself waits for ever for the first request, for the rest of a request that has begun,
    and for a client that does not take its answer.
    """

    _looking: asyncio.TimerHandle | None = None
    _unsent: float = math.inf

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look_later()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unsent = math.inf
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_looking()

    def _look_later(self) -> None:
        self._stop_looking()
        self._looking = self.loop.call_later(IDLE_S, self._look)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _look(self) -> None:
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        no_request = self.cycle is None or self.cycle.response_complete
        if (self._unsent >= before) if self._unsent else no_request:
            self.transport.abort()  # closing would wait until all that was sent is taken
        else:  # an answer that is computed or on its way, or a stream of news
            self._look_later()
