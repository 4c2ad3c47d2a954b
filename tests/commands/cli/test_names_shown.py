"""A name from outside forges no line, moves no cursor, breaks no table and fills no screen."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from prometheus_client import generate_latest
from rich.console import Console
from rich.table import Table

from stream_icd.commands.cli import main, subscribe
from stream_icd.commands.cli import subscribe_formats as formats
from stream_icd.commands.cli.dlq import _table_lines
from stream_icd.commands.cli.replay import _agreements_table, _qualities_table
from stream_icd.commands.cli.subscribe_shapes import shape_of
from stream_icd.commands.programs.process import wide_console
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSnapshot, HistoryDamaged
from stream_icd.core.printable import did_you_mean, listed, printable, say, shortened
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.export import export
from stream_icd.history.replay.compare import compare
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import described
from stream_icd.kafka.record import Record
from stream_icd.streaming.dead_letters.box import BadRecord
from stream_icd.streaming.dead_letters.letters import DeadLetter, dead_letter
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.wire.communities import encode_communities
from tests.run_here import run_here
from tests.streaming.workers.tracked import window

FORGED = "g\r\n\x1b[2J\u202eas733 0 lost\x07[/red]"
ESCAPED = r"g\r\n\x1b[2J\u202eas733 0 lost\x07[/red]"


def found(graph: str = FORGED, nodes: tuple[str, ...] = ("a", "b")) -> Communities:
    result = window(graph, 0, [0] * len(nodes), model=graph)
    return replace(result, snapshot_id=graph, nodes=pa.array(nodes))


def test_what_prints_stays_and_the_rest_is_escaped_and_shortened() -> None:
    assert printable(FORGED) == ESCAPED
    assert printable("Überwachung/北京 [/red] ✓") == "Überwachung/北京 [/red] ✓"
    assert printable("\ud800") == r"\ud800"
    for long in ("é" * 8_000_000, ("é" * 8_000_000).encode(), b"\xff" * 8_000_000):
        assert len(shortened(long)) == 120
        assert shortened(long).endswith("…")
    assert shortened("é" * 120) == "é" * 120
    assert listed([FORGED, "as733"]) == f"{ESCAPED}, as733"
    assert did_you_mean("as733 0 lost", ["as733 0 lost\n"]) == r"; did you mean as733 0 lost\n?"


def test_a_table_for_people_has_a_line_a_snapshot(capsys: pytest.CaptureFixture[str]) -> None:
    formats.writer_of("table")([found(f"{FORGED}\t"), found()], shape_of("communities"))
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), "\t" in "".join(lines)) == (3, False)
    assert all(line.count(ESCAPED) == 3 for line in lines[1:])  # graph, snapshot, model


def test_a_closed_output_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)  # as Python starts with `>&-`
    say("as733")
    write = partial(formats.writer_of("csv"), [found()], shape_of("communities"))
    monkeypatch.setattr(main, "app", write)
    main.main()


class TakesLittle(io.RawIOBase):
    """A pipe whose writes a signal cuts short."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.taken += bytes(data[:3])
        return min(3, len(data))


def test_without_buffers_all_is_written_and_other_outputs_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe: Any = TakesLittle()  # as with PYTHONUNBUFFERED
    output = io.TextIOWrapper(pipe, "utf-8", write_through=True)
    monkeypatch.setattr(main, "app", lambda: say("as733 Zürich"))
    monkeypatch.setattr(sys, "stdout", output)  # as a program does that calls this
    main.main()
    assert sys.stdout is output
    assert output.buffer is pipe
    pipe.taken = b""
    monkeypatch.setattr(sys, "__stdout__", output)
    main.main()
    assert pipe.taken.decode() == "as733 Zürich\n"


def stop_subscribing(line: str) -> None:
    sys.stdout.write(line)
    subscribe._let_reader_finish(0.01)


