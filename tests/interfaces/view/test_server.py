"""The page is served safely: to whom, with which policy, at which cost, and whatever names say."""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from stream_icd.core.errors import StoreUnreachable
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.data.series import SeenWindow
from stream_icd.interfaces.view.panels.queries import Parameters, Queries, _Answer
from stream_icd.interfaces.view.web.app import _MOST_NEWS, _MOST_TABS, _QUESTIONS, View, _FanOut
from stream_icd.interfaces.view.web.page_files import page_files
from stream_icd.interfaces.view.web.serve import Access, PageServer
from tests.interfaces.view.windows import Placed, get, name, page_of, queries, seen
from tests.testbed.brokers import wait_until

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e{a|b}"


@pytest.fixture(scope="module")
def page() -> str:
    """The address of a page with one series."""
    with page_of(seen(6), snapshots=Placed()) as (_, address):
        yield address


def test_the_page_and_all_its_files_come_from_here(page: str) -> None:
    html = get(page).body.decode()
    wanted = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert {"main.js", "page.css", "icon.svg"} <= set(wanted)
    assert not re.search(r"\son\w+=|style=|<style|<script(?![^>]*src=)", html)
    # A browser that finds an import only in an imported file asks for it a round trip later.
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', html)
    modules = [path for path in page_files() if path.endswith(".js") and "/" not in path]
    assert sorted([*named, "main.js"]) == sorted(modules)
    writes_markup = re.compile(r"(inner|outer|Adjacent)HTML|document\.write|eval\(|Function\(")
    for path, file in page_files().items():
        assert get(page, f"/{path}").status == 200
        if not path.startswith("vendor/"):
            text = file.content.decode()
            addresses = re.findall(r"https?://[^\s\"')]+", text)
            assert set(addresses) <= {"http://www.w3.org/2000/svg"}, path
            assert not writes_markup.search(text), path
            assert set(re.findall(r'from "\./([^"]+)"', text)) <= page_files().keys(), path


@pytest.mark.parametrize("path", ["/", "/main.js", "/api/overview", "/api/nothing", "/nothing"])
def test_every_response_has_the_policy(page: str, path: str) -> None:
    headers = get(page, path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.search("unsafe|http", policy)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-type"].startswith("application/json") == path.startswith("/api")
    assert headers["referrer-policy"] == "no-referrer"


def test_nothing_can_be_changed_and_no_other_file_can_be_read(page: str) -> None:
    for path in ("/", "/api/flow", "/api/stream"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert get(page, path, method=method).status == 405
    for path in ("/../server.py", "/%2e%2e/server.py", "/vendor/../../server.py", "//etc/passwd"):
        assert get(page, path).status in (400, 404)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 421) for host in ("evil.example", "127.0.0.1.evil.example:80", "", "[")),
        ("@127.0.0.1.x", 421),
        *((host, 200) for host in ("localhost:1", "127.0.0.1", "[::1]:8321")),
    ],
)
def test_this_machine_may_ask_and_a_page_of_another_site_cannot(
    page: str, host: str, status: int
) -> None:
    assert get(page, "/api/overview", headers={"Host": host}).status == status


@pytest.mark.parametrize("token", [None, 'any+=&;" ü€, of 24 letters'])
def test_other_machines_need_the_token(token: str | None) -> None:
    access = Access.at("0.0.0.0", token)
    assert len(access.token) >= 20
    with page_of(seen(2), access) as (_, address):
        for path in ("/", "/main.js", "/api/overview", "/api/stream"):
            assert get(address, path, headers={"Host": "any.example"}).status == 403
            for headers in ({}, {"Sec-Fetch-Site": "cross-site"}):
                wrong = get(address, path, {"token": access.token[:-1]}, headers=headers)
                assert (wrong.status, wrong.cookies) == (403, [])
        opened = get(address, "/", {"token": access.token})
        (cookie,) = opened.cookies
        assert opened.status == 200
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        later = get(address, "/api/overview", headers={"Cookie": cookie.split(";")[0]})
        assert (later.status, later.cookies) == (200, [])
        for asked in ({}, {"token": access.token}):  # anybody may ask whether the server answers
            answer = get(address, "/healthz", asked, headers={"Host": "10.0.0.7:8321"})
            assert (answer.status, answer.body, answer.cookies) == (200, b"ok\n", [])


