"""`--help`, `--version` and completion: what a newcomer types first."""

from __future__ import annotations

import errno
import inspect
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from consumers.archive import Kinds
from stream_icd.commands.cli.main import _BuiltIn, _Consumers, app
from stream_icd.history.files import FILE_KINDS
from tests.command_lines import all_commands, arguments_of, complaint
from tests.run_here import run_here

COMMANDS = list(all_commands())
EVERYTHING = [(), *sorted({command[:1] for command in COMMANDS if len(command) > 1}), *COMMANDS]


@cache
def rendered(command: tuple[str, ...]) -> str:
    """The help of a command in a terminal of 80 columns."""
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.output


def source_of(command: tuple[str, ...]) -> str:
    """The text that the help of a command is made of."""
    found: Any = typer.main.get_command(app)
    for name in command:
        found = found.get_command(found.context_class(found), name)
    return inspect.getdoc(found.callback) or ""


def examples(command: tuple[str, ...]) -> Iterator[str]:
    lines = source_of(command).splitlines()
    return (line.strip() for line in lines if line.strip().startswith(("stream-icd ", "bgpdump ")))


@pytest.mark.parametrize("command", EVERYTHING, ids=" ".join)
def test_paragraphs_fill_80_columns_and_examples_are_whole_and_can_be_typed(
    command: tuple[str, ...],
) -> None:
    shown = [line.strip() for line in rendered(command).splitlines()]
    assert "<bool>" not in rendered(command), "flags have no value"
    assert list(examples(command)) or command not in COMMANDS, "give it an example"
    for example in examples(command):
        assert example in shown, f"{command}: shorten {example!r}, or indent it by two"
        arguments = arguments_of(example.removesuffix("\\"))
        assert arguments is None or not complaint(arguments), complaint(arguments or [])
    for paragraph in source_of(command).split("\n\n") if command in COMMANDS else ():
        if not paragraph.startswith(" "):
            text = " ".join(paragraph.split())
            assert set(textwrap.wrap(text, 78, break_on_hyphens=False)) <= set(shown)


def test_brackets_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'stream-icd[local]'" in rendered(("broker",))
    other = typer.Typer(help="Needs [red] and [/red].")

    @other.command(help="Read a[b].")
    def read(path: str = typer.Option("x", help="One of [local] or [train].")) -> None:
        """It has options only."""

    monkeypatch.setattr(_BuiltIn, "members", lambda _: {"read": lambda: other})
    said = rendered(("read",))
    assert "a[b]" in said
    assert "[local] or [train]" in said


def test_the_version_is_shown() -> None:
    assert run_here("--version").stdout == f"stream-icd {version('stream-icd')}\n"


def test_completion_is_offered_once_for_the_whole_program() -> None:
    offering = [command for command in EVERYTHING if "--install-completion" in rendered(command)]
    assert offering == [()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [("stream-icd prod", "produce"), ("stream-icd consume det", "detect")],
)
def test_completion_finds_commands_of_all_levels(
    words: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_STREAM_ICD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    program = (
        "import sys; sys.argv[0] = 'stream-icd'; "
        "from stream_icd.commands.cli.main import main; main()"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == [expected], done.stderr


def test_the_help_of_consume_names_every_consumer() -> None:
    said = rendered(("consume",)).partition("Options")[0]
    for name in _Consumers().members():
        assert name.removesuffix("e")[:6] in said


def test_archive_takes_every_kind_that_it_stores_by_default() -> None:
    assert [Kind.value for Kind in Kinds] == list(FILE_KINDS)


def test_a_file_that_the_system_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (link := tmp_path / "x.csv").symlink_to("x.csv")
    for said, *command in (
        ("[Errno 36] File name too long", "report", "--history", "x", "--names", 300 * "n"),
        ("[Errno 40] Too many levels of symbolic", "produce", "events", str(link)),
    ):
        refused = run_here(*command)
        assert refused.returncode == 78
        assert refused.stderr.startswith(f"OSError: {said}")

    def denied(_: Path) -> Iterator[Path]:  # root may read all folders
        raise PermissionError(errno.EACCES, "Permission denied", "days")

    monkeypatch.setattr(Path, "iterdir", denied)
    done = run_here("produce", "as", str(tmp_path))
    assert (done.returncode, done.stderr) == (78, "OSError: [Errno 13] Permission denied: 'days'\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_behind_the_output_is_said_in_one_line() -> None:
    command = [sys.executable, "-m", "stream_icd.commands.cli", "--version"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (75, "OSError: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("produce", "as", ""), "the path of a file or folder is empty"),
        (("produce", "files", ""), "the path of a file or folder is empty"),
        (("produce", "events", "-"), "- is not standard input"),
        (("report", "--history", "x", "--out", "-"), "- is not standard input or output"),
        (("train", "--data", "lfr", "--out", "-"), "- is not standard input or output"),
    ],
)
def test_an_empty_path_is_not_this_folder_and_a_dash_no_file(
    command: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_here(*command)
    assert (done.returncode, said in done.stderr) == (78, True)
