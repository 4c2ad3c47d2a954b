"""The page in a real browser: it shows what the topic holds, grows, links, and runs no name.

Needs a Chromium: that of `STREAM_ICD_TEST_CHROMIUM`, or one on the PATH. Without one, these tests
are skipped. `.ci/run` installs one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import image

from stream_icd.interfaces.view.data.all_series import AllSeries, News, PageBudget
from stream_icd.interfaces.view.panels.queries import _MOST_LISTED
from stream_icd.interfaces.view.report import Report
from stream_icd.interfaces.view.web.app import View
from stream_icd.wire.announcements import Announcement
from tests.interfaces.view.test_panels import of_levels
from tests.interfaces.view.windows import (
    ORIGIN,
    Cliques,
    Given,
    Placed,
    drifting,
    letter,
    name,
    named,
    page_of,
    queries,
    seen,
    serving,
)
from tests.testbed.brokers import wait_until
from tests.testbed.programs import CHROMIUM
from tests.testbed.windows import HOUR, START, window

HOW = (
    "a browser is needed: install one (apt install chromium), or set STREAM_ICD_TEST_CHROMIUM to a "
    "Chromium; and pip install playwright"
)
sync_api = pytest.importorskip("playwright.sync_api", reason=HOW)
# As root there is no sandbox, and in a container little shared memory. Tabs share a process, since
# each new one costs a second; and to draw as on a graphics card, without one, costs a tenth of all.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--renderer-process-limit=1",
    "--disable-gpu",
]
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=HOW)

HOSTILE = "</script><img src=x onerror='window.pwned=1'>{a|b}\x1b"
HALVES = (0, 0, 1, 1)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A tab that may complain, as where a server refuses or is away."""
    context = chromium.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def profile(chromium: Any) -> Any:
    """The profile of each test's first tab; a tab that stays keeps the process of all its tabs."""
    shared = chromium.new_context()
    shared.new_page()
    return shared


class Opened:
    """`opened(address)` or `opened(series)`: a tab with a page.

    `opened.served(series)`: a page and its address, as `page_of`, until all tabs are closed.
    """

    def __init__(self, chromium: Any, profile: Any, pages: ExitStack) -> None:
        self._chromium, self._profile, self._pages = chromium, profile, pages
        self.complaints: list[str] = []
        self.to_close: list[Any] = []

    def served(self, *of: Any, **options: Any) -> tuple[View, str]:
        return self._pages.enter_context(page_of(*of, **options))

    def live(self, everything: AllSeries, query: str = "") -> tuple[Any, View]:
        """A tab with a page, which gets its news, and the page."""
        view, address = self.served(everything)
        tab = self(address, query)
        wait_until(lambda: len(view.fan_out) == 1)
        return tab, view

    def __call__(
        self, page: AllSeries | str, query: str = "", snapshots: Any = None, **options: Any
    ) -> Any:
        address = page if isinstance(page, str) else self.served(page, snapshots=snapshots)[1]
        own = self._chromium.new_context(**options) if options or self.to_close else None
        tab = (own or self._profile).new_page()
        self.to_close.append(own or tab)
        said = self.complaints.append
        tab.on("pageerror", lambda error: said(str(error)))
        tab.on("console", lambda m: said(m.text) if is_error(m) else None)
        tab.on("request", lambda r: r.url.startswith((address, f"blob:{address}")) or said(r.url))
        tab.goto(f"{address}{query}")
        return tab


@pytest.fixture
def opened(chromium: Any, profile: Any) -> Iterator[Opened]:
    """At the end there was no error in any tab, and no request to anywhere else."""
    with ExitStack() as pages:
        opened = Opened(chromium, profile, pages)
        yield opened
        for tab_or_profile in opened.to_close:
            tab_or_profile.close()
    profile.clear_cookies()
    assert opened.complaints == []


def is_error(message: Any) -> bool:
    """Whether a message of the console is an error; a server that has ended is none."""
    return message.type == "error" and "net::ERR_" not in message.text


def at(hour: int) -> str:
    """The start of a window, as the address has it."""
    return f"{START + hour * HOUR:%Y-%m-%dT%H:%M:%SZ}"


def number(tab: Any, name: str) -> str:
    return str(tab.locator(f"[data-number={name}]").inner_text())


def says(shown: Any, text: str, **options: Any) -> None:
    sync_api.expect(shown).to_contain_text(text, **options)


@pytest.fixture(scope="module")
def six() -> Iterator[str]:
    """The address of a page with six windows of one level, whose nodes have no places."""
    with page_of(seen(6)) as (_, address):
        yield address


def publish(view: View, hour: int, labels: object, origin: str = ORIGIN) -> None:
    """A window arrives while the page is open."""
    view.publish(view.queries.seen.add(window(hour, labels), origin))


def test_the_page_shows_what_was_seen_and_keeps_up_with_twenty_windows_a_second(
    opened: Opened,
) -> None:
    tab, view = opened.live(seen(5))
    tab.wait_for_selector("svg.flow[data-newest='4']")
    assert (number(tab, "k"), number(tab, "nodes")) == ("4", "60")
    assert tab.locator("#flow .levels").count() == 0
    tab.locator("body").press("3")
    tab.wait_for_selector("#life .plot[data-newest='4'] canvas")
    for hour, labels in enumerate(drifting(20), start=5):
        publish(view, hour, labels)
        time.sleep(0.05)
    tab.wait_for_selector("#life .plot[data-newest='24'][data-windows='25']")
    assert view.fan_out.n_dropped == 0
    publish(view, 27, [0, 0, 0, 1, 1, 1])
    tab.locator("body").press("1")
    tab.wait_for_selector("svg.flow[data-newest='25']")
    assert number(tab, "nodes") == "6"
    assert tab.locator("svg.flow .gap").count() == 1


def test_the_flow_zooms_into_a_band(opened: Opened) -> None:
    tab = opened(of_levels(3))
    band, bands = "svg.flow path.band[data-id='{}']".format, tab.locator("svg.flow path.band")
    tab.wait_for_selector(band(9))
    tab.locator("#flow [data-above='1']").click()
    tab.wait_for_selector(band(9), state="detached")
    tab.locator(band(7)).click()
    tab.wait_for_selector(band(9))
    assert bands.count() == 2
    tab.locator("#flow [data-out]").click()
    tab.wait_for_selector(band(2))
    assert bands.count() == 2