def test_two_pages_of_one_machine_keep_their_tokens_apart() -> None:
    """Browsers show the cookies of one port to all others."""
    with ExitStack() as stack:
        rules = [Access.at("0.0.0.0", token) for token in (None, "a token of its own")]
        pages = [stack.enter_context(page_of(seen(2), rule))[1] for rule in rules]
        cookies = [
            get(page, "/", {"token": rule.token or ""}).cookies[0].partition(";")[0]
            for page, rule in zip(pages, rules, strict=True)
        ]
        shown = {"Cookie": "; ".join(cookies)}
        assert [get(page, "/api/overview", headers=shown).status for page in pages] == [200, 200]


def test_the_token_of_a_loopback_page_is_asked_for_if_one_was_given() -> None:
    assert Access.at("127.0.0.1", "secret") == Access(None, "secret")
    hosts = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x")
    assert [Access.at(one).token is None for one in hosts] == [True, True, True, False, False]


REFUSED = {
    "flow?last": ["1000000000", "6001", "-1", "٣"],
    "flow?bands": ["41"],
    "flow?columns": ["121"],
    "flow?follow": ["1;drop", ",".join("1" * 50), "9" * 19],
    "flow?inside": ["0:2", "1:", "x:1", "1:2,3"],
    "events?kinds": ["born,exploded", "\x1b[31m"],
    "events?limit": ["1001"],
    "compare?last": ["301"],
    "members?community": [""],
    "composition?community": [""],
    "nodes?beginning": ["", "x" * 1025],
}


def refusal(page: str, question: str, parameters: dict[str, str]) -> str:
    answer = get(page, f"/api/{question}", parameters)
    assert answer.status == 400
    return str(answer.json()["error"])


@pytest.mark.parametrize("asked", REFUSED)
def test_a_question_that_costs_too_much_or_is_unknown_is_refused(page: str, asked: str) -> None:
    question, _, parameter = asked.partition("?")
    for value in REFUSED[asked]:
        said = refusal(page, question, {parameter: value})
        assert said.startswith(parameter)
        assert "\x1b" not in said


def test_a_long_query_and_an_unknown_parameter_are_refused(page: str) -> None:
    assert "at most 8192" in refusal(page, "node", {"node": "x" * 9000})
    for question in ("overview", "flow", "stream"):
        assert "no parameter" in refusal(page, question, {"graph": "g", "x" * 100: "1"})


def test_kept_answers_are_bounded_with_their_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.web.app._KEPT_BYTES", 50_000)
    with page_of(seen(2)) as (view, address):
        place = urlsplit(address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
        for number in range(80):
            connection.request("GET", f"/api/node?node={number:0>1000}")
            assert connection.getresponse().read()
        held = [*view.answers._answers._entries]
    assert 10 < len(held) < 50
    assert held[-1][1] == (("node", f"{79:0>1000}"),)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none"])
def test_pages_of_other_sites_may_link_to_the_page_and_no_more(page: str, site: str) -> None:
    foreign = site in ("cross-site", "same-site")
    asking = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    linking = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for path in ("/api/overview", "/api/flow", "/main.js", "/", *["/api/stream"] * foreign):
        assert get(page, path, headers=asking).status == (403 if foreign else 200)
        may_link = path == "/" or not foreign
        assert get(page, path, headers=linking).status == (200 if may_link else 403)


BEGUN = b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\n"
TAB = BEGUN.replace(b"overview", b"stream") + b"\r\n"


@contextmanager
def connected(address: str, sent: bytes = b"") -> Iterator[socket.socket]:
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=10) as one:
        one.sendall(sent)
        yield one