@pytest.mark.parametrize(
    ("write", "reader_is_there"),
    [
        (say, False),
        (lambda line: wide_console().print(line), False),
        (stop_subscribing, False),
        (stop_subscribing, True),  # and takes nothing: the pipe is full
    ],
)
def test_a_program_ends_well_when_its_reader_has_left_or_makes_it_wait_after_ctrl_c(
    write: Callable[[str], None], reader_is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    if not reader_is_there:
        os.close(reader)  # as `| head` does
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(SystemExit) as ended:
            write("as733")
    assert ended.value.code == 0


def test_a_narrow_terminal_cuts_nothing_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as if on a terminal
    monkeypatch.setenv("COLUMNS", "20")
    row = ["a graph", "default@b02dce28", "2026-01-31 12:00", "1,000", 200 * "x"]
    (table := Table(box=None, show_header=False)).add_row(*row)
    wide_console().print(table)
    assert capsys.readouterr().out.split("  ") == [f" {row[0]}", *row[1:4], f"{row[4]} \n"]


def test_the_further_lines_of_an_error_are_indented(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise HistoryDamaged("\x1b[2J first\nsecond")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit):
        main.main()
    assert capsys.readouterr().err == "HistoryDamaged: \\x1b[2J first\n  second\n"


def test_tables_of_archives_and_versions_show_names_escaped(tmp_path: Path) -> None:
    place = str(tmp_path)
    Archive(open_store(place)).add("communities", encode_communities(found(f"{FORGED}Zürich")))
    listed = run_here("history", "list", place)
    assert listed.stdout.count(f"{ESCAPED}Zürich") == 2
    (line,) = run_here("history", "list", place, "--windows").stdout.splitlines()
    assert line.split("\t")[4:7] == [f"{ESCAPED}Zürich"] * 3
    assert "Z\\xfcrich" in run_here("history", "list", place, encoding="ascii").stdout
    comparison = compare([found()], [found()])
    assert drawn(_qualities_table(comparison)).count(ESCAPED) == 4
    assert drawn(_agreements_table(comparison)).count(ESCAPED) == 5


def drawn(table: object) -> str:
    out = io.StringIO()
    Console(file=out, width=1000).print(table)
    text = out.getvalue()
    assert "\x1b" not in text
    return text


def test_a_cell_is_one_line_and_commands_no_spreadsheet_and_no_terminal(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    store, out = open_store(str(tmp_path / "history")), tmp_path / "rows.csv"
    nodes = ("+1", "-1", "=1+1", "@a", "＝1", "＋1", "－1", "＠a", "a=1", "北京")
    Archive(store).add("communities", encode_communities(found("=cmd", nodes)))
    export(store, Selection("communities"), out)
    rows = pa.csv.read_csv(out).to_pylist()
    assert [row["node"] for row in rows] == [*(f"'{node}" for node in nodes[:8]), *nodes[8:]]
    assert {row["graph"] for row in rows} == {"'=cmd"}

    nodes = ("\n=1+1", "\r=1+1", "\t=1+1", "\x1b[2J\x07", "\x9b2J", "\u202ea", "\u2028a")
    formats.writer_of("csv")([found("=cmd\x1b[2J", nodes)], shape_of("communities"))
    lines = capfdbinary.readouterr().out.decode().split("\n")
    assert all(line.isprintable() for line in lines)
    cells = [row["node"] for row in csv.DictReader(lines)]
    assert cells == [printable(node) for node in nodes]


LONG = Record("icd.snapshots.v1", 0, 7, 0, b"x" * 8_000_000, b"", (("ce_id", b"y" * 60_000),))


def test_a_long_name_is_said_briefly_in_logs_dead_letters_and_metrics() -> None:
    assert len(str(described(LONG))) < 500
    letter = dead_letter(LONG, "decode", BadSnapshot("z" * 100_000))
    assert len(dict(letter.headers)["icd_dlq_message"]) < 1100
    came = Record(letter.topic, 0, 0, 0, letter.key, letter.value, letter.headers)
    assert all(len(line) < 600 for line in _table_lines([BadRecord([DeadLetter.of(came)])]))

    metrics = Metrics(60, 60, now=lambda: 0.0)
    records = [Record("t", 0, at, 0, b"%d" % at + b"x" * 80_000, b"") for at in range(200)]
    metrics.watch("t", "g").done(BatchDone(tuple(records), (), 0.1))
    assert len(generate_latest(metrics.registry)) < 100_000
