"""A report holds everything, asks for nothing, and shows names as text."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import BadSettings, SourceNotFound, StoreUnwritable
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.pictures import pictures_of
from stream_icd.interfaces.view.report import Report
from stream_icd.interfaces.view.web.page_files import page_files
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.interfaces.view.windows import (
    NOWHERE,
    ORIGIN,
    Cliques,
    Placed,
    drifting,
    name,
    named,
    queries,
    seen,
)
from tests.testbed.windows import window

HOSTILE = "</script><script>alert(1)</script><!--{a|b}"


class Page(HTMLParser):
    """Elements of a page, with their attributes and the text of scripts and styles."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str | None, str] = {}  # of scripts and styles, by their ids or texts
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.elements[-1] if self.elements else ("", {})
        if tag in ("script", "style") and data.strip():
            self.texts[attributes.get("id") or data] = data

    @property
    def kept(self) -> dict[str, Any]:
        """The answers that the page holds."""
        return dict(json.loads(self.texts["kept"]))


Written = Callable[..., Page]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """`written(series)`: the report of a graph."""

    def write(everything: AllSeries, graph: str = "g", snapshots: Any = None) -> Page:
        report = Report(queries(everything, snapshots), name(graph=graph))
        return Page(report.write_html(tmp_path / "report.html"))

    return write


def test_a_report_asks_for_nothing_and_names_in_it_stay_data(written: Written) -> None:
    page = written(seen(3))
    for tag, attributes in page.elements:
        for link in ("src", "href"):
            assert (attributes.get(link) or "data:").startswith("data:"), (tag, attributes)
    policy = next(a["content"] or "" for t, a in page.elements if a.get("http-equiv"))
    runs = [text for id, text in page.texts.items() if id != "kept"]
    assert len(runs) == 3, "the style, the library, and the modules of the page as one script"
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in runs}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert "default-src 'none'" in policy
    assert not re.search("unsafe|http", policy)
    names = pa.array([HOSTILE, *(f"node {n}" for n in range(59))])
    hostile = written(seen(3, graph=HOSTILE, names=names), HOSTILE)
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in page.elements]
    assert hostile.kept["overview"]["series"][0]["graph"] == HOSTILE
    assert HOSTILE in hostile.kept["nodes"]


def test_a_report_holds_what_the_page_asks_for(written: Written) -> None:
    everything = seen([np.arange(60) % 3] * 3, to=named(["PC", "MP", "2BIO"] * 20))
    answers, asked = written(everything, snapshots=Placed()).kept, queries(everything, Placed())
    assert answers["life"] == json.loads(json.dumps(asked.life({})))
    assert answers["flow"]["columns"] == json.loads(json.dumps(asked.flow({})["columns"]))
    assert answers["flow"]["names"]["1"]["text"] == "MP, 20 of 20"
    assert answers["composition"]["2"]["attributes"]["class"][0]["members"] == 20
    assert answers["places"] == json.loads(json.dumps(asked.places({})))
    assert len(answers["members"]["nodes"]) == 60
    source = page_files()["source.js"].content.decode() + page_files()["main.js"].content.decode()
    questions = set(re.findall(r'(?:ask|question)\("(\w+)"', source))
    assert questions <= {*answers, "node"}
    without = written(seen(3), snapshots=NOWHERE).kept
    assert without["members"] is without["places"] is None
    assert "no longer holds" in without["map"]["trouble"]


def test_the_past_of_every_node_is_that_of_the_search(written: Written) -> None:
    everything = AllSeries()
    rng = np.random.default_rng(1)
    for hour, labels in enumerate(drifting(12)):
        there = np.sort(rng.choice(60, 45, replace=False))
        _, compact = np.unique(labels[there], return_inverse=True)
        everything.add(window(hour, compact, there), ORIGIN)
    asked, spans = queries(everything), written(everything).kept["nodes"]
    for node in map(str, range(60)):
        past = asked.node({"node": node})["spans"]
        assert [[span["id"], span["from"], span["to"]] for span in past] == spans[node]


@pytest.fixture
def archive(disk: Store) -> Store:
    """Results and snapshots of a graph, archived."""
    everything, to = AllSeries(), Archive(disk)
    for hour, labels in enumerate(drifting(4)):
        communities = window(hour, labels)
        to.add("communities", encode_communities(communities))
        seen_window = everything.add(communities, ORIGIN).window
        to.add("snapshots", encode_snapshot(Cliques().read(seen_window)))
    return disk


