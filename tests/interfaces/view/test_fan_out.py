"""One reader, many tabs: nobody waits for a slow tab, and a slow tab begins anew."""

from __future__ import annotations

import asyncio

import pytest

from stream_icd.interfaces.view.web.app import _MOST_NEWS, _MOST_TABS, _FanOut
from tests.interfaces.view.windows import name

pytestmark = pytest.mark.anyio
OURS, OTHER = name("a"), name("b")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def connected(fan_out: _FanOut, n: int) -> list[asyncio.Task[list[bytes]]]:
    """Tabs that read until they are disconnected."""

    async def read() -> list[bytes]:
        return [message async for message in fan_out.messages(OURS)]

    tabs = [asyncio.create_task(read()) for _ in range(n)]
    while len(fan_out) < n:
        await asyncio.sleep(0)
    return tabs


async def test_each_tab_gets_the_news_of_its_series_until_it_leaves_or_falls_behind() -> None:
    fan_out = _FanOut()
    fan_out.publish(OURS, b"early")  # before the server runs
    fan_out.close_soon()
    left, *quick = await connected(fan_out, 3)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    slow = fan_out.messages(OURS)
    waiting = asyncio.create_task(anext(slow))
    await asyncio.sleep(0)
    news = [b"%d" % n for n in range(_MOST_NEWS + 10)]
    for n, message in enumerate(news):
        fan_out.deliver(OURS, message)
        fan_out.deliver(OTHER, b"other")
        if n % 50 == 0:
            await asyncio.sleep(0)
    assert await waiting == b"0"
    assert [message async for message in slow] == []
    await asyncio.sleep(0.01)
    assert (fan_out.n_dropped, len(fan_out)) == (1, 2)
    fan_out.close()
    assert await asyncio.gather(*quick) == [news] * 2


async def test_tabs_are_limited_also_if_they_connect_at_the_same_time() -> None:
    fan_out = _FanOut()
    assert not fan_out.is_full  # as all of them are told
    asked = [fan_out.messages(OURS) for _ in range(_MOST_TABS + 5)]
    tabs = [asyncio.create_task(anext(one, b"")) for one in asked]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert (len(fan_out), fan_out.is_full) == (_MOST_TABS, True)
    fan_out.close()
    await asyncio.gather(*tabs)
