"""The commands and programs that the documents show are run: what cannot be is listed with why.

So are the notebook, and the examples in docstrings.
"""

from __future__ import annotations

import bz2
import doctest
import gzip
import importlib
import io
import json
import logging
import os
import pkgutil
import re
import shlex
import signal
import sys
import sysconfig
import tarfile
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nbclient import NotebookClient
from packaging.requirements import Requirement
from typer.testing import CliRunner

import stream_icd
from stream_icd.commands.cli.environment import SETTINGS, _variables, check_environment
from stream_icd.commands.cli.main import app
from stream_icd.core.child_process import start_child, stop_children, tail
from stream_icd.core.errors import LimitExceeded
from stream_icd.core.settings import ENV_PREFIX
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.files import FileKind
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import EVENTS, SNAPSHOTS, create_topics
from stream_icd.registry.find import open_model
from stream_icd.streaming.dead_letters.letters import dead_letter
from tests.documents import DOCUMENTS, ROOT, arguments_of, fences, name, shell_lines
from tests.testbed import brokers

DAYS = [*(f"199903{day}" for day in (29, 30, 31)), *(f"1999040{day}" for day in range(1, 6))]
N_COMMUNITIES, SIZE, FIRST_AS = 15, 8, 690
DEAD_LETTERS = 10

NOT_RUN = {
    r"^make ": "CI runs them",
    r"^python -m benchmarks\.": "takes minutes; benchmarks/tests/test_fuzz.py runs its parts",
    r"^python -m benchmarks.lab": "benchmarks/lab/tests/test_run.py",
    r"^pip ": "test_extras_that_documents_errors_and_help_name_exist",
    r"^kcat ": "a tool of others",
    r"^export ": "test_settings_shown_exist_and_every_setting_is_explained",
    r"stream-icd demo": "tests/interfaces/demo",
    r"stream-icd broker": "tests/kafka/test_local_brokers.py; port 9092 may be in use",
    r"stream-icd (re)?train .*--encoder": "takes minutes; tests/learning",
    r"stream-icd view": "serves until it is stopped; tests/interfaces/view",
    r"stream-icd consume": "runs until it is stopped; the fixture `system` runs one of each",
    r"--graph contacts": "test_the_tutorial_runs, when its stream is detected",
    r"stream-icd data fetch": "needs a network; tests/sources/test_public_data.py",
    r"s3://": "needs an object store; tests/history and tests/history/replay have one",
    r"/var/spool": "a folder of the reader's",
    r"topics skip|--from 0:120": "needs a group, and offsets, of the reader's",
    r"^(docker|find|helm|jq|kafka-acls\.sh|kubectl) ": "not our programs",
}
"""Patterns of lines that are only parsed (tests/test_docs.py), and why."""

BOUNDS = {
    r"^subscribe": "--until end",
    r"^produce (events|taxi|changes) --topic": "--until end",
    r"^produce files .*--watch": "--limit 1",
    r"^produce gn": "--limit 2 --nodes 100 --communities 5",
    r"^produce lfr": "--limit 2 --nodes 250",
    r"^produce lfr .*--most-nodes": "--most-nodes 300",
    r"^replay": "--engine serial",
    r"^evaluate": "--windows 1 --learn 0 --methods bp",
    r"^retrain": "--no-drift --no-announce",
}
"""Options that are added to commands which would run for ever, or for long."""


def lines_of(document: Path) -> list[str]:
    return [line.partition(" #")[0].strip() for line in shell_lines(document) if line.strip()]


def why_not_run(line: str) -> str | None:
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), None)