OUTSIDE = """() => {
  const chart = echarts.getInstanceByDom(document.querySelector("#life .plot"));
  return chart.getOption().series.filter(({ stack }) => !stack).flatMap((line) => {
    const axis = chart.getModel().getComponent("yAxis", line.yAxisIndex).axis;
    const [low, high] = axis.scale.getExtent();
    return line.data.filter(([, y]) => y !== null && (y < low || high < y));
  });
}"""
"""The points of lines that leave their axes."""


def test_the_life_shows_lines_times_and_what_happened_between_windows(opened: Opened) -> None:
    everything = AllSeries()
    for hour, bits in ((0, 0.4), (1, -3.5), (2, 2.25), (4, 0.5)):
        quality = {"predicted_bits": bits, "modularity": -0.5 * hour, "bits_saved": -bits}
        model, horizon = "m@2" if hour == 4 else "m@1", hour + 1.5
        seen([HALVES], model=model, first=hour, to=everything, horizon=horizon, **quality)
    at = START + HOUR
    everything.announce(Announcement("promoted", "models", "better", "retrain", at, "m@2"))
    everything.announce(Announcement("kept", "models", "no drift", "retrain", START, "m@1"))
    everything.bury(letter("g", 1))
    everything.bury(letter("another graph", 2, at, message=""))
    tab = opened(everything, "?view=life", viewport={"width": 360, "height": 700})
    plot = tab.wait_for_selector("#life .plot[data-windows='4']")
    plot.wait_for_selector("canvas")
    assert plot.get_attribute("data-marks") == "kept, dead letters; m@2, promoted"
    lines = plot.get_attribute("data-lines").split(", ")
    assert {"horizon", "predicted on new edges"} <= set(lines)
    times = plot.get_attribute("data-times").split(", ")
    shown = [time[11:13] + time[24:] for time in times]
    assert shown == ["00 2", "01 2", "02 2", "03 null", "04 2"]
    assert tab.evaluate(OUTSIDE) == []
    assert number(tab, "horizon") == "5.5 windows"
    assert "Horizon: how many windows" in tab.locator("#life .note").inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.locator("body").press("4")
    assert "better" in tab.locator("#decisions").inner_text()
    assert "no edge" in tab.locator("#letters").inner_text()


def two_models(n: int) -> AllSeries:
    """Windows of one model, then of another, that the detector changed to."""
    *labels, half = *drifting(n), n // 2
    return seen(labels[half:], model="retrained@2", first=half, to=seen(half, model="gn@1"))


def test_an_archive_is_not_live_and_shows_all_its_windows_across_models(opened: Opened) -> None:
    _, address = opened.served(two_models(80), archive=True)
    tab = opened(address, "?span=30")
    tab.wait_for_selector("svg.flow[data-columns='30']")
    tab.wait_for_selector("#status[data-state=archive]")
    assert tab.locator("#status").inner_text() == "archive"
    assert tab.locator("[data-number=lag], [data-number=dead]").count() == 0
    assert "30 of 80 windows" in tab.locator("#flow .note").inner_text()
    tab.select_option("#span", "6000")
    tab.wait_for_selector("svg.flow[data-newest='79']:not([data-columns='30'])")
    assert "All 80 windows" in tab.locator("#flow .note").inner_text()
    (swap,) = tab.locator("svg.flow .swap").all()
    assert swap.get_attribute("data-model") == "retrained@2"
    assert tab.locator("#model option").all_inner_texts() == ["gn@1 → retrained@2"]
    tab.locator("body").press("4")
    tab.wait_for_selector("#models tbody tr")
    models = [row.split("\t")[::2] for row in tab.locator("#models tbody tr").all_inner_texts()]
    assert models == [["retrained@2", "40"], ["gn@1", "40"]]
    tab.locator("body").press("3")
    plot = tab.wait_for_selector("#life .plot[data-windows='80']")
    assert plot.get_attribute("data-marks") == "retrained@2"


TIMES = "[...document.querySelectorAll('svg.flow > text:not([class])')]"
LINES_OF_WORDS = """[...document.querySelectorAll("#event-table th, #event-table td.kind")]
  .filter((cell) => !cell.textContent.includes(" "))
  .map((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getClientRects().length;
  })"""
"""On how many lines each word stands, of those that could be broken into parts."""


def test_on_a_phone_long_names_are_broken_words_are_not_and_no_two_times_overlap(
    opened: Opened,
) -> None:
    phone = {"width": 360, "height": 700}
    attribute, value = "a" * 100, "v" * 100
    everything = named([value] * 30 + ["x"] * 30, attribute)
    tab = opened(seen([np.repeat([0, 1], 30)], to=everything), viewport=phone)
    tab.locator("svg.flow .label").first.click()
    sync_api.expect(tab.locator("#details")).to_be_in_viewport()
    tab.wait_for_selector(".composition td.over")
    tab.wait_for_selector("#held p")
    assert value[:30] in tab.locator("#held p").inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    _, address = opened.served(two_models(80))
    tab = opened(address, "?view=events", viewport=phone)
    tab.wait_for_selector("#event-table td.kind")
    assert set(tab.evaluate(LINES_OF_WORDS)) == {1}
    for width in (360, 1280):
        tab.set_viewport_size({"width": width, "height": 700})
        tab.goto(f"{address}?span=6000")
        # The page may draw anew at any time, so all times are asked for at once.
        wait_until(lambda: tab.evaluate(f"{TIMES}.length > 1"))
        boxes = tab.evaluate(f"{TIMES}.map((time) => time.getBoundingClientRect().toJSON())")
        assert all(left["right"] < right["left"] for left, right in pairwise(boxes))


