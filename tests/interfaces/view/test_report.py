"""A report holds everything, asks for nothing, and shows names as text."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import BadSettings, SourceNotFound, StoreUnwritable
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.panels.details import node_past
from stream_icd.interfaces.view.pictures import flow_picture, life_picture, map_picture
from stream_icd.interfaces.view.report import (
    bundle,
    kept_answers,
    left_out,
    node_spans,
    one_file,
    read_archive,
    write_html,
    write_pictures,
)
from stream_icd.interfaces.view.web.page_files import page_files
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.interfaces.view.windows import (
    ORIGIN,
    Cliques,
    Nowhere,
    drifting,
    name,
    queries,
    renamed,
    seen,
)
from tests.testbed.windows import window

HOSTILE = "</script><script>alert(1)</script><!--{a|b}"


class Parsed(HTMLParser):
    """Elements of a page, with their attributes and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._inside: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = dict(attrs) if tag in ("script", "style") else None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.scripts.append((self._inside, data))
            self._inside = None


def report(everything: AllSeries, graph: str = "g", snapshots: Any = None) -> str:
    asked = queries(everything, snapshots or Cliques())
    return one_file(kept_answers(asked, name(graph=graph)), graph)


def kept(page: str) -> dict[str, Any]:
    (text,) = [text for attributes, text in Parsed(page).scripts if "id" in attributes]
    return dict(json.loads(text))


def test_a_report_asks_for_nothing() -> None:
    page = Parsed(report(seen(4)))
    for tag, attributes in page.elements:
        for link in ("src", "href"):
            assert (attributes.get(link) or "data:").startswith("data:"), (tag, attributes)


def test_only_its_own_scripts_and_styles_may_run() -> None:
    page = Parsed(report(seen(4)))
    policy = next(a["content"] or "" for t, a in page.elements if a.get("http-equiv"))
    digests = set(re.findall(r"'sha256-([^']+)'", policy))
    run = [text for attributes, text in page.scripts if "type" not in attributes]
    assert len(run) == 3  # the style, the library, the page
    assert digests == {
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run
    }
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_hostile_names_stay_data() -> None:
    names = pa.array([HOSTILE, *(f"node {n}" for n in range(59))])
    plain, page = report(seen(3)), report(seen(3, graph=HOSTILE, names=names), HOSTILE)
    assert [t for t, _ in Parsed(page).elements] == [t for t, _ in Parsed(plain).elements]
    assert kept(page)["overview"]["series"][0]["graph"] == HOSTILE
    assert HOSTILE in kept(page)["nodes"]


def test_a_report_holds_what_the_page_asks_for() -> None:
    everything = seen(5)
    answers = kept(report(everything))
    asked = queries(everything)
    assert answers["life"] == json.loads(json.dumps(asked.life({})))
    assert answers["flow"]["columns"] == json.loads(json.dumps(asked.flow({})["columns"]))
    assert len(answers["members"]["nodes"]) == 60
    source = page_files()["source.js"].content.decode() + page_files()["main.js"].content.decode()
    questions = set(re.findall(r'(?:ask|question)\("(\w+)"', source))
    assert questions <= {*answers, "node"}


def test_a_report_without_graphs_says_why() -> None:
    answers = kept(report(seen(3), snapshots=Nowhere()))
    assert answers["members"] is None
    assert "no longer holds" in answers["map"]["trouble"]


def test_the_past_of_every_node_is_that_of_the_search() -> None:
    everything = AllSeries()
    rng = np.random.default_rng(1)
    for hour, labels in enumerate(drifting(12)):
        there = np.sort(rng.choice(60, 45, replace=False))
        _, compact = np.unique(labels[there], return_inverse=True)
        everything.add(renamed(window(hour, compact, there), "g"), ORIGIN)
    windows = everything.windows(name(), 100)
    spans = node_spans(windows)
    assert spans is not None
    for node in range(60):
        past = node_past(windows, str(node), {})["spans"]
        assert [[one["id"], one["from"], one["to"]] for one in past] == spans[str(node)]