def bounded(arguments: list[str]) -> list[str]:
    text = " ".join(arguments)
    more = [extra.split() for pattern, extra in BOUNDS.items() if re.search(pattern, text)]
    return [*arguments, *(option for extra in more for option in extra)]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the documents' commands read, and detector, tracker and archive at work.

    The environment and the working directory are as the documents assume them.
    """
    folder = tmp_path_factory.mktemp("docs")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch, brokers.OPENERS["embedded"]() as broker:
        patch.chdir(folder)
        patch.setenv("STREAM_ICD_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        for setting, value in brokers.QUICK["embedded"].items():
            patch.setenv(f"STREAM_ICD_{setting.upper()}", str(value))
        create_topics(broker.settings())
        write_inputs(folder)
        consumers = {
            name: start_child(
                (sys.executable, "-P", "-m", "stream_icd.commands.cli", "consume", *arguments),
                folder / f"{name}.log",
            )
            for name, arguments in {
                "detect": ("detect", "--model", "as"),
                "track": ("track",),
                "archive": ("archive", "history/"),
            }.items()
        }
        try:
            run(["produce", "as", "as-733.tar.gz", "--graph", "as733"])
            send_what_is_kept_of_the_past(broker)
            wait_until_settled("as733", len(DAYS))
            yield folder
        finally:
            for child in consumers.values():
                stop_children([child], 60)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        ended = {name: child.returncode for name, child in consumers.items()}
        assert set(ended.values()) == {0}, [ended, *(tail(folder / f"{one}.log") for one in ended)]


def wait_until_settled(graph: str, windows: int) -> None:
    """Return when all windows were detected, tracked and archived."""

    def is_settled() -> bool:
        archive = Archive(open_store("history"))
        kinds: tuple[FileKind, ...] = ("snapshots", "communities")
        archived = [sum(1 for _ in archive.windows(Selection(kind, graph))) for kind in kinds]
        with open_reader(KafkaSettings(), EVENTS, until="end") as events:
            tracked = sum(event.key == graph.encode() for event in events)
        return min(*archived, tracked) >= windows

    brokers.wait_until(is_settled, timeout_s=120)


def edges() -> list[tuple[int, int]]:
    """Cliques of autonomous systems, each linked with the next."""
    pairs = []
    for first in range(FIRST_AS, FIRST_AS + N_COMMUNITIES * SIZE, SIZE):
        members = range(first, first + SIZE)
        pairs += [(member, other) for member in members for other in members if member < other]
        pairs.append((first, first + SIZE))
    return pairs


def write_inputs(folder: Path) -> None:
    text = "".join(f"{one}\t{other}\n" for one, other in edges())
    for path in ("as-733.tar.gz", "data/as-733/as-733.tar.gz"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(folder / path, "w:gz") as archive:
            for day in DAYS:
                member = tarfile.TarInfo(f"as{day}.txt")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
    relations = "".join(f"{one}|{other}|0\n" for one, other in edges())
    (folder / "20260101.as-rel2.txt.bz2").write_bytes(bz2.compress(relations.encode()))
    route = (
        "TABLE_DUMP2|1199145600|B|193.0.0.1|1|10.0.0.0/8|701 1239 7018|IGP|193.0.0.1|0|0||NAG||\n"
    )
    (folder / "rib.20080101.0000.txt.gz").write_bytes(gzip.compress(route.encode()))
    events = [(one, other, 3600 * n) for n, (one, other) in enumerate(edges()[:40])]
    rows = "".join(f"{one} {other} {time}\n" for one, other, time in events)
    for mails in ("email-Eu-core-temporal.txt.gz", "CollegeMsg.txt.gz"):
        (folder / mails).write_bytes(gzip.compress(rows.encode()))
    (folder / "mails.csv").write_text("src,dst,t\n" + rows.replace(" ", ","))
    src, dst, time = zip(*events, strict=True)
    pq.write_table(pa.table({"src": src, "dst": dst, "t": time}), folder / "calls.parquet")
    write_fixes(folder)
    (folder / "graphs").mkdir()
    (folder / "graphs" / "2026-01-31.csv").write_text("src,dst\n1,2\n2,3\n")
    (folder / "labels.csv").write_text("snapshot,node,community\n1999-04-02,690,red\n")
    write_contacts(folder)
    (folder / "countries.csv").write_text("node,country\n690,US\n701,US\n")
    (folder / "teams.csv").write_text("node,community\n1,red\n2,red\n3,blue\n")


def write_contacts(folder: Path) -> None:
    """Three days of contacts in three classes of eight."""
    rows = [
        f"{one},{other},{86400 * day + one}\n"
        for day in range(3)
        for first in (1164, 1172, 1180)
        for one in range(first, first + 8)
        for other in (*range(one + 1, first + 8), *([first + 8] * (one == first < 1180)))
    ]
    (folder / "contacts.csv").write_text("src,dst,t\n" + "".join(rows))
    classes = [f"{one},{'PC' if one < 1172 else 'MP'}\n" for one in range(1164, 1188)]
    (folder / "people.csv").write_text("node,class\n" + "".join(classes))


def write_fixes(folder: Path) -> None:
    (folder / "taxi_log_2008_by_id").mkdir()
    fixes: list[dict[str, Any]] = []
    for taxi in range(4):
        stamps = [f"2008-02-02 15:{minute:02d}:00" for minute in range(0, 40, 5)]
        lat = 39.9 + taxi / 1000
        fixes += [{"taxi": taxi, "t": stamp, "lat": lat, "lon": 116.4} for stamp in stamps]
        lines = "".join(f"{taxi},{stamp},116.4,{lat}\n" for stamp in stamps)
        (folder / "taxi_log_2008_by_id" / f"{taxi}.txt").write_text(lines)
    fixes.sort(key=lambda fix: fix["t"])
    pq.write_table(pa.Table.from_pylist(fixes), folder / "tdrive_1h.parquet")


def send_what_is_kept_of_the_past(broker: brokers.Broker) -> None:
    """A snapshot of 31 January 2026, rows in topics, and dead letters."""
    create_topics(
        broker.settings(), [TopicSpec("payments"), TopicSpec("fixes"), TopicSpec("edges")]
    )
    with open_reader(broker.settings(), SNAPSHOTS, until="end") as records:
        snapshot = next(iter(records))
    payment = {"src": 701, "dst": 702, "t": 1}
    fix = {"taxi": 1, "t": 1, "lat": 39.9, "lon": 116.4}
    change = {"op": "add", "src": 1, "dst": 2, "t": 1}
    again = OutgoingRecord(SNAPSHOTS, snapshot.value, snapshot.key, snapshot.headers)
    with Publisher(broker.settings()) as publisher:
        publisher.send(replace(again, timestamp_ms=1_769_870_000_000))  # 2026-01-31T14:33:20Z
        for topic, row in (("payments", payment), ("fixes", fix), ("edges", change)):
            publisher.send(OutgoingRecord(topic, json.dumps(row).encode()))
        for offset in range(41, 41 + DEAD_LETTERS):
            came = Record(SNAPSHOTS, 3, offset, 0, snapshot.key, snapshot.value, snapshot.headers)
            letter = dead_letter(came, "decode", LimitExceeded("too many rows"))
            publisher.send(replace(letter, partition=0))


@pytest.fixture(autouse=True)
def logging_to_a_stream_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are run in this process, and their clients' threads may log when they have ended."""
    monkeypatch.setattr(logging, "raiseExceptions", False)