def test_the_page_says_which_windows_it_shows_and_which_it_no_longer_has(opened: Opened) -> None:
    everything = seen(64, to=AllSeries(PageBudget(windows=61)))
    everything.add(window(1, [0, 1]), ORIGIN)
    view, address = opened.served(everything)
    tab = opened(address, f"?span=30&at={at(32)}")
    note = tab.locator("#flow .note")
    says(note, "30 of 61 windows")
    left_out = tab.locator("#left-out").inner_text()
    assert "oldest 3 windows are no longer in memory" in left_out
    assert "1 results came late" in left_out
    tab.goto(f"{address}?span=6000&at={at(32)}")
    says(note, "All 61 windows.")
    tab.goto(f"{address}?span=6000")
    says(note, "All 61 windows.")
    wait_until(lambda: len(view.fan_out) == 1)
    for hour in (64, 65):  # the oldest are dropped meanwhile
        publish(view, hour, HALVES)
    tab.wait_for_selector("svg.flow[data-newest='65']")
    assert "All 61 windows." in note.inner_text()
    tab.select_option("#span", "30")
    says(note, "30 of 61 windows")
    more = {"windows": 6000, "kept": 6101}
    tab.route("**/api/flow*", lambda route: route.fulfill(json={**route.fetch().json(), **more}))
    tab.select_option("#span", "6000")
    says(note, "6,000 of 6,101 windows. +")


def test_a_click_and_a_search_select_and_a_copied_link_opens_the_same(opened: Opened) -> None:
    _, address = opened.served(seen(6, horizon=2.5, predicted_bits=0.1))
    tab = opened(address, permissions=["clipboard-read", "clipboard-write"])
    for explained in ("horizon", "evidence", "lag"):
        number_shown = tab.locator(f"#numbers div:has([data-number={explained}])")
        assert number_shown.get_attribute("title")
    tab.locator("svg.flow .label").nth(1).click()
    tab.wait_for_selector("svg.following .band.chosen")
    assert "community=" in tab.url
    tab.locator("#copy").click()
    sync_api.expect(tab.locator("#copy")).to_have_text("copied")
    assert tab.evaluate("navigator.clipboard.readText()") == tab.url
    focused = "document.activeElement.matches(':focus-visible')"
    assert not tab.evaluate(focused), "a click draws no ring"
    tab.keyboard.press("Tab")
    assert tab.evaluate(focused)
    other = opened(address, f"?{tab.url.partition('?')[2]}")
    other.wait_for_selector("svg.following .band.chosen")
    assert other.locator("#details h2").inner_text() == tab.locator("#details h2").inner_text()
    tab.keyboard.press("/")
    tab.keyboard.type("7")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#past tbody tr")
    assert "In 6 of 6 windows" in tab.locator("#details").inner_text()
    aligned = "(head) => getComputedStyle(head).textAlign"
    assert tab.locator("#past th.number").evaluate(aligned) == "right"
    tab.get_by_role("button", name="clear").click()
    sync_api.expect(tab.locator("#details")).to_be_hidden()
    assert tab.locator("#node").input_value() == ""


LABELS = """[...document.querySelectorAll("svg.flow .label")].map((label) => {
  const of = (kind) => document.querySelector(`svg.flow .${kind}[data-id='${label.dataset.id}']`);
  const middle = new DOMPoint(+label.getAttribute("x"), +label.getAttribute("y") - 4);
  return {
    column: label.dataset.column, text: label.lastChild.data, leads: of("leader") !== null,
    inside: of("band").isPointInFill(middle), box: label.getBoundingClientRect().toJSON(),
  };
})"""


def test_where_a_label_stands_is_its_band_and_none_lies_on_another(opened: Opened) -> None:
    everything = AllSeries()
    rng = np.random.default_rng(1)
    for hour in range(20):
        sizes = [1, 2, 3, 5, 8, 200 if hour < 10 else 2, 60, 90, 1, 1, 2]
        labels = np.repeat(np.arange(len(sizes)), sizes)
        moved = rng.integers(0, len(labels), 3)
        labels[moved] = rng.integers(5, 8, 3)
        seen([labels], first=hour, to=everything)
    tab = opened(everything, viewport={"width": 1400, "height": 800})
    tab.wait_for_selector("svg.flow .label")
    labels = tab.evaluate(LABELS)
    for one, other in combinations([label["box"] for label in labels], 2):
        left, right = sorted((one, other), key=lambda box: box["x"])
        beside = left["x"] + left["width"] <= right["x"] + 1
        assert beside or abs(one["y"] - other["y"]) >= 0.8 * one["height"]
    for label in labels:
        assert label["box"]["y"] > 0
        assert (label["column"] is None) == label["leads"]
        assert label["inside"] or label["leads"], "the middle of each name lies in its band"
    large = next(label for label in labels if "(20" in label["text"])
    assert int(large["column"]) < 10, "it is named where it is widest, not at the end"


def test_names_of_the_window_that_is_shown_are_found_and_are_text(opened: Opened) -> None:
    everything = AllSeries()
    for hour, labels in enumerate(drifting(3)):
        first = "early" if hour == 0 else "late"
        names = [HOSTILE, " a\nb", first, *(f"node {n}" for n in range(57))]
        for model in ("a@1", "b\nb@1"):
            everything.add(window(hour, labels, names, model, graph=HOSTILE), ORIGIN)
    tab = opened(everything, f"?at={at(0)}")
    tab.wait_for_selector("svg.flow")
    node, names = tab.locator("#node"), "#names option{}".format
    node.press_sequentially("e")
    tab.wait_for_selector(names("[value=early]"), state="attached")
    node.fill(" a")
    tab.wait_for_selector(names(":not([value=early])"), state="attached")
    for typed, heading in ((" ab", r"a\u{a}b"), (HOSTILE, r"\u{1b}")):  # as the field takes them
        node.fill(typed)
        node.press("Enter")
        says(tab.locator("#details h2"), heading)
    for key in "2345":
        tab.locator("body").press(key)
        tab.wait_for_timeout(200)
    assert tab.evaluate("window.pwned") is None
    assert tab.locator("img").count() == 0
    tab.select_option("#model", index=1)
    wait_until(lambda: "model=b%0Ab" in tab.url)
    sync_api.expect(tab.locator("#trouble")).to_be_hidden()