def command(archive: Store, out: Path, form: str = "html") -> Result:
    arguments = ["report", "--history", archive.uri, "--format", form, "--out", str(out)]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_the_command_replaces_an_older_report_or_writes_pictures(
    archive: Store, tmp_path: Path
) -> None:
    out = tmp_path / "reports" / "g.html"
    out.parent.mkdir()
    out.write_text("old")
    assert command(archive, out).exit_code == 0
    assert [path.name for path in out.parent.iterdir()] == ["g.html"]
    assert Page(out).kept["life"]["columns"]["number"] == [0, 1, 2, 3]
    assert command(archive, pictures := tmp_path / "pictures", "png").exit_code == 0
    assert {path.name for path in pictures.iterdir()} == {"flow.png", "map.png", "life.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures.iterdir())


def test_what_cannot_be_written_is_said_and_a_full_disk_leaves_no_part(
    archive: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "a folder").mkdir()
    for form, taken in (("svg", "a file"), ("html", "a folder")):
        with pytest.raises(StoreUnwritable, match=f"cannot write {tmp_path / taken}: "):
            command(archive, tmp_path / taken, form)

    def savefig(_: Figure, path: Path, **options: object) -> None:  # noqa: ARG001
        path.write_bytes(b"part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", savefig)
    with pytest.raises(StoreUnwritable, match="No space left on device"):
        command(archive, tmp_path / "pictures", "png")
    assert list((tmp_path / "pictures").iterdir()) == []


def test_pictures_are_xml_whatever_the_names_and_show_places(tmp_path: Path) -> None:
    hostile = f"\x00\x1b\n{HOSTILE}"
    for snapshots in (Cliques(), Placed()):
        report = Report(queries(seen(3, graph=hostile), snapshots), name(hostile))
        paths = {path.stem: path for path in report.write_pictures(tmp_path, "svg")}
        assert set(paths) == {"flow", "map", "life"}
        for path in paths.values():
            ElementTree.parse(path)
        has_places = "longitude" in paths["map"].read_text(encoding="utf-8")
        assert has_places == isinstance(snapshots, Placed)


def drawn(everything: AllSeries, n: int = 99, **options: Any) -> dict[str, Figure]:
    """The pictures of the first n windows."""
    asked = queries(everything)
    return pictures_of(everything.windows(name(), 99)[:n], asked.map({}), **options)


def test_pictures_have_names_times_in_the_chosen_zone_and_marks_of_another_model() -> None:
    everything, halves = named(["PC"] * 30 + ["MP"] * 30), np.repeat([0, 1], 30)
    for first, n, model in ((0, 15, "gn@1"), (17, 25, "$re_trained@1")):
        seen([halves] * n, model=model, first=first, to=everything)
    pictures = drawn(everything, zone=ZoneInfo("Europe/Paris"))
    flow, by_map, life = (pictures[kind].axes[0] for kind in ("flow", "map", "life"))
    assert {"PC", "MP"} <= {text.get_text() for text in flow.texts}
    assert {text.get_text() for text in by_map.texts} == {"PC", "MP"}
    assert flow.get_xticklabels()[0].get_text() == "2026-01-01\n01:00"
    title = flow.get_title(loc="left")
    assert "2026-01-01 01:00 to 2026-01-02 18:00 Europe/Paris" in title
    assert "(21 of 40 windows)" in title
    assert "windows" not in drawn(everything, 15)["flow"].axes[0].get_title(loc="left")
    assert np.isnan(life.lines[0].get_ydata()).sum() == 1, "a gap ends the line"
    for axes in (flow, life):
        marks = [text.get_text() for text in axes.texts if "trained" in text.get_text()]
        assert marks == [" $re_trained@1"]


def test_what_is_not_in_the_archive_or_not_chosen_is_said(archive: Store, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        Report.read(open_store(str(tmp_path / "nothing")))
    other = window(0, [0, 1], graph="other\x1b")
    Archive(archive).add("communities", encode_communities(other))
    assert Report.read(archive, Selection(graph="g")).name.graph == "g"
    for graph, model, says in (
        (None, None, r"--graph: g, other\\x1b"),
        ("g", "as", "has no results of model as; it has: m"),
        ("h", None, "no communities of graph h"),
    ):
        with pytest.raises(BadSettings, match=says):
            Report.read(archive, Selection("communities", graph), model)


def test_a_report_says_what_it_leaves_out_and_can_be_of_one_model(
    disk: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six windows: three of the model gn, then three of one that was learned; and a rival's."""
    to = Archive(disk)
    for hour, labels in enumerate(drifting(6)):
        for model in ("gn@1" if hour < 3 else "retrained@1", *(["rival@1"] if hour > 1 else [])):
            to.add("communities", encode_communities(window(hour, labels, model=model)))
    done = command(disk, out := tmp_path / "g.html")
    said = "Results of rival@1 left out: 4. Another model detected the same windows"
    assert said in done.output
    answers = Page(out).kept
    assert answers["life"]["columns"]["model"] == ["gn@1"] * 3 + ["retrained@1"] * 3
    assert answers["life"]["columns"]["model_before"][3] == "gn@1"
    assert answers["overview"]["left_out"][0].startswith(said)
    assert answers["overview"]["archive"] is True
    for model, n_windows in (("gn", 3), ("retrained@1", 3), ("rival", 4)):
        report = Report.read(disk, model=model)
        assert [one.number for one in report.windows()] == list(range(n_windows))
        assert report.left_out() == []
    monkeypatch.setattr("stream_icd.interfaces.view.report.MOST_WINDOWS", 3)
    (too_many,) = Report.read(disk, model="rival").left_out()
    assert too_many.startswith("Windows left out at the beginning: 1.")
