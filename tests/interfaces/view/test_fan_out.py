"""One reader, many tabs: nobody waits for a slow tab, and a slow tab begins anew."""

from __future__ import annotations

import asyncio

from stream_icd.interfaces.view.web.app import _MOST_NEWS, _MOST_TABS, _FanOut
from tests.interfaces.view.windows import name

OURS, OTHER = name("a"), name("b")


async def connected(fan_out: _FanOut, n: int = 1) -> list[asyncio.Task[list[bytes]]]:
    """Tabs that read until they are disconnected."""

    async def read() -> list[bytes]:
        return [message async for message in fan_out.messages(OURS)]

    tabs = [asyncio.create_task(read()) for _ in range(n)]
    while len(fan_out) < n:
        await asyncio.sleep(0)
    return tabs


def test_each_tab_gets_the_news_of_its_series_in_order() -> None:
    async def scene() -> list[list[bytes]]:
        fan_out = _FanOut()
        tabs = await connected(fan_out, 3)
        for n in range(10):
            fan_out.deliver(OURS, b"%d" % n)
            fan_out.deliver(OTHER, b"other")
        await asyncio.sleep(0.01)
        fan_out.close()
        return await asyncio.gather(*tabs)

    assert asyncio.run(scene()) == [[b"%d" % n for n in range(10)]] * 3


def test_a_tab_that_falls_behind_is_dropped_and_the_others_are_not() -> None:
    async def scene() -> tuple[int, int, list[bytes]]:
        fan_out = _FanOut()
        (quick,) = await connected(fan_out)
        slow = fan_out.messages(OURS)
        waiting = asyncio.create_task(anext(slow))
        await asyncio.sleep(0)
        for n in range(_MOST_NEWS + 10):
            fan_out.deliver(OURS, b"%d" % n)
            if n % 50 == 0:
                await asyncio.sleep(0)
        assert await waiting == b"0"
        rest = [message async for message in slow]
        await asyncio.sleep(0.01)
        dropped, connected_still = fan_out.n_dropped, len(fan_out)
        fan_out.close()
        assert len(await quick) == _MOST_NEWS + 10
        return dropped, connected_still, rest

    assert asyncio.run(scene()) == (1, 1, [])


def test_a_tab_that_leaves_is_forgotten() -> None:
    async def scene() -> int:
        fan_out = _FanOut()
        tabs = await connected(fan_out, 5)
        for tab in tabs[:4]:
            tab.cancel()
        await asyncio.gather(*tabs[:4], return_exceptions=True)
        left = len(fan_out)
        fan_out.close()
        await tabs[4]
        return left

    assert asyncio.run(scene()) == 1


def test_there_is_a_limit_on_tabs() -> None:
    async def scene() -> tuple[bool, bool]:
        fan_out = _FanOut()
        tabs = await connected(fan_out, _MOST_TABS - 1)
        before = fan_out.is_full
        extra = fan_out.messages(OURS)
        tabs.append(asyncio.create_task(anext(extra)))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        full = fan_out.is_full
        fan_out.close()
        return before, full

    assert asyncio.run(scene()) == (False, True)


def test_tabs_that_connect_at_the_same_time_are_limited_too() -> None:
    async def scene() -> int:
        fan_out = _FanOut()
        assert not fan_out.is_full  # as all of them are told
        asked = [fan_out.messages(OURS) for _ in range(_MOST_TABS + 5)]
        tabs = [asyncio.create_task(anext(one, b"")) for one in asked]  # type: ignore[arg-type]
        await asyncio.sleep(0)
        connected = len(fan_out)
        fan_out.close()
        await asyncio.gather(*tabs)
        return connected

    assert asyncio.run(scene()) == _MOST_TABS


def test_tabs_can_be_disconnected_from_another_thread() -> None:
    async def scene() -> int:
        fan_out = _FanOut()
        fan_out.start()
        tabs = await connected(fan_out, 2)
        await asyncio.to_thread(fan_out.close_soon)
        await asyncio.gather(*tabs)
        return len(fan_out)

    assert asyncio.run(scene()) == 0
    _FanOut().close_soon()  # before the server runs


def test_news_before_the_server_runs_is_no_error() -> None:
    _FanOut().publish(OURS, b"early")