MEMBERS_IN_DISCS = """() => {
  const { series } = echarts.getInstanceByDom(document.querySelector("#map .plot")).getOption();
  const discs = new Map(series[1].data.map(({ id, value }) => [id, value]));
  const members = series.find(({ type }) => type === "scatter").data;
  return members.every(({ id, value: [x, y] }) => {
    const [left, top, radius] = discs.get(id);
    return Math.hypot(x - left, y - top) <= radius;
  });
}"""


def test_members_lie_in_their_discs_whoever_else_looks_at_another_window(opened: Opened) -> None:
    everything = seen([np.arange(90) % k for k in (2, 9)])
    _, address = opened.served(everything)
    tab = opened(address, "?view=map")
    tab.wait_for_selector("#map .plot[data-discs='9'] canvas")
    other = opened(address, f"?view=map&at={at(0)}")
    other.wait_for_selector("#map .plot[data-discs='2'] canvas")
    tab.get_by_label("all members").check()
    tab.wait_for_selector("#map .plot[data-nodes='90']")
    assert tab.evaluate(MEMBERS_IN_DISCS)
    older = other.evaluate(f"fetch('api/members?community=all&at={at(0)}').then((a) => a.json())")
    tab.route("**/api/members*", lambda route: route.fulfill(json=older))
    tab.get_by_label("all members").uncheck()
    tab.get_by_label("all members").check()
    tab.wait_for_selector("#map .plot[data-nodes='0']")


def test_the_slider_moves_an_open_map_and_members_are_saved(opened: Opened, six: str) -> None:
    tab = opened(six, "?view=map&all=1&community=1")
    tab.wait_for_selector("#map .plot[data-number='5'][data-nodes='60'] canvas")
    assert tab.locator("#map label").all_inner_texts() == [" all members"]
    box, main = (tab.locator(one).bounding_box() for one in ("#details", "main"))
    assert box["x"] >= main["x"] + main["width"], "details stand at the right"
    tab.locator("#slider").focus()
    tab.keyboard.press("Home")
    tab.wait_for_selector("#map .plot[data-number='0'] canvas")
    assert tab.locator("#when").inner_text() == "2026-01-01"
    with tab.expect_download() as saved:
        tab.locator("#csv").click()
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[0] == "node"
    assert len(lines) == 16
    tab.get_by_role("button", name="play").click()
    tab.wait_for_selector("#map .plot[data-number='2'] canvas")
    tab.get_by_role("button", name="pause").click()


def test_nodes_with_places_are_shown_there_and_discs_at_will(opened: Opened) -> None:
    """A node without a community, as of a corrected snapshot without a result, chooses none."""
    tab = opened(seen(3), "?view=map&node=7", snapshots=Placed())
    tab.wait_for_selector("#map .plot[data-placed='59'][data-discs='0'] canvas")
    assert "Nodes without a known position: 1." in tab.locator("#map").inner_text()
    tab.get_by_label("positions").uncheck()
    tab.wait_for_selector("#map .plot[data-placed='0'][data-discs='4'] canvas")
    assert "discs=1" in tab.url
    lonely = {"nodes": ["new"], "ids": [-1], "x": [0.5], "y": [0.5], "frame": [0, 1, 0, 1]}
    tab.route(
        "**/api/places*",
        lambda route: route.fulfill(json={**route.fetch().json(), **lonely, "aspect": 1}),
    )
    tab.get_by_label("positions").check()
    plot = tab.wait_for_selector("#map .plot[data-placed='1'] canvas")
    box = plot.bounding_box()  # with the axes at the left and below, and 12 and 8 pixels beside
    middle = (box["width"] + 56 - 12) / 2, (box["height"] + 8 - 28) / 2
    tab.mouse.move(box["x"] + middle[0], box["y"] + middle[1])
    tab.mouse.click(box["x"] + middle[0], box["y"] + middle[1])
    tab.locator("body").press("1")
    tab.wait_for_selector("#flow svg.flow")
    assert "community=" not in tab.url


def test_keys_move_through_views_and_windows(opened: Opened, six: str) -> None:
    tab = opened(six, "?view=flows")  # there is none: the first one is shown
    tab.wait_for_selector("svg.flow")
    assert tab.locator("#tab-flow").get_attribute("aria-selected") == "true"
    wait_until(lambda: tab.locator("#slider").input_value() == "5")
    tab.locator("body").press("ArrowLeft")
    tab.wait_for_selector("svg.flow[data-newest='5'][data-here='4']")  # the future stays
    tab.locator("body").press("Escape")
    tab.wait_for_selector("svg.flow:not([data-here])")
    tab.get_by_role("button", name="light or dark").focus()
    for view in ("Flow", "Map", "Life", "Events", "Compare"):
        tab.keyboard.press("Tab")
        assert tab.evaluate("document.activeElement.textContent") == view
    tab.locator("body").press("3")
    tab.wait_for_selector("#life .plot[data-windows='6']:not([data-lines*=horizon]) canvas")
    assert tab.locator("[data-number=horizon]").count() == 0


def test_a_window_that_comes_while_an_answer_is_under_way_is_kept(opened: Opened) -> None:
    tab, view = opened.live(seen(5))
    held: list[Any] = []
    tab.route("**/api/life*", lambda route: held.append((route, route.fetch())))
    with tab.expect_request("**/api/life*"):
        tab.locator("body").press("3")
    tab.wait_for_selector("#life .plot[data-newest='4']")
    wait_until(lambda: held != [] or tab.wait_for_timeout(10))
    publish(view, 5, HALVES)
    tab.wait_for_selector("#life .plot[data-newest='5']")
    route, answer = held[0]
    with tab.expect_response("**/api/life*"):
        route.fulfill(response=answer)
    tab.locator("body").press("1")
    tab.wait_for_selector("svg.flow[data-newest='5']")
    assert number(tab, "nodes") == "4"


def test_a_correction_of_a_window_that_is_not_listed_is_not_the_newest(opened: Opened) -> None:
    everything = seen(6)
    tab, view = opened.live(everything)
    tab.route(
        "**/api/life*",
        lambda route: route.continue_(url=route.request.url.replace("last=6000", "last=3")),
    )
    tab.locator("body").press("3")
    tab.wait_for_selector("#life .plot[data-windows='3']")
    view.publish(News(name(), everything.windows(name(), 6)[0]))
    publish(view, 6, HALVES)
    tab.wait_for_selector("#life .plot[data-newest='6'][data-windows='4']")