def has_ended(one: socket.socket) -> bool:
    """Wait until the other end of a connection ends it."""
    try:
        while one.recv(2**16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.fixture
def no_error(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """At the end there is no error in the log."""
    yield
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.usefixtures("no_error")
def test_ctrl_c_ends_open_tabs_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # The signal sets it for all servers of the process.
    monkeypatch.setattr("sse_starlette.sse.AppStatus.should_exit", False)
    view = View(queries(seen(1)))
    server = PageServer(view, Access.at("127.0.0.1"), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_page, daemon=True)
    thread.start()
    with connected(server.address, TAB) as tab:
        wait_until(lambda: len(view.fan_out) == 1)
        server.handle_exit(signal.SIGINT, None)
        assert has_ended(tab)
        thread.join()


@pytest.mark.usefixtures("no_error")
@pytest.mark.parametrize(
    "question", [b"POST /api/overview", b"GET /api/stream", b"GET /api/overview"]
)
def test_a_broken_body_ends_the_connection_without_an_error(question: bytes) -> None:
    begun = BEGUN.replace(b"GET /api/overview", question) + b"Transfer-Encoding: chunked\r\n\r\n"
    with page_of(seen(1)) as (view, address), connected(address, begun) as one:
        if b"stream" in question:
            wait_until(lambda: len(view.fan_out) == 1)
        elif b"GET" in question:  # after the answer
            answer = http.client.HTTPResponse(one)
            answer.begin()
            answer.read()
        one.sendall(b"zz\r\n")
        assert has_ended(one)
        assert get(address, "/api/overview").status == 200


def test_connections_that_are_not_used_end_and_keep_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.web.serve._MOST_CONNECTIONS", 5)
    with page_of(seen(1)) as (_, address), ExitStack() as stack:
        idle = [stack.enter_context(connected(address)) for _ in range(12)]
        assert get(address, "/api/overview").status == 200
        assert has_ended(idle[0])
    monkeypatch.setattr("stream_icd.interfaces.view.web.serve._IDLE_S", 0.2)
    with page_of(seen(1)) as (_, address):
        for sent in (b"", BEGUN, BEGUN + b"\r\nG", BEGUN + b"Content-Length: 9\r\n\r\n"):
            with connected(address, sent) as one:
                one.settimeout(3)
                assert has_ended(one), sent


def test_answers_that_are_not_taken_end_and_streams_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.web.serve._IDLE_S", 0.2)
    with page_of(seen(1)) as (view, address), connected(address) as one, connected(address, TAB):
        library = next(path for path in page_files() if path.endswith(".min.js"))
        asking = BEGUN.replace(b"api/overview", library.encode()) + b"\r\n"
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        one.sendall(asking * 20)  # more than the system keeps for a client
        wait_until(lambda: len(view.fan_out) == 1)
        time.sleep(1.5)
        taken = b""
        with suppress(ConnectionResetError):
            while got := one.recv(2**20):
                taken += got
        assert len(taken) < 20 * len(page_files()[library].content)
        assert len(view.fan_out) == 1


class Away:
    """A store that does not answer for a while."""

    def __init__(self) -> None:
        self.asked, self.back = threading.Event(), threading.Event()

    def read(self, _: SeenWindow) -> Snapshot:
        self.asked.set()
        self.back.wait(20)
        raise StoreUnreachable("the store does not answer")


def test_what_takes_long_stops_nothing_else() -> None:
    """Graphs that cannot be read, and a window that is being tracked."""
    away, everything = Away(), seen(3)
    newest = everything.windows(name(), 1)[0].result.identity()
    begun, go_on = threading.Event(), threading.Event()

    def decode() -> None:
        begun.set()
        go_on.wait(20)

    with page_of(everything, snapshots=away) as (_, address), ThreadPoolExecutor(5) as pool:
        waiting = [
            pool.submit(get, address, f"/api/{question}")
            for question in ("map", "places", "explain?node=1", "explain_community?community=0")
        ]
        try:
            assert away.asked.wait(5)
            assert get(address, "/api/flow", timeout=3).status == 200
            pool.submit(everything.add_events, newest, decode)
            assert begun.wait(5)
            assert get(address, "/api/flow", timeout=3).status == 200
        finally:
            go_on.set()
            away.back.set()
        assert [answer.result().status for answer in waiting] == [200, 503, 503, 503]


def test_the_same_question_of_many_tabs_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, parameters = _QUESTIONS["flow"]
    calls = []
    slow = threading.Event()

    def flow(queries: Queries, asked: Parameters) -> _Answer:
        calls.append(asked)
        slow.wait(0.3)
        return answered(queries, asked)

    monkeypatch.setitem(_QUESTIONS, "flow", (flow, parameters))
    with page_of(seen(6)) as (_, address):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: get(address, "/api/flow").body, range(8)))
        assert len(set(found)) == 1
        assert get(address, "/api/flow").body == found[0]
        assert len(calls) == 1


