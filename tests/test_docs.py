"""What the documents show can be typed and is true, and the site that they make builds."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import stream_icd
from stream_icd import Window, snapshot_from_pairs
from stream_icd.core.errors import StreamIcdError
from stream_icd.kafka.port import DAY_MS, is_dead_letter_topic
from stream_icd.kafka.topics import DEFAULT_TOPICS
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.names import attributes_of, named
from stream_icd.registry.find import open_model, shipped_models
from tests.documents import (
    DOCUMENTS,
    FENCE,
    ROOT,
    all_commands,
    arguments_of,
    complaint,
    fences,
    name,
    shell_lines,
)
from tests.real_data import real_data

INLINE = re.compile(r"(?<!`)`(stream-icd [^`\n]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)[^)]*\)")
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PLACEHOLDER = re.compile(r"[A-Z]{3,}|…|\.\.\.|[\[<].*")


def commands(document: Path) -> Iterator[list[str]]:
    """Arguments of each `stream-icd` line that the document shows to be typed."""
    for line in shell_lines(document):
        if "stream-icd" in line and (arguments := arguments_of(line)) is not None:
            yield arguments


def mentions(document: Path) -> Iterator[list[str]]:
    """Arguments of each `stream-icd …` in running text, up to the first placeholder."""
    prose = FENCE.sub("", document.read_text(encoding="utf-8"))
    for mention in INLINE.findall(prose):
        arguments = arguments_of(mention) or []
        end = next((i for i, a in enumerate(arguments) if PLACEHOLDER.fullmatch(a)), None)
        yield arguments[:end]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_make_targets_links_and_imports_shown_exist(document: Path) -> None:
    wrong = [why for arguments in commands(document) if (why := complaint(arguments))]
    wrong += [why for a in mentions(document) if (why := complaint(a, complete=False))]
    assert not wrong, "\n".join(wrong)
    text = document.read_text(encoding="utf-8")
    assert set(re.findall(r"(?:^|`)\$? ?make ([a-z-]+)", text, re.MULTILINE)) <= MAKE_TARGETS
    links = [link.split("#")[0] for link in LINK.findall(FENCE.sub("", text)) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []
    for body in fences(document, "python", "py"):
        for node in ast.walk(ast.parse(body, name(document))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stream_icd"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


def test_every_command_is_shown_somewhere() -> None:
    shown = [arguments for document in DOCUMENTS for arguments in commands(document)]
    missing = [c for c in all_commands() if not any(tuple(a[: len(c)]) == c for a in shown)]
    assert not missing, f"show how to use: {[' '.join(command) for command in missing]}"


def test_the_page_of_the_python_interface_says_what_the_docstrings_say() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    program = runpy.run_path(str(ROOT / "docs" / "api_page.py"))
    assert program["with_summaries"](page) == page, "run python docs/api_page.py"
    shown = {name for name, _ in program["ROW"].findall(page)}
    home = stream_icd.errors.__name__
    kinds = [error for error in StreamIcdError.kinds() if error.__module__ == home]
    expected = {f"stream_icd.errors.{error.__name__}" for error in kinds}
    expected |= {f"stream_icd.programs.{one}" for one in stream_icd.programs.__all__}
    expected |= {f"stream_icd.{one}" for one in stream_icd.__all__}
    assert expected - shown == {"stream_icd.errors", "stream_icd.programs"}


def test_the_readme_shows_models_that_are_shipped() -> None:
    named = [
        arguments[arguments.index("--model") + 1]
        for document in DOCUMENTS
        for arguments in commands(document)
        if "--model" in arguments and arguments[:1] == ["consume"]
    ]
    assert {model for model in named if "/" not in model} <= {"champion", *shipped_models()}


def test_the_tutorial_says_what_the_first_day_of_its_data_gives() -> None:
    file = "events_contacts_high_school_2012.parquet"
    contacts = pq.read_table(real_data(f"labelled/edges/{file}"))
    classes = pq.read_table(real_data(f"labelled/labels/{file}"))
    day = datetime(2012, 11, 19, tzinfo=UTC)
    window = Window(day, day + timedelta(days=1))
    contacts = contacts.filter(pc.less(contacts["time"], window.end))
    pairs = contacts["src"], contacts["dst"]
    first = snapshot_from_pairs(*pairs, graph="contacts", id="first", window=window)
    found = detect_remembering(first, open_model("default").model).communities
    names = named(first.nodes, found, attributes_of(classes["node"], {"class": classes["label"]}))
    largest = np.argsort(-np.bincount(found), kind="stable")
    said = "; ".join(str(names.names()[community]) for community in largest[:3].tolist())
    page = " ".join((ROOT / "docs" / "tutorial.md").read_text().split())
    counts = f"{first.n_nodes} pupils, {first.n_edges} pairs, {len(largest)} communities"
    assert f"{counts}, and their names: `{said}`." in page


def test_versions_of_shipped_models_are_those_that_are_shipped() -> None:
    shipped = {open_model(model).version for model in shipped_models()}
    sources = [*(ROOT / "docs").glob("*.md"), *(ROOT / "stream_icd").rglob("*.py")]
    pattern = re.compile(rf"\b(?:{'|'.join(shipped_models())})@[0-9a-f]{{8}}\b")
    shown = {v for source in sources for v in pattern.findall(source.read_text(encoding="utf-8"))}
    assert shown
    assert shown <= shipped


def test_the_topics_are_described_as_they_are_created() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`icd\..+) \| (\d+) \| (\d+ days|compacted).* \|$", page, re.MULTILINE)
    shown = {
        (name, int(partitions), keeps)
        for names, partitions, keeps in rows
        for name in re.findall("`(.+?)`", names)
    }
    topics = [topic for topic in DEFAULT_TOPICS if not is_dead_letter_topic(topic.name)]
    kept = (f"{(topic.retention_ms or 0) // DAY_MS} days" for topic in topics)
    assert shown == {
        (topic.name, topic.partitions, days if topic.retention_ms else "compacted")
        for topic, days in zip(topics, kept, strict=True)
    }


def test_the_front_page_quotes_the_page_of_peers() -> None:
    page = (ROOT / "docs" / "measured" / "peers.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for shown, measured in {"GN, p_in = 0": "GN", "LFR, μ = 0": "L(f,"}.items():
        rows = re.findall(rf"^\| {shown}(\.\d) \| (.+) \|$", readme, re.MULTILINE)
        assert len(rows) == 2
        for number, row in rows:
            section = page.partition(f"## {measured}{number}")[2].partition("\n## ")[0]
            nmi, *_, ratio, gain = cells_of("bp", section)
            leiden, *_ = cells_of("Leiden, K searched, converged", section)
            quoted = [nmi.split(" ")[0], leiden.split(" ")[0], gain, ratio]
            assert row.split(" | ") == quoted, f"{shown}{number}: the page says {quoted}"


def cells_of(first: str, table: str) -> list[str]:
    """The other cells of the row that begins with this one."""
    (row,) = re.findall(rf"^\| {re.escape(first)} \| (.+) \|$", table, re.MULTILINE)
    return str(row).split(" | ")


@pytest.mark.timeout(900)  # beside other tests on two cores, a build takes minutes
def test_the_site_builds_with_a_page_for_each_command_and_the_contract(tmp_path: Path) -> None:
    """From a copy: a build writes the commands' pages. The theme of `make docs` takes longer."""
    sources, site = tmp_path / "docs", tmp_path / "site"
    shutil.copytree(ROOT / "docs", sources, ignore=shutil.ignore_patterns("commands"))
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "html_theme=basic"]
    done = subprocess.run([*build, sources, site], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for command in all_commands():
        page = (site / "commands" / f"{'-'.join(command)}.html").read_text(encoding="utf-8")
        assert f"stream-icd {' '.join(command)}" in page
        assert "Usage" in page
        assert "highlight-sh" in page, "its examples are no code"
    assert (site / "asyncapi.yaml").read_bytes() == (sources / "asyncapi.yaml").read_bytes()