def test_a_link_to_a_window_waits_for_it_and_keys_go_on_to_the_oldest(opened: Opened) -> None:
    """The link as after a restart of the server, which reads windows one after the other."""
    tab, view = opened.live(seen(2), f"?at={at(3)}")
    says(tab.locator("#flow"), "no longer in memory")
    for hour, labels in list(enumerate(drifting(4)))[2:]:
        publish(view, hour, labels)
    tab.wait_for_selector("svg.flow[data-here='3']")
    wait_until(lambda: tab.locator("#slider").get_attribute("max") == "3")
    for _ in range(4):
        tab.locator("body").press("ArrowLeft")
    tab.wait_for_selector("svg.flow[data-here='0'][data-newest='3']")
    assert tab.locator("#status").inner_text() == "looking at 2026-01-01"
    assert tab.url.endswith("at=2026-01-01T00%3A00%3A00Z")
    tab.locator("body").press("Escape")
    for hour in (4, 5):
        publish(view, hour, HALVES)
    tab.wait_for_selector("svg.flow[data-newest='5']")
    tab.locator("body").press("ArrowLeft")
    tab.wait_for_selector("svg.flow[data-here='4']")
    tab.get_by_role("button", name="back to live").click()
    tab.wait_for_selector("svg.flow:not([data-here])")
    assert tab.locator("#status").inner_text().startswith("live")


def test_graphs_that_are_chosen_one_after_the_other_do_not_mix(opened: Opened) -> None:
    tab, view = opened.live(seen(drifting(4, k=6), "b", to=seen(4, "a")), "?graph=a")
    tab.wait_for_selector("svg.flow")
    tab.evaluate(
        "() => { for (const graph of ['b', 'a', 'b']) { const choice ="
        " document.getElementById('graph'); choice.value = graph;"
        " choice.dispatchEvent(new Event('change')); } }"
    )
    wait_until(lambda: number(tab, "k") == "6")
    wait_until(lambda: list(view.fan_out._tabs.values()) == [name("b")])
    tab.select_option("#graph", "a")
    wait_until(lambda: number(tab, "k") == "4")
    wait_until(lambda: list(view.fan_out._tabs.values()) == [name("a")])

    held: list[Any] = []  # an answer about what was chosen before lists nothing
    tab.route("**/api/overview?graph=b*", lambda route: held.append(route))
    with tab.expect_request("**/api/overview?graph=b*"):
        tab.select_option("#graph", "b")
    with tab.expect_response("**/api/flow?graph=a*"):
        tab.go_back()
    overview = view.queries.overview({})
    of_b = [one for one in overview["series"] if one["graph"] == "b"]
    held[0].fulfill(json={**overview, "series": of_b})
    tab.evaluate("fetch('api/overview').then((later) => later.text())")
    assert tab.locator("#graph").input_value() == "a"


def test_a_graph_that_the_address_names_is_waited_for(opened: Opened) -> None:
    everything = seen(3, graph="a")
    view, address = opened.served(everything)
    view.queries.sources = sources = Given(Cliques(), False, read=False)
    tab = opened(address, "?graph=b&community=0")
    says(tab.locator("#flow"), "No results were seen yet")
    seen([HALVES], "b", to=everything)
    tab.wait_for_selector("svg.flow[data-newest='0']")
    assert tab.locator("#graph").input_value() == "b"
    assert "graph=b&" in tab.url
    assert "community=0" in tab.url
    sources.read = True
    tab = opened(address, "?graph=c")
    says(tab.locator("#flow"), "No results of graph c were seen")
    assert tab.locator("svg.flow").count() == 0
    tab.select_option("#graph", "a")
    tab.wait_for_selector("svg.flow")


def test_what_is_read_and_chosen_stays_while_windows_arrive(opened: Opened) -> None:
    tab, view = opened.live(seen(60), "?view=events&sure=all&kinds=continued,grown,shrunk")
    tab.wait_for_selector("#event-table tbody tr")
    wait_until(lambda: tab.evaluate("globalThis.echarts !== undefined"))  # then all is drawn
    tab.get_by_label("merged").focus()
    tab.evaluate("document.querySelector('#events .scroll').scrollTop = 200")
    *_, labels = drifting(61)
    publish(view, 60, labels)
    tab.wait_for_selector("#event-table td:has-text('2026-01-03 12:00:00') >> nth=0")
    assert tab.evaluate("document.querySelector('#events .scroll').scrollTop") == 200
    assert tab.evaluate("document.activeElement.parentElement.textContent") == " merged"
    tab.keyboard.press("1")
    tab.wait_for_selector("#flow svg.flow")


def test_a_second_series_appears_and_a_comparison_that_grows_is_one_chart(opened: Opened) -> None:
    everything = seen(4)
    view, address = opened.served(everything)
    tab = opened(address, "?view=compare")
    says(tab.locator("#compare"), "Only one series was seen")
    seen(4, origin="two", to=everything)
    tab.locator("#compare option", has_text="two").wait_for(state="attached")
    tab.goto(f"{address}?view=compare&origin={ORIGIN}&other_graph=g&other_origin=two")
    tab.wait_for_selector("#compare .plot[data-windows='4'] canvas")
    tab.evaluate("globalThis.first = document.querySelector('#compare canvas')")
    for origin in ("two", ORIGIN):
        publish(view, 4, HALVES, origin)
    tab.wait_for_selector("#compare .plot[data-windows='5'] canvas")
    assert tab.evaluate("document.querySelector('#compare canvas') === globalThis.first")


def test_a_restarted_server_is_found_again(tab: Any) -> None:
    everything = seen(4)
    with serving(View(queries(everything))) as address:
        tab.goto(address)
        tab.wait_for_selector("#status[data-state=live]")
    tab.wait_for_selector("#status[data-state=waiting]")
    tab.locator("body").press("4")
    sync_api.expect(tab.locator("#trouble")).to_have_text("the page's server does not answer")
    tab.locator("body").press("1")
    seen([HALVES], first=8, to=everything)
    with serving(View(queries(everything)), port=int(address.rsplit(":", 1)[1][:-1])):
        tab.wait_for_selector("svg.flow[data-newest='4']", timeout=20_000)
        sync_api.expect(tab.locator("#trouble")).to_be_hidden()


