"""The page is served safely: to whom, with which policy, at which cost, and whatever names say."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from stream_icd.view.access import Access, access_for, is_loopback
from stream_icd.view.all_series import AllSeries
from stream_icd.view.page_files import page_files
from testbed.windows import window
from tests.view.windows import Placed, get, name, page_of, seen

pytest.importorskip("starlette", reason="pip install 'stream-icd[view]'")

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e{a|b}"


@pytest.fixture(scope="module")
def page() -> str:
    """The address of a page with one series."""
    with page_of(seen(6), snapshots=Placed()) as (_, address):
        yield address


def test_every_module_is_asked_for_at_once() -> None:
    """A browser that finds an import only in an imported file asks for it a round trip later."""
    html = page_files()["index.html"].content.decode()
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', html)
    assert sorted([*named, "main.js"]) == sorted(
        name for name in page_files() if name.endswith(".js") and "/" not in name
    )


def test_the_page_and_all_its_files_come_from_here(page: str) -> None:
    html = get(page).body.decode()
    wanted = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert {"main.js", "page.css", "icon.svg"} <= set(wanted)
    for path in page_files():
        assert get(page, f"/{path}").status == 200
    ours = [n for n in page_files() if not n.startswith("vendor/")]
    for one in ours:
        addresses = re.findall(r"https?://[^\s\"')]+", page_files()[one].content.decode())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, one


def test_files_of_the_page_are_imported_only_if_they_exist() -> None:
    for path, file in page_files().items():
        if path.endswith(".js") and not path.startswith("vendor/"):
            for imported in re.findall(r'from "\./([^"]+)"', file.content.decode()):
                assert imported in page_files(), f"{path} imports {imported}"


def test_no_file_writes_markup_or_evaluates_text() -> None:
    forbidden = re.compile(r"(inner|outer|Adjacent)HTML|document\.write|eval\(|Function\(")
    for path, file in page_files().items():
        if not path.startswith("vendor/"):
            assert not forbidden.search(file.content.decode()), path
    html = page_files()["index.html"].content.decode()
    assert not re.search(r"\son\w+=|style=|<style|<script(?![^>]*src=)", html)


@pytest.mark.parametrize("path", ["/", "/main.js", "/api/overview", "/api/nothing", "/nothing"])
def test_every_response_has_the_policy(page: str, path: str) -> None:
    headers = get(page, path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/api/flow", "/api/stream"])
def test_nothing_can_be_changed(page: str, method: str, path: str) -> None:
    assert get(page, path, method=method).status == 405


@pytest.mark.parametrize(
    "path", ["/../server.py", "/%2e%2e/server.py", "/vendor/../../server.py", "//etc/passwd"]
)
def test_no_other_file_can_be_read(page: str, path: str) -> None:
    assert get(page, path).status in (400, 404)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "", "[", "@127.0.0.1.x"]
)
def test_a_page_of_another_site_cannot_ask(page: str, host: str) -> None:
    assert get(page, "/api/overview", headers={"Host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8321"])
def test_this_machine_may_ask(page: str, host: str) -> None:
    assert get(page, "/api/overview", headers={"Host": host}).status == 200


def test_other_machines_need_the_token() -> None:
    access = access_for("0.0.0.0", None)
    assert access.token is not None
    assert len(access.token) >= 20
    with page_of(seen(2), access) as (_, address):
        for path in ("/", "/main.js", "/api/overview", "/api/stream"):
            assert get(address, path, headers={"Host": "any.example"}).status == 403
            wrong = get(address, path, {"token": access.token[:-1]})
            assert wrong.status == 403
            assert not wrong.cookies
        opened = get(address, "/", {"token": access.token})
        (cookie,) = opened.cookies
        assert opened.status == 200
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        later = get(address, "/api/overview", headers={"Cookie": cookie.split(";")[0]})
        assert later.status == 200
        assert not later.cookies


def test_the_token_of_a_loopback_page_is_asked_for_if_one_was_given() -> None:
    assert access_for("127.0.0.1", "secret") == Access(None, "secret")
    assert [is_loopback(one) for one in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "x")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("question", "asked", "complaint"),
    [
        ("flow", {"last": "1000000000"}, "last"),
        ("flow", {"bands": "41"}, "bands"),
        ("flow", {"columns": "-1"}, "columns"),
        ("flow", {"follow": "1;drop"}, "follow"),
        ("flow", {"follow": ",".join("1" * 50)}, "follow"),
        ("flow", {"follow": "9" * 19}, "follow"),
        ("life", {"last": "٣"}, "last"),
        ("events", {"kinds": "born,exploded"}, "exploded"),
        ("events", {"limit": "1001"}, "limit"),
        ("members", {"community": ""}, "community"),
        ("nodes", {"beginning": ""}, "beginning"),
        ("node", {"node": "x" * 1025}, "node"),
        ("compare", {"last": "301", "other_graph": "g"}, "last"),
    ],
)
def test_a_question_that_costs_too_much_is_refused(
    page: str, question: str, asked: dict[str, str], complaint: str
) -> None:
    answer = get(page, f"/api/{question}", asked)
    assert answer.status == 400
    assert complaint in answer.json()["error"]


def test_a_query_that_is_too_long_is_refused(page: str) -> None:
    assert get(page, "/api/node", {"node": "x" * 9000}).status == 400


def test_what_is_not_there_is_said(page: str) -> None:
    for path, asked in (("flow", {"graph": "other"}), ("map", {"number": "99"})):
        answer = get(page, f"/api/{path}", asked)
        assert answer.status == 404
        assert answer.json()["error"]
    assert get(page, "/api/nothing").status == 404


def test_a_page_without_results_says_so() -> None:
    with page_of(AllSeries()) as (_, address):
        assert get(address).status == 200
        assert get(address, "/api/overview").json()["series"] == []
        assert get(address, "/api/flow").status == 404


def test_hostile_names_arrive_as_text_that_is_no_markup() -> None:
    names = pa.array([HOSTILE, *(f"node {n}" for n in range(59))])
    with page_of(seen(3, graph=HOSTILE, names=names)) as (_, address):
        series = get(address, "/api/overview").json()["series"]
        assert series[0]["graph"] == HOSTILE
        past = get(address, "/api/node", {"graph": HOSTILE, "node": HOSTILE})
        assert past.headers["content-type"].startswith("application/json")
        assert past.json()["seen"] == 3
        found = get(address, "/api/nodes", {"graph": HOSTILE, "beginning": "</script"}).json()
        assert found["nodes"] == [HOSTILE]


def test_an_error_never_shows_control_characters() -> None:
    with page_of(seen(1)) as (_, address):
        answer = get(address, "/api/events", {"kinds": "\x1b[31m"})
        assert b"\x1b" not in answer.body
        assert "\x1b" not in answer.json()["error"]


def test_the_same_question_of_many_tabs_is_answered_once() -> None:
    everything = seen(6)
    with page_of(everything) as (view, address):
        calls = []
        answered = view.queries.flow
        slow = threading.Event()

        def flow(asked: object) -> object:
            calls.append(asked)
            slow.wait(0.3)
            return answered(asked)  # type: ignore[arg-type]

        view.answers.questions["flow"] = flow  # type: ignore[assignment]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: get(address, "/api/flow").body, range(8)))
        assert len(set(found)) == 1
        assert get(address, "/api/flow").body == found[0]
        assert len(calls) == 1


def test_an_answer_changes_when_a_window_arrives() -> None:
    everything = seen(3)
    with page_of(everything) as (_, address):
        assert len(get(address, "/api/flow").json()["columns"]) == 3
        everything.add(window(20, [0, 0, 1]), "topic")
        assert len(get(address, "/api/flow").json()["columns"]) == 4


def test_unchanged_files_are_not_sent_again(page: str) -> None:
    tag = get(page, "/main.js").headers["etag"]
    again = get(page, "/main.js", headers={"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")


def test_files_are_compressed_where_the_browser_can_read_that(page: str) -> None:
    plain, packed = (get(page, "/main.js", headers=h) for h in ({}, {"Accept-Encoding": "gzip"}))
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.body == plain.body


def test_all_questions_have_an_answer(page: str) -> None:
    asked = {
        "overview": {},
        "flow": {},
        "life": {},
        "events": {},
        "map": {},
        "members": {"community": "0"},
        "places": {},
        "nodes": {"beginning": "1"},
        "node": {"node": "1"},
        "compare": {"other_graph": "g"},
    }
    with page_of(seen(1)) as (view, _):
        assert set(view.answers.questions) == set(asked)
    for question, parameters in asked.items():
        answer = get(page, f"/api/{question}", parameters)
        assert answer.status == 200, answer.body
        assert answer.json()


def test_names_given_in_part_choose_the_first_series_that_fits(page: str) -> None:
    (one,) = get(page, "/api/overview").json()["series"]
    assert (one["graph"], one["model"], one["origin"]) == tuple(name())
