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
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import BadSettings, SourceNotFound, StoreUnwritable
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.interfaces.view.data.all_series import AllSeries
from stream_icd.interfaces.view.panels.details import node_past
from stream_icd.interfaces.view.pictures import pictures_of
from stream_icd.interfaces.view.report import left_out, read_archive, write_html, write_pictures
from stream_icd.interfaces.view.web.page_files import page_files
from stream_icd.methods.names.attributes import attributes_of
from stream_icd.methods.names.names import Naming
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.snapshots import encode_snapshot
from tests.interfaces.view.windows import (
    ORIGIN,
    Cliques,
    Nowhere,
    Placed,
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

    @property
    def kept(self) -> dict[str, Any]:
        """The answers that the page holds."""
        (text,) = [text for attributes, text in self.scripts if "id" in attributes]
        return dict(json.loads(text))

    @property
    def runs(self) -> list[str]:
        """The style, the library, and the modules of the page as one script."""
        return [text for attributes, text in self.scripts if "type" not in attributes]


Report = Callable[..., Parsed]


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """`report(series)`: the report of a graph."""

    def written(everything: AllSeries, graph: str = "g", snapshots: Any = None) -> Parsed:
        asked = queries(everything, snapshots or Cliques())
        out = write_html(asked, name(graph=graph), tmp_path / "report.html")
        return Parsed(out.read_text(encoding="utf-8"))

    return written


def test_a_report_asks_for_nothing_and_runs_only_its_own_scripts_and_styles(report: Report) -> None:
    page = report(seen(4))
    for tag, attributes in page.elements:
        for link in ("src", "href"):
            assert (attributes.get(link) or "data:").startswith("data:"), (tag, attributes)
    policy = next(a["content"] or "" for t, a in page.elements if a.get("http-equiv"))
    assert len(page.runs) == 3
    digests = {
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in page.runs
    }
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_hostile_names_stay_data(report: Report) -> None:
    names = pa.array([HOSTILE, *(f"node {n}" for n in range(59))])
    plain, page = report(seen(3)), report(seen(3, graph=HOSTILE, names=names), HOSTILE)
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert page.kept["overview"]["series"][0]["graph"] == HOSTILE
    assert HOSTILE in page.kept["nodes"]


def test_a_report_holds_what_the_page_asks_for(report: Report) -> None:
    everything = seen(5)
    answers, asked = report(everything, snapshots=Placed()).kept, queries(everything, Placed())
    assert answers["life"] == json.loads(json.dumps(asked.life({})))
    assert answers["flow"]["columns"] == json.loads(json.dumps(asked.flow({})["columns"]))
    assert answers["places"] == json.loads(json.dumps(asked.places({})))
    assert len(answers["members"]["nodes"]) == 60
    source = page_files()["source.js"].content.decode() + page_files()["main.js"].content.decode()
    questions = set(re.findall(r'(?:ask|question)\("(\w+)"', source))
    assert questions <= {*answers, "node"}
    without = report(seen(3), snapshots=Nowhere()).kept
    assert without["members"] is without["places"] is None
    assert "no longer holds" in without["map"]["trouble"]


def test_the_past_of_every_node_is_that_of_the_search(report: Report) -> None:
    everything = AllSeries()
    rng = np.random.default_rng(1)
    for hour, labels in enumerate(drifting(12)):
        there = np.sort(rng.choice(60, 45, replace=False))
        _, compact = np.unique(labels[there], return_inverse=True)
        everything.add(window(hour, compact, there), ORIGIN)
    windows, spans = everything.windows(name(), 100), report(everything).kept["nodes"]
    for node in range(60):
        past = node_past(windows, str(node), {})["spans"]
        assert [[one["id"], one["from"], one["to"]] for one in past] == spans[str(node)]


def test_all_modules_are_in_one_script_before_those_that_need_them(report: Report) -> None:
    *_, library, script = report(seen(1)).runs
    ours = {path.removesuffix(".js") for path in page_files() if re.fullmatch(r"\w+\.js", path)}
    order = re.findall(r"^const module_(\w+) = ", script, re.MULTILINE)
    assert set(order) == ours
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    for at, module in enumerate(order):
        text = page_files()[f"{module}.js"].content.decode()
        assert set(re.findall(r'from "\./(\w+)\.js"', text)) <= set(order[:at])
    assert "</script" not in script + library


@pytest.fixture
def archive(disk: Store) -> Store:
    """Results and snapshots of a graph, archived."""
    everything, to = AllSeries(), Archive(disk)
    for hour, labels in enumerate(drifting(4)):
        communities = window(hour, labels)
        to.add("communities", encode_communities(communities))
        news = everything.add(communities, ORIGIN)
        assert news is not None
        to.add("snapshots", encode_snapshot(Cliques().read(news.window)))
    return disk


def test_the_command_writes_one_file_and_replaces_an_older_one(
    archive: Store, tmp_path: Path
) -> None:
    out = tmp_path / "reports" / "g.html"
    out.parent.mkdir()
    out.write_text("old")
    done = CliRunner().invoke(app, ["report", "--history", archive.uri, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert [path.name for path in out.parent.iterdir()] == ["g.html"]
    assert Parsed(out.read_text(encoding="utf-8")).kept["life"]["columns"]["number"] == [0, 1, 2, 3]


def test_the_command_writes_pictures(archive: Store, tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    arguments = ["report", "--history", archive.uri, "--format", "png", "--out", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {"flow.png", "map.png", "life.png"}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.iterdir())


def test_pictures_are_xml_whatever_the_names_and_show_places(tmp_path: Path) -> None:
    hostile = f"\x00\x1b\n{HOSTILE}"
    for snapshots in (Cliques(), Placed()):
        asked = queries(seen(3, graph=hostile), snapshots)
        written = {
            path.stem: path for path in write_pictures(asked, name(hostile), tmp_path, "svg")
        }
        assert set(written) == {"flow", "map", "life"}
        for path in written.values():
            ElementTree.parse(path)
        has_places = "longitude" in written["map"].read_text(encoding="utf-8")
        assert has_places == isinstance(snapshots, Placed)


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


def drawn(everything: AllSeries, n: int = 99, **options: Any) -> dict[str, Figure]:
    """The pictures of the first n windows."""
    asked = queries(everything)
    return pictures_of(everything.windows(name(), 99)[:n], asked.map(name()._asdict()), **options)


def test_pictures_mark_another_model_and_say_how_many_windows_they_show() -> None:
    labels = [*drifting(40)]
    everything = seen(labels[:15], model="gn@1")
    seen(labels[15:], model="$re_trained@1", first=15, to=everything)
    pictures = drawn(everything)
    flow, life = pictures["flow"].axes[0], pictures["life"].axes[0]
    assert "(21 of 40 windows)" in flow.get_title(loc="left")
    for axes in (flow, life):
        marks = [text.get_text() for text in axes.texts if "trained" in text.get_text()]
        assert marks == [" $re_trained@1"]
    assert "windows" not in drawn(everything, 15)["flow"].axes[0].get_title(loc="left")


def test_pictures_have_names_and_say_times_in_the_chosen_zone() -> None:
    classes = attributes_of(pa.array(range(60)), {"class": ["PC"] * 30 + ["MP"] * 30})
    everything, halves = AllSeries(naming=Naming({None: classes})), np.repeat([0, 1], 30)
    for hour in (0, 4):
        seen([halves] * 2, first=hour, to=everything)
    pictures = drawn(everything, zone=ZoneInfo("Europe/Paris"))
    flow, by_map, life = (pictures[kind].axes[0] for kind in ("flow", "map", "life"))
    assert {"PC", "MP"} <= {text.get_text() for text in flow.texts}
    assert flow.get_xticklabels()[0].get_text() == "2026-01-01\n01:00"
    assert "2026-01-01 01:00 to 2026-01-01 06:00 Europe/Paris" in flow.get_title(loc="left")
    assert {text.get_text() for text in by_map.texts} == {"PC", "MP"}
    assert np.isnan(life.lines[0].get_ydata()).sum() == 1, "a gap ends the line"


def test_what_is_not_in_the_archive_or_not_chosen_is_said(archive: Store, tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        read_archive(open_store(str(tmp_path / "nothing")))
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
            to.add("communities", encode_communities(window(hour, labels, model=model)))
    return disk


def test_a_report_shows_the_windows_of_all_models_and_says_what_it_leaves_out(
    swapped: Store, tmp_path: Path
) -> None:
    out = tmp_path / "g.html"
    done = CliRunner().invoke(app, ["report", "--history", swapped.uri, "--out", str(out)])
    assert done.exit_code == 0, done.output
    said = "Results of rival@1 left out: 4. Another model detected the same windows"
    assert said in done.output
    answers = Parsed(out.read_text(encoding="utf-8")).kept
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