@pytest.mark.parametrize("path", ["/main.js", "/api/life"])
def test_what_is_sent_is_compressed_and_unchanged_files_are_not_sent_again(
    page: str, path: str
) -> None:
    plain, packed = (get(page, path, headers=h) for h in ({}, {"Accept-Encoding": "gzip, br"}))
    assert "content-encoding" not in plain.headers, "for those who cannot read it"
    assert packed.headers["content-encoding"] == "gzip"
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert packed.body == plain.body
    tag = plain.headers.get("etag")
    assert (tag is not None) == (path == "/main.js")
    if tag is not None:
        again = get(page, path, headers={"If-None-Match": tag})
        assert (again.status, again.body) == (304, b"")


def test_all_questions_have_an_answer_or_it_is_said_what_is_not_there(page: str) -> None:
    asked: dict[str, dict[str, str]] = {
        **{question: {} for question in ("overview", "flow", "life", "events", "map", "places")},
        **{one: {"community": "0"} for one in ("members", "composition", "explain_community")},
        **{one: {"node": "1"} for one in ("explain", "node")},
        "legend": {"by": "class"},
        "nodes": {"beginning": "1"},
        "compare": {"other_graph": "g"},
    }
    assert set(_QUESTIONS) == set(asked)
    for question, parameters in asked.items():
        answer = get(page, f"/api/{question}", parameters)
        assert answer.status == 200, answer.body
        assert answer.json()
    (one,) = get(page, "/api/overview").json()["series"]
    assert (one["graph"], one["model"], one["origin"]) == tuple(name())
    for question, parameters in (
        ("flow", {"graph": "other"}),
        ("map", {"at": "2030-01-01"}),
        ("explain_community", {"community": "99"}),
        ("nothing", {}),
    ):
        answer = get(page, f"/api/{question}", parameters)
        assert answer.status == 404
        assert answer.json()["error"]


OURS, OTHER = name("a"), name("b")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_each_tab_gets_the_news_of_its_series_until_it_leaves_or_falls_behind() -> None:
    fan_out = _FanOut()
    fan_out.publish(OURS, b"early")  # before the server runs
    fan_out.close_soon()

    async def read() -> list[bytes]:
        return [message async for message in fan_out.messages(OURS)]

    left, *quick = [asyncio.create_task(read()) for _ in range(3)]
    await asyncio.sleep(0)
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


@pytest.mark.anyio
async def test_tabs_are_limited_also_if_they_connect_at_the_same_time() -> None:
    fan_out = _FanOut()
    assert not fan_out.is_full  # as all of them are told
    asked = [fan_out.messages(OURS) for _ in range(_MOST_TABS + 5)]
    tabs = [asyncio.create_task(anext(one, b"")) for one in asked]
    await asyncio.sleep(0)
    assert (len(fan_out), fan_out.is_full) == (_MOST_TABS, True)
    fan_out.close()
    await asyncio.gather(*tabs)