def run(arguments: list[str]) -> bytes:
    """What `stream-icd ARGUMENTS` prints; it must succeed."""
    result = CliRunner().invoke(app, arguments)
    command = shlex.join(["stream-icd", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{command}: {result.exception!r}") from result.exception
    assert result.exit_code == 0, f"{command}: {result.output}"
    return result.stdout_bytes


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_commands_shown_run(document: Path, system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(system)
    version = open_model("as").version
    for line in lines_of(document):
        if why_not_run(line):
            continue
        arguments = arguments_of(re.sub(r"as@[0-9a-f]{8}", version, line))
        assert arguments is not None, f"{line!r} is no command of ours: add it to NOT_RUN"
        output = run(bounded(arguments))
        tokens = shlex.split(line)
        if ">" in tokens:
            (system / tokens[tokens.index(">") + 1]).write_bytes(output)


def test_the_tutorial_runs(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(system)
    lines = [line for line in lines_of(ROOT / "docs" / "tutorial.md") if "--graph contacts" in line]
    send, *look = [(arguments_of(line) or []) for line in lines]
    run(send)
    wait_until_settled("contacts", 3)
    said = [run(arguments) for arguments in look]
    assert [arguments[0] for arguments in look] == ["subscribe", "subscribe", "explain", "report"]
    assert b"PC, 8 of 8" in said[0]
    assert said[2].startswith(b"Node 1170 is in community")
    assert (system / "contacts.html").stat().st_size > 100_000


def test_every_reason_not_to_run_a_line_is_needed() -> None:
    shown = [line for document in DOCUMENTS for line in lines_of(document)]
    unused = [pattern for pattern in NOT_RUN if not any(re.search(pattern, line) for line in shown)]
    assert unused == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_programs_shown_run(
    document: Path, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("history", "countries.csv"):
        (tmp_path / needed).symlink_to(system / needed)
    monkeypatch.chdir(tmp_path)
    for follow in ("subscribe", "subscribe_events", "subscribe_node"):
        bounded_one = partial(getattr(stream_icd, follow), until="end")
        monkeypatch.setattr(stream_icd, follow, bounded_one, raising=False)
    address = os.environ["STREAM_ICD_BOOTSTRAP_SERVERS"]
    for program in fences(document, "python", "py"):
        code = program.replace("127.0.0.1:9092", address).replace(".poll(20)", ".poll(6)")
        code = code.replace("n_nodes=1000", "n_nodes=250")
        exec(compile(code, name(document), "exec"), {"__name__": "__main__"})


def test_settings_shown_exist_and_every_setting_is_explained() -> None:
    lines = "\n".join(line for document in DOCUMENTS for line in shell_lines(document))
    assert check_environment(dict.fromkeys(re.findall(r"\b(STREAM_ICD_\w+)=", lines), "")) == []
    pages = [(ROOT / "docs" / f"{page}.md").read_text() for page in ("operating", "security")]
    shown = set(re.findall(r"`([^`\n]+)`", "".join(pages)))
    names = {variable: variable.removeprefix(ENV_PREFIX).lower() for variable in _variables()}
    assert [variable for variable, name in names.items() if not shown & {variable, name}] == []
    assert {f"[{settings.table}]" for settings in SETTINGS} <= shown


def test_extras_that_documents_errors_and_help_name_exist() -> None:
    """pip says nothing of one that is not there."""
    lines = [line for document in DOCUMENTS for line in lines_of(document)]
    wanted = [word for line in lines if line.startswith("pip ") for word in shlex.split(line)[2:]]
    assert wanted, "the documents say how to install it"
    ours = [Requirement(re.sub(r"^\.", "stream-icd", word)) for word in wanted]
    assert {requirement.name for requirement in ours} == {"stream-icd"}
    folders = ("stream_icd", "producers", "consumers", "docs")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.*")]
    texts = [file.read_text("utf-8") for file in files if file.suffix in (".py", ".md")]
    named = set(re.findall(r"stream-icd\[([a-z,]+)\]|needs_extra\(\"([a-z]+)\"", "\n".join(texts)))
    extras = {extra for pair in named for one in pair for extra in one.split(",") if extra}
    extras |= {extra for requirement in ours for extra in requirement.extras}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert extras - {"extra"} <= project["optional-dependencies"].keys()


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """What each cell of code wrote to standard output."""
    return [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_notebook_runs_from_its_first_cell_to_its_last_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=":")
    shown, again = (nbformat.read(ROOT / "docs/first_steps.ipynb", 4) for _ in range(2))
    NotebookClient(again, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert printed(again) == printed(shown)


def test_examples_in_docstrings_are_true(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    found = pkgutil.walk_packages(stream_icd.__path__, "stream_icd.")
    names = [module.name for module in found if not module.name.endswith("__main__")]
    results = [doctest.testmod(importlib.import_module(name)) for name in names]
    assert sum(result.attempted for result in results) > 50
    assert sum(result.failed for result in results) == 0