def test_a_tab_in_the_background_leaves_its_connection_to_others(opened: Opened) -> None:
    turn = (
        "(value) => { Object.defineProperty(document, 'hidden', { value, configurable: true });"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    everything = seen(4)
    tab, view = opened.live(everything)
    tab.evaluate(turn, True)
    wait_until(lambda: len(view.fan_out) == 0)
    seen([HALVES], first=4, to=everything)
    tab.evaluate(turn, False)
    tab.wait_for_selector("svg.flow[data-newest='4']")
    wait_until(lambda: len(view.fan_out) == 1)


def test_an_answer_that_does_not_come_is_said(opened: Opened, six: str) -> None:
    """As where six tabs of a browser are in view, each with one of its six connections."""
    tab = opened(six)
    tab.wait_for_selector("svg.flow")
    tab.clock.install()
    held: list[Any] = []
    tab.route("**/api/events*", lambda route: held.append(route))
    with tab.expect_request("**/api/events*"):
        tab.locator("body").press("4")
    tab.clock.fast_forward(10_000)
    trouble = tab.locator("#trouble")
    says(trouble, "more than five tabs of this browser")
    held[0].continue_()
    sync_api.expect(trouble).to_be_hidden()


def test_an_error_stays_as_long_as_what_was_asked(tab: Any, six: str) -> None:
    tab.goto(f"{six}?community=99999")
    trouble = tab.locator("#trouble")
    says(trouble, "has community 99999")
    tab.locator("body").press("Escape")
    sync_api.expect(trouble).to_be_hidden()

    held: list[Any] = []  # an answer for a selection that was cleared counts no longer
    tab.route("**/api/explain_community*", lambda route: held.append(route))
    with tab.expect_request("**/api/explain_community*"):
        tab.locator("body").press("ArrowUp")
    with tab.expect_response("**/api/flow*"):
        tab.locator("body").press("Escape")
    with tab.expect_response("**/api/explain_community*"):
        held[0].fulfill(status=409, body="too late\n")
    tab.evaluate("fetch('api/overview').then((later) => later.text())")
    sync_api.expect(trouble).to_be_hidden()

    # As from a server with a new token.
    tab.route("**/api/**", lambda route: route.fulfill(status=403, body="open the address\n"))
    tab.locator("body").press("2")
    sync_api.expect(trouble).to_have_text("open the address")


def test_what_cannot_be_answered_is_not_what_was_answered_before(tab: Any) -> None:
    with page_of(seen(6), snapshots=Cliques(kept_from=5)) as (_, address):
        tab.goto(f"{address}?node=7&community=0")
        wait_until(lambda: tab.locator("#slider").input_value() == "5")
        tab.wait_for_selector("#why")
        tab.wait_for_selector("#held")
        tab.locator("body").press("ArrowLeft")
        says(tab.locator("#trouble"), "no longer holds")
        sync_api.expect(tab.locator("#why, #held")).to_have_count(0)


def test_members_follow_the_map_of_their_window(tab: Any, six: str) -> None:
    held: list[Any] = []
    tab.route("**/api/map*", lambda route: route.continue_() if held else held.append(route))
    tab.goto(f"{six}?view=map&all=1")
    tab.wait_for_selector("#status[data-state=live]")
    wait_until(lambda: tab.locator("#slider").input_value() == "5")
    tab.locator("body").press("ArrowLeft")
    held[0].fulfill(status=409, body="too late\n")
    tab.wait_for_selector("#map .plot[data-number='4'][data-nodes='60']")


def test_a_graph_that_is_dropped_gives_way_and_one_that_is_not_listed_can_be_named(
    opened: Opened,
) -> None:
    everything = seen([HALVES], "old", to=AllSeries(PageBudget(windows=2)))
    seen([HALVES], "new", to=everything)
    tab = opened(everything, "?graph=old&community=1")
    tab.wait_for_selector("svg.flow")
    seen([HALVES], "new", first=1, to=everything)
    tab.wait_for_url("**graph=new*")
    tab.wait_for_selector("svg.flow[data-newest='1']")
    assert tab.locator("#graph").input_value() == "new"
    assert "community" not in tab.url

    many = AllSeries()
    for graph in range(_MOST_LISTED + 2):
        seen([HALVES], f"graph {graph}", to=many)
    last = f"graph {_MOST_LISTED + 1}"
    tab = opened(many, f"?graph={last}")
    tab.wait_for_selector("svg.flow")
    assert tab.locator("#graph").input_value() == last
    assert tab.locator("#left-out").inner_text().startswith("1 series are not listed")
    tab.select_option("#graph", "graph 42")
    tab.wait_for_url("**graph=graph+42*")


def test_one_community_and_more_than_a_call_takes_arguments_are_drawn(opened: Opened) -> None:
    tab = opened(seen([[0] * 60] * 2))
    tab.wait_for_selector("svg.flow[data-newest='1']")
    tab.locator("body").press("2")
    tab.wait_for_selector("#map .plot[data-discs='1'] canvas")
    discs = [{"id": id, "size": 1, "x": id % 400, "y": id // 400, "r": 1} for id in range(130_000)]
    tab.route(
        "**/api/map?*",
        lambda route: route.fulfill(json={**route.fetch().json(), "communities": discs}),
    )
    tab.locator("body").press("ArrowLeft")
    tab.wait_for_selector("#map .plot[data-discs='130000'] canvas")


def test_a_report_opens_without_a_network_and_in_a_frame(opened: Opened, tmp_path: Path) -> None:
    everything = seen([np.repeat(np.arange(60), 3)] * 5)
    report = Report(queries(everything, archive=True), name())
    out = report.write_html(tmp_path / "report.html")
    tab = opened(f"file://{out}", offline=True)
    tab.wait_for_selector("svg.flow[data-newest='4']")
    for key, shows in (("2", "#map canvas"), ("3", "#life canvas"), ("4", "#event-table tr")):
        tab.locator("body").press(key)
        tab.wait_for_selector(shows)
    assert tab.get_by_label("shrunk").count() == 1
    assert tab.get_by_label("continued").count() == 0  # a report does not hold them
    keys = tab.locator("footer").inner_text()
    assert keys.startswith("Keys: 1 to 4 choose a view, / searches, ↑")
    tab.locator("body").press("5")  # nor a second series
    assert tab.locator("#event-table").is_visible()
    tab.fill("#node", "7")
    tab.press("#node", "Enter")
    tab.wait_for_selector("#past tbody tr")

    tab = opened("data:text/html,<iframe width=1200 height=900></iframe>")
    tab.evaluate("(page) => { document.querySelector('iframe').srcdoc = page; }", out.read_text())
    framed = tab.frame_locator("iframe")
    framed.locator("svg.flow[data-newest='4']").wait_for()
    assert "double-click" not in framed.locator("#flow .note").inner_text()
    framed.locator("#tab-events").click()
    framed.locator("#event-table .community", has_text="59").first.click()
    says(framed.locator("#details h2"), "community 59: no band in these 5 columns")


def fills(tab: Any) -> dict[str, str]:
    """The colour of each band."""
    found: dict[str, str] = tab.evaluate(
        "Object.fromEntries([...document.querySelectorAll('svg.flow .band')]"
        ".map((band) => [band.dataset.id, band.getAttribute('fill')]))"
    )
    return found


def test_whoever_opens_a_link_later_sees_the_same_window_in_the_same_colours(
    opened: Opened,
) -> None:
    everything = seen(drifting(12, k=6), to=AllSeries(PageBudget(windows=12)))
    _, address = opened.served(everything)
    tab = opened(address)
    tab.wait_for_selector("svg.flow .band")
    wait_until(lambda: tab.locator("#slider").input_value() == "11")
    for _ in range(3):
        tab.locator("body").press("ArrowLeft")
    tab.wait_for_selector("svg.flow[data-here='8']")
    link, colours, shown = tab.url, fills(tab), number(tab, "start")
    seen([[0] * 30 + [1] * 30] * 4, first=12, to=everything)  # the oldest are dropped
    other = opened(address, f"?{link.partition('?')[2]}")
    other.wait_for_selector("svg.flow[data-here='8']")
    assert number(other, "start") == shown == "2026-01-01 08:00:00"
    same = colours.keys() & fills(other).keys()
    assert {one: fills(other)[one] for one in same} == {one: colours[one] for one in same}


def test_names_colour_communities_and_a_node_is_explained_in_words(opened: Opened) -> None:
    everything = named(["PC"] * 30 + ["MP"] * 30, graph="g")
    seen([np.repeat([0, 1], 30)] * 3, to=everything)
    seen([np.repeat([0, 1, 2], 20)] * 3, "no classes", to=everything)
    tab = opened(everything, "?graph=g&community=1&node=45")
    tab.wait_for_selector("#why p")
    why = tab.locator("#why p").first.inner_text()
    assert why.startswith("Node 45 is in community 1 (MP, 30 of")
    tab.wait_for_selector("#held p")
    assert tab.locator("#held p").inner_text().startswith("Community 1 (MP, 30 of 30) has 30")
    assert "MP (30)" in " ".join(tab.locator("svg.flow .label").all_text_contents())
    assert tab.locator(".composition td.over").first.inner_text() == "MP"
    tab.select_option("#by", "class")
    wait_until(lambda: "by=class" in tab.url)
    sync_api.expect(tab.locator("#legend")).to_have_text("MP (30)PC (30)")
    wait_until(lambda: "#b8bdc2" not in fills(tab).values())
    coloured = fills(tab)
    assert len(set(coloured.values())) == 2
    tab.select_option("#graph", "no classes")
    tab.wait_for_selector("svg.flow .band[data-id='2']:not([fill='#b8bdc2'])")
    sync_api.expect(tab.locator("#by-label")).to_be_hidden()
    tab.select_option("#graph", "g")
    wait_until(lambda: tab.locator("svg.flow .band").count() == 2)
    wait_until(lambda: fills(tab) == coloured)


def test_a_value_has_one_colour_and_the_rest_is_grey_and_counted(opened: Opened) -> None:
    """Twelve classes, of which nine have a colour; node 1 is of another than its community."""
    classes = [f"class {n // 5:02}" for n in range(60)]
    classes[1] = "class 11"
    everything = seen([np.arange(60) // 5] * 3, to=named(classes, graph="g"))
    seen([np.arange(60) // 5] * 3, "school", to=everything)
    _, address = opened.served(everything)
    tab = opened(address, "?graph=g&by=class&view=map&all=1")
    tab.wait_for_selector("#map .plot[data-nodes='60'] canvas")
    legend = tab.locator("#legend")
    says(legend, "class 11 (6)")
    says(legend, "other values (14)")
    colours = tab.evaluate(
        "[...document.querySelectorAll('#legend .swatch')].map((one) => one.style.background)"
    )
    assert len(colours) == len(set(colours)) == 10
    inside = tab.evaluate(
        "fetch('api/members?graph=g&community=all&by=class').then((found) => found.json())"
    )
    assert inside["values"][1] == "class 11"
    tab.goto(f"{address}?graph=school&by=class")
    tab.wait_for_selector("svg.flow")
    sync_api.expect(legend).to_be_hidden()


def test_the_page_says_why_nothing_comes_and_what_to_run(opened: Opened) -> None:
    view, address = opened.served(AllSeries())
    away = {"icd.snapshots.v1": "no broker listens on 127.0.0.1:9092"}
    view.queries.sources = sources = Given(Cliques(), False, away)
    flow = opened(address).locator("#flow")
    says(flow, "No broker answers: run stream-icd broker")
    sources.trouble = {}
    says(flow, "run stream-icd produce gn")
    detect = "no detector is at work: run stream-icd consume detect"
    sources.there = True  # the embedded broker does not say how many
    says(flow, f"Snapshots are there, and {detect}")
    sources.waiting = 3
    says(flow, f"3 snapshots wait, and {detect}")

    view, address = opened.served(seen(3))
    view.queries.sources = sources = Given(Cliques(), False, waiting=4, sent=START)
    status = opened(address).locator("#status")
    since = "nothing new since 2026-01-01"
    says(status, f"{since}: 4 snapshots wait, and no detector is at work")
    assert status.get_attribute("data-state") == "still"
    sources.trouble = away
    says(status, f"{since}: the broker does not answer", timeout=10_000)


def test_times_are_those_of_the_chosen_zone_and_a_window_has_one_date(opened: Opened) -> None:
    view, address = opened.served(seen(3))
    view.queries.zone = "Europe/Paris"
    tab = opened(address, "?view=events&sure=all&kinds=continued")
    tab.wait_for_selector("#event-table tbody tr")
    listed = tab.locator("#event-table tbody tr td").first
    assert number(tab, "start") == listed.inner_text() == "2026-01-01 03:00:00"
    assert tab.locator("#when").inner_text() == "2026-01-01 03:00:00"
    tab.select_option("#zone", "UTC")
    sync_api.expect(listed).to_have_text("2026-01-01 02:00:00")
    assert "zone=UTC" in tab.url


def merged_at_3(n: int = 9) -> AllSeries:
    """Windows of two communities, which are one from the fourth window on."""
    return seen([np.repeat([0, 1], 30)] * 3 + [[0] * 60] * (n - 3))


def test_the_last_events_stand_above_the_flow_and_lead_to_their_window(opened: Opened) -> None:
    tab = opened(merged_at_3())
    tab.wait_for_selector("#headlines")
    (headline,) = tab.locator("#headlines button").all()
    said = "community 1 (30 nodes) joined community 0; still together 3 hours later"
    assert headline.inner_text() == f"2026-01-01 03:00:00: {said}"
    headline.click()
    tab.wait_for_selector("svg.flow.following[data-here='3']")
    assert tab.locator("#details h2").inner_text() == "community 0"
    tab.locator("body").press("4")
    newest = tab.locator("#event-table tbody tr").first
    says(newest, "merged")
    assert "\t".join(said.split("; ")) in newest.inner_text()
    tab = opened(merged_at_3(5), "?view=events&kinds=merged")
    says(tab.locator("#hidden-events"), "1 event is hidden: ")
    tab.locator("body").press("1")
    tab.wait_for_selector("svg.flow")
    says(tab.locator("#flow"), "1 mark is hidden: ")
    assert tab.locator("#headlines").count() == 0


def saved_picture(tab: Any, kind: str) -> Path:
    """Click the button of this kind; return the file that the browser saved."""
    with tab.expect_download() as saved:
        tab.locator(f"#{kind}").click()
    assert saved.value.suggested_filename.endswith(f".{kind}")
    return Path(saved.value.path())


SAVED = {
    "flow": "2026-01-01",  # on the axis
    "map&all=1": "MP",  # in a disc
    "life": "communities (K)",
    "compare&other_origin=two": "communities here",
}


def test_the_picture_that_is_shown_is_saved_with_its_labels(opened: Opened) -> None:
    classes = ["PC", "PC", "MP", "MP"] * 15
    everything = seen(4, origin="two", to=seen(4, to=named(classes, graph="g")))
    _, address = opened.served(everything)
    tab = opened(address, color_scheme="dark")
    for view, label in SAVED.items():
        tab.goto(f"{address}?origin={ORIGIN}&other_graph=g&by=class&view={view}")
        name = view.partition("&")[0]
        nodes = "[data-nodes='60']" if name == "map" else ""
        picture = f"#{name} :is(svg.flow, .plot{nodes} canvas)"
        tab.wait_for_selector(picture)
        sync_api.expect(tab.locator("#legend")).to_be_visible()
        box = tab.evaluate(f"document.querySelector({picture!r}).getBoundingClientRect()")
        drawing = ElementTree.parse(saved_picture(tab, "svg"))
        texts = {
            "".join([text.text or "", *(inside.tail or "" for inside in text)])
            for text in drawing.iter(f"{SVG}text")
        }
        when = "2026-01-01 03:00:00" if name == "map" else "2026-01-01 to 2026-01-01 03:00:00"
        assert {f"g: {name}, {when} (UTC)", "PC (30)", "MP (30)", label} <= texts
        if name == "flow":
            names = tab.locator("svg.flow .label").evaluate_all(
                "(labels) => labels.map((label) => label.lastChild.data)"
            )
            assert set(names) <= texts
            assert all(path.get("fill-opacity") for path in drawing.iter(f"{SVG}path"))
        size = drawing.getroot().attrib
        width, height = int(size["width"]), int(size["height"])
        assert abs(width - box["width"]) <= 1
        assert 0 < height - box["height"] <= 80  # the title and the legend
        pixels = image.imread(saved_picture(tab, "png"), "png")
        assert pixels.shape[:2] == (2 * height, 2 * width)
        assert len({bytes(one) for one in pixels[::8, ::8].reshape(-1, pixels.shape[2])}) > 20
    tab.locator("body").press("4")
    sync_api.expect(tab.locator("#png")).to_be_hidden()


PANELS = ("flow", "map", "map&all=1", "life", "events&sure=all&kinds=continued,grown", "compare")


def test_axe_finds_nothing_serious_in_any_panel(opened: Opened) -> None:
    """With the details of a community and a node open, and an event in sight.

    The dark page differs in its colours only.
    """
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    ).Axe()
    schemes = {
        "light": {"resultTypes": ["violations"]},
        "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},
    }
    everything, found = seen(6), []
    for origin in ("one", "two"):
        everything.add(window(7, [0, 0, 0, 1, 1, 1]), origin)
    _, address = opened.served(everything)
    for panel in PANELS:
        tab = opened(address, f"?community=1&node=7&view={panel}", color_scheme="light")
        for scheme, rules in schemes.items():
            tab.emulate_media(color_scheme=scheme)
            tab.wait_for_selector(f"html[data-theme={scheme}] #details:not([hidden])")
            tab.wait_for_selector("section:not([hidden]) > *", state="attached")
            broken = axe.run(tab, options=rules).response["violations"]
            found += [
                (panel, scheme, one["id"], node["target"], node["failureSummary"])
                for one in broken
                if one["impact"] in ("serious", "critical")
                for node in one["nodes"]
            ]
        tab.close()
    assert found == []
