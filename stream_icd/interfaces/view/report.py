"""A report of an archived graph: the page as one file that needs no server, or its pictures."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np

from stream_icd.core.errors import BadSettings, StreamIcdError
from stream_icd.core.events import EVENT_KINDS
from stream_icd.core.imports import needs_extra
from stream_icd.core.printable import listed, printable, shortened
from stream_icd.core.store.store import Store
from stream_icd.core.store.whole_file import whole_file, writing
from stream_icd.history.archive import Archive, Selection
from stream_icd.interfaces.view.data.all_series import AllSeries, PageBudget
from stream_icd.interfaces.view.data.series import SeenWindow, SeriesName
from stream_icd.interfaces.view.feeds.archives import Archives
from stream_icd.interfaces.view.panels.details import composition
from stream_icd.interfaces.view.panels.flow import event_list, flow, names_in
from stream_icd.interfaces.view.panels.life import life
from stream_icd.interfaces.view.panels.queries import MOST_COLUMNS, MOST_WINDOWS, Queries
from stream_icd.interfaces.view.web.page_files import page_files
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.packed import unpacked

_LIBRARY = "vendor/echarts-6.1.0.min.js"

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const) (\w+))", re.MULTILINE)
_LINKS = re.compile(r"^<(?:link|script) .*(?:</script>)?\n", re.MULTILINE)

_BANDS = 30
_MOST_EVENTS = 5000
_MOST_PLACES = 20_000_000  # nodes of all windows together, up to which the report can be searched
_MOST_SPANS = 400_000

_Answers = dict[str, Any]
_Spans = dict[str, list[list[int | None]]]


@dataclass(frozen=True, slots=True)
class Report:
    """What is chosen of an archive: one graph, and the answers to all questions about it."""

    queries: Queries
    name: SeriesName

    @classmethod
    def read(
        cls,
        store: Store,
        chosen: Selection = Selection("communities"),
        model: str | None = None,
        naming: Naming | None = None,
        zone: str = "UTC",
    ) -> Report:
        """Read what is chosen of an archive, of a model with its version or without.

        Raises:
            BadSettings: nothing was selected, or several graphs are there and none is chosen.
            HistoryDamaged, StoreUnreachable: the archive cannot be read.
        """
        seen = AllSeries(PageBudget(windows=MOST_WINDOWS), naming)
        archives = Archives.of([store], seen, chosen, model)
        (archive,) = archives.archives.values()
        archive.read(seen, lambda _: None, lambda: False)
        names = [summary.name for summary in seen.summaries()]
        if not names and archive.models:
            models = ", ".join(printable(shortened(name)) for name in archive.models)
            raise BadSettings(f"{store.place} has no results of model {model}; it has: {models}")
        if not names:
            raise Archive(store).nothing_selected(chosen)
        graphs = sorted({name.graph for name in names})
        if len(graphs) > 1:
            some = listed([shortened(name) for name in graphs])
            raise BadSettings(
                f"the archive holds {len(graphs)} graphs: choose with --graph: {some}"
            )
        return cls(Queries(seen, archives, zone), names[0])

    def windows(self) -> list[SeenWindow]:
        """Return all windows of the graph, in time order."""
        return self.queries.seen.windows(self.name, MOST_WINDOWS)

    def left_out(self) -> list[str]:
        """Return what the archive holds of the graph and the report does not, a sentence each."""
        sentences = []
        for summary in self.queries.seen.summaries():
            if summary.name == self.name:
                if summary.dropped:
                    sentences.append(
                        f"Windows left out at the beginning: {summary.dropped:,}. A report has "
                        f"room for {MOST_WINDOWS:,} windows of {PageBudget().bytes // 2**20} MiB: "
                        "choose others with --from and --to."
                    )
                if summary.late:
                    sentences.append(
                        f"Late results left out: {summary.late:,}. They correct windows before the "
                        "newest one, or are older than it."
                    )
            else:
                models = ", ".join(printable(shortened(model)) for model in summary.models)
                sentences.append(
                    f"Results of {models} left out: {summary.kept + summary.dropped:,}. Another "
                    "model detected the same windows; --model "
                    f"{printable(summary.models[-1])} shows them instead."
                )
        return sentences

    def write_html(self, path: Path) -> Path:
        """Write the page as one file; replace it only when it is complete.

        Raises:
            StoreUnwritable: such as a full disk.
        """
        title = f"{shortened(printable(self.name.graph))}: communities"
        page = _one_file(self._answers(), title)
        with writing(path), whole_file(path) as aside:
            aside.write_bytes(page.encode())
        return path

    def write_pictures(self, folder: Path, form: Literal["png", "svg"]) -> list[Path]:
        """Write flow, map and life to a folder; return their paths.

        Raises:
            MissingExtra: matplotlib is not installed.
            StoreUnwritable: such as a full disk.
        """
        with needs_extra("plot", "matplotlib"):
            from stream_icd.interfaces.view.pictures import pictures_of

        queries, series = self.queries, self.name._asdict()
        drawn = queries.map(series)
        placed = queries.places(series) if drawn["placed"] else None
        # Without the graph there are no members, but the discs are still there.
        inside = self._members() if drawn["whole"] else None
        figures = pictures_of(self.windows(), drawn, inside, placed, ZoneInfo(queries.zone))
        paths = {picture: folder / f"{picture}.{form}" for picture in figures}
        with writing(folder):
            for picture, figure in figures.items():
                with whole_file(paths[picture]) as aside:
                    figure.savefig(aside, format=form, dpi=150)
        return list(paths.values())

    def _answers(self) -> _Answers:
        """Return what the page of a report asks for."""
        queries, windows, series = self.queries, self.windows(), self.name._asdict()
        overview = queries.overview(series)
        own = [summary for summary in overview["series"] if series.items() <= summary.items()]
        drawn = queries.map(series)
        bands = flow(windows, MOST_COLUMNS, _BANDS)
        events = event_list(windows, frozenset(EVENT_KINDS) - {"continued"}, None, _MOST_EVENTS)
        naming = queries.seen.naming
        attributes = () if naming is None else naming.names
        names = names_in(windows, bands["shown"]) | events["names"]
        by_size = np.argsort(-windows[-1].sizes, kind="stable")
        largest = windows[-1].ids[by_size[:_BANDS]].tolist() if naming else []
        return {
            "overview": {**overview, "series": own, "left_out": self.left_out()},
            "flow": {**bands, "windows": len(windows), "kept": len(windows), "names": names},
            "life": life(windows),
            "events": {**events, "names": names},
            "composition": {str(id): composition(windows[-1], id, naming) for id in largest},
            "map": drawn,
            "places": queries.places(series) if drawn["placed"] else None,
            "members": self._members(),
            "values": self._values(attributes, placed=bool(drawn["placed"])),
            "legend": {name: queries.legend({**series, "by": name}) for name in attributes},
            "nodes": _node_spans(windows),
            "compare": None,
            "explain": None,
            "explain_community": None,
        }

    def _values(self, attributes: Sequence[str], *, placed: bool) -> _Answers:
        """Return the value of each node of the map, by attribute: of members, and of places."""
        values: _Answers = {"members": {}, "places": {}}
        for name in attributes:
            members = self._members(by=name)
            values["members"][name] = None if members is None else members["values"]
            if placed:
                places = self.queries.places({**self.name._asdict(), "by": name})
                values["places"][name] = places["values"]
        return values

    def _members(self, **parameters: str) -> _Answers | None:
        """Return members and edges of the newest window; None if its graph cannot be read."""
        try:
            return self.queries.members({**self.name._asdict(), "community": "all", **parameters})
        except StreamIcdError:
            return None


def _node_spans(windows: Sequence[SeenWindow]) -> _Spans | None:
    """Return where each node was, `[community, first number, last number]`, as `Queries.node`.

    The community of a span is None where the node is missing. None if there are too many nodes.
    """
    if sum(window.n_nodes for window in windows) > _MOST_PLACES:
        return None
    spans: _Spans = {}
    last_seen: dict[str, int] = {}
    n_spans = 0
    for number, (nodes, ids) in ((window.number, unpacked(window.members)) for window in windows):
        for node, community in zip(map(str, nodes.to_pylist()), ids.tolist(), strict=True):
            of_node, last = spans.setdefault(node, []), last_seen.get(node, number)
            if last < number - 1:
                of_node.append([None, last + 1, number - 1])
            if of_node and of_node[-1][0] == community:
                of_node[-1][2] = number
            else:
                of_node.append([community, number, number])
                n_spans += 1
            last_seen[node] = number
        if n_spans > _MOST_SPANS:
            return None
    newest = windows[-1].number
    for node, last in last_seen.items():
        if last < newest:
            spans[node].append([None, last + 1, newest])
    return spans


def _one_file(answers: _Answers, title: str) -> str:
    """Return the page with everything in it; it opens without a server and asks for nothing."""
    files = page_files()
    style, library = (files[path].content.decode() for path in ("page.css", _LIBRARY))
    script = _bundle()
    # Digests of the very texts that follow: a browser runs nothing that differs by a byte.
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(library)}' '{_digest(script)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    icon = base64.b64encode(files["icon.svg"].content).decode()
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">\n'
        f"<style>{style}</style>\n"
    )
    # `<` never appears in the answers, so no name can end the element that holds them.
    data = json.dumps(answers, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    tail = (
        f'<script type="application/json" id="kept">{data}</script>\n'
        f"<script>{library}</script>\n<script>{script}</script>\n"
    )
    page = _LINKS.sub("", files["index.html"].content.decode())
    page = page.replace(
        "<title>stream_icd</title>\n", f"<title>{html.escape(title, quote=False)}</title>\n{head}"
    )
    return page.replace("</body>", f"{tail}</body>")


def _bundle() -> str:
    """Return all modules of the page as one script: functions, in the order of imports."""
    done: dict[str, str] = {}
    _add("main", done)
    return '"use strict";\n' + "".join(done.values())


def _add(module: str, done: dict[str, str]) -> None:
    if module in done:
        return
    text = page_files()[f"{module}.js"].content.decode()
    for _, imported in _IMPORT.findall(text):
        _add(imported, done)  # first: a module's body runs at once, and uses what it imports
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(r"const { \1 } = module_\2;", text))
    done[module] = f"const module_{module} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