def test_all_modules_are_in_the_bundle_before_those_that_need_them() -> None:
    script = bundle()
    ours = {path.removesuffix(".js") for path in page_files() if re.fullmatch(r"\w+\.js", path)}
    order = re.findall(r"^const module_(\w+) = ", script, re.MULTILINE)
    assert set(order) == ours
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    for at, module in enumerate(order):
        text = page_files()[f"{module}.js"].content.decode()
        assert set(re.findall(r'from "\./(\w+)\.js"', text)) <= set(order[:at])
    assert "</script" not in script
    assert "</script" not in page_files()["vendor/echarts-6.1.0.min.js"].content.decode()


@pytest.fixture
def archive(disk: Store) -> Store:
    """Results and snapshots of a graph, archived."""
    everything, to = AllSeries(), Archive(disk)
    for hour, labels in enumerate(drifting(4)):
        communities = renamed(window(hour, labels), "g")
        to.add("communities", encode_communities(communities))
        news = everything.add(communities, ORIGIN)
        assert news is not None
        to.add("snapshots", encode_snapshot(Cliques().read(news.window)))
    return disk


def test_the_command_writes_one_file(archive: Store, tmp_path: Path) -> None:
    out = tmp_path / "reports" / "g.html"
    done = CliRunner().invoke(app, ["report", "--history", archive.uri, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert [path.name for path in out.parent.iterdir()] == ["g.html"]
    assert kept(out.read_text(encoding="utf-8"))["life"]["columns"]["number"] == [0, 1, 2, 3]


def test_the_command_writes_pictures(archive: Store, tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    arguments = ["report", "--history", archive.uri, "--format", "png", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {"flow.png", "map.png", "life.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.iterdir())


def test_pictures_are_xml_whatever_the_names(tmp_path: Path) -> None:
    hostile = f"\x00\x1b\n{HOSTILE}"
    written = write_pictures(queries(seen(3, graph=hostile)), name(hostile), tmp_path, "svg")
    for path in written:
        ElementTree.parse(path)
    assert len(written) == 3


@pytest.mark.parametrize(("form", "taken"), [("svg", "a file"), ("html", "a folder")])
def test_what_cannot_be_written_is_said(
    archive: Store, tmp_path: Path, form: str, taken: str
) -> None:
    out = tmp_path / taken
    if taken == "a file":
        out.touch()
    else:
        out.mkdir()
    command = ["report", "--history", archive.uri, "--format", form, "--out", str(out)]
    with pytest.raises(StoreUnwritable, match=f"cannot write {out}: "):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_a_full_disk_leaves_no_part_of_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def savefig(_: Figure, path: Path, **options: object) -> None:  # noqa: ARG001
        path.write_bytes(b"part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", savefig)
    with pytest.raises(StoreUnwritable, match="No space left on device"):
        write_pictures(queries(seen(3)), name(), tmp_path / "pictures", "png")
    assert list((tmp_path / "pictures").iterdir()) == []


def test_pictures_mark_another_model_and_say_how_many_windows_they_show() -> None:
    everything = AllSeries()
    for hour, labels in enumerate(drifting(40)):
        model = "gn@1" if hour < 15 else "$re_trained@1"
        everything.add(window(hour, labels, model=model), ORIGIN)
    windows = everything.windows(name(), 99)
    (flow,) = flow_picture(windows).axes
    assert "(21 of 40 windows)" in flow.get_title(loc="left")
    for axes in (flow, life_picture(windows).axes[0]):
        assert [text.get_text() for text in axes.texts if "trained" in text.get_text()] == [
            " $re_trained@1"
        ]
    (flow,) = flow_picture(windows[:15]).axes
    assert "windows" not in flow.get_title(loc="left")


def test_pictures_have_names_and_say_times_in_the_chosen_zone() -> None:
    classes = attributes_of(pa.array(range(60)), {"class": ["PC"] * 30 + ["MP"] * 30})
    everything = AllSeries(naming=Naming({None: classes}))
    for hour in (0, 1, 4, 5):
        everything.add(window(hour, np.repeat([0, 1], 30)), ORIGIN)
    windows = everything.windows(name(), 9)
    figure = flow_picture(windows, ZoneInfo("Europe/Paris"))
    (axes,) = figure.axes
    assert {"PC", "MP"} <= {text.get_text() for text in axes.texts}
    assert axes.get_xticklabels()[0].get_text() == "2026-01-01\n01:00"
    assert "2026-01-01 01:00 to 2026-01-01 06:00 Europe/Paris" in axes.get_title(loc="left")
    drawn = queries(everything).map(name()._asdict())
    (axes,) = map_picture(drawn, None).axes
    assert {text.get_text() for text in axes.texts} == {"PC", "MP"}
    count, *_ = life_picture(windows).axes
    assert np.isnan(count.lines[0].get_ydata()).sum() == 1, "a gap ends the line"


def test_a_graph_must_be_chosen_among_several(archive: Store) -> None:
    to = Archive(archive)
    to.add("communities", encode_communities(renamed(window(0, [0, 1]), "other\x1b")))
    with pytest.raises(BadSettings, match=r"--graph: g, other\\x1b"):
        read_archive(archive)
    assert read_archive(archive, Selection(graph="g"))[1].graph == "g"
    with pytest.raises(BadSettings, match="has no results of model as; it has: m"):
        read_archive(archive, Selection("communities", "g"), "as")
    with pytest.raises(BadSettings, match="no communities of graph h"):
        read_archive(archive, Selection("communities", "h"))


@pytest.fixture
def swapped(disk: Store) -> Store:
    """Six windows: three of the model gn, then three of one that was learned; and a rival's."""
    to = Archive(disk)
    for hour, labels in enumerate(drifting(6)):
        for model in ("gn@1" if hour < 3 else "retrained@1", *(["rival@1"] if hour > 1 else [])):
            to.add(
                "communities", encode_communities(renamed(window(hour, labels, model=model), "g"))
            )
    return disk


def test_a_report_shows_the_windows_of_all_models_and_says_what_it_leaves_out(
    swapped: Store, tmp_path: Path
) -> None:
    out = tmp_path / "g.html"
    done = CliRunner().invoke(app, ["report", "--history", swapped.uri, "--out", str(out)])
    assert done.exit_code == 0, done.output
    said = "Results of rival@1 left out: 4. Another model detected the same windows"
    assert said in done.output
    answers = kept(out.read_text(encoding="utf-8"))
    assert answers["life"]["columns"]["model"] == ["gn@1"] * 3 + ["retrained@1"] * 3
    assert answers["life"]["columns"]["model_before"][3] == "gn@1"
    assert answers["overview"]["left_out"][0].startswith(said)
    assert answers["overview"]["archive"] is True


@pytest.mark.parametrize(
    ("model", "windows"), [("gn", [0, 1, 2]), ("retrained@1", [0, 1, 2]), ("rival", [0, 1, 2, 3])]
)
def test_a_report_of_one_model(swapped: Store, model: str, windows: list[int]) -> None:
    asked, series = read_archive(swapped, model=model)
    assert [one.number for one in asked.seen.windows(series, 99)] == windows
    assert left_out(asked, series) == []


def test_a_report_says_which_windows_are_too_many_for_it(
    archive: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_icd.interfaces.view.report.MOST_WINDOWS", 3)
    (said,) = left_out(*read_archive(archive))
    assert said.startswith("Windows left out at the beginning: 1.")


def test_an_archive_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        read_archive(open_store(str(tmp_path / "nothing")))


def test_a_report_replaces_an_older_one_at_once(archive: Store, tmp_path: Path) -> None:
    out = tmp_path / "g.html"
    out.write_text("old")
    write_html(*read_archive(archive), out)
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
