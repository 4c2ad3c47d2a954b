"""What all commands do: `--help`, `--version`, completion, settings of the environment, errors."""

from __future__ import annotations

import errno
import inspect
import os
import re
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

import stream_icd
from consumers.archive import Kinds
from stream_icd.commands.cli.environment import SETTINGS, _variables, check_environment
from stream_icd.commands.cli.main import _BuiltIn, _Consumers, app
from stream_icd.core.errors import BadSettings
from stream_icd.history.files import FILE_KINDS
from tests.documents import all_commands, arguments_of, complaint
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
def test_help_fills_80_columns_and_its_examples_can_be_typed(command: tuple[str, ...]) -> None:
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


def test_the_version_is_that_of_the_installed_package() -> None:
    assert run_here("--version").stdout == f"stream-icd {version('stream-icd')}\n"
    assert stream_icd.__version__ == version("stream-icd")


def test_completion_is_offered_once_for_the_whole_program() -> None:
    offering = [command for command in EVERYTHING if "--install-completion" in rendered(command)]
    assert offering == [()]


def test_completion_finds_commands_of_all_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys; sys.argv[0] = 'stream-icd'; "
        "from stream_icd.commands.cli.main import main; main()"
    )
    monkeypatch.setenv("_STREAM_ICD_COMPLETE", "complete_bash")
    for words, expected in (("stream-icd prod", "produce"), ("stream-icd consume det", "detect")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.split() == [expected], done.stderr


def test_the_help_of_consume_names_every_consumer() -> None:
    said = rendered(("consume",)).partition("Options")[0]
    for name in _Consumers().members():
        assert name.removesuffix("e")[:6] in said


def test_archive_takes_every_kind_that_it_stores_by_default() -> None:
    assert [Kind.value for Kind in Kinds] == list(FILE_KINDS)


def test_a_file_that_is_refused_is_one_line(
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


def test_an_empty_path_and_a_dash_are_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for said, *command in (
        ("the path of a file or folder is empty", "produce", "as", ""),
        ("- is not standard input", "produce", "events", "-"),
        ("- is not standard input or output", "report", "--history", "x", "--out", "-"),
        ("- is not standard input or output", "train", "--data", "lfr", "--out", "-"),
    ):
        done = run_here(*command)
        assert (done.returncode, said in done.stderr) == (78, True)


def test_a_misspelt_variable_is_refused_with_the_name_that_was_meant() -> None:
    for name, meant in (
        ("BOOTSTRAP_SERVER", "BOOTSTRAP_SERVERS"),
        ("LIMIT_ROWS", "LIMITS_ROWS"),
        ("CONFIGFILE", "CONFIG_FILE"),
    ):
        refused = f"STREAM_ICD_{name} is not a setting; did you mean STREAM_ICD_{meant}"
        with pytest.raises(BadSettings, match=refused):
            check_environment({f"STREAM_ICD_{name}": "x"})


def test_what_other_programs_set_is_reported_and_real_settings_are_silent() -> None:
    others = {"STREAM_ICD_PORT": "tcp://10.0.0.1:9464", "STREAM_ICD_SERVICE_HOST": "10.0.0.1"}
    warnings = check_environment(others)
    assert [warning.split()[2] for warning in warnings] == sorted(others)
    assert all("has no effect" in warning for warning in warnings)
    names = [*_variables(), "STREAM_ICD_TEST_KAFKA", "STREAM_ICD_REQUIRE_KAFKA", "PATH"]
    given = {name: "x" for name in names if name != "STREAM_ICD_CONFIG_FILE"}
    assert check_environment(given) == []
    assert check_environment({name.lower(): "x" for name in given}) == []


def test_the_settings_file_has_tables_and_settings_that_exist(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"

    def check(text: str) -> list[str]:
        file.write_text(text)
        return check_environment({"STREAM_ICD_CONFIG_FILE": str(file)})

    with pytest.raises(BadSettings, match="table kafak is not a setting; did you mean kafka"):
        check('[kafak]\nbootstrap_servers = "a:1"\n')
    (warning,) = check('[someone_elses]\nx = 1\n[kafka]\nbootstrap_servers = "a:1"\n')
    assert "table someone_elses is not a setting" in warning
    with pytest.raises(BadSettings, match=r"security_protocol is in no table: .* below \[kafka\]"):
        check('security_protocol = "SASL_SSL"\n[traces]\ntraces = "on"\n')
    assert check('[traces]\ntraces = "on"\n') == []


def test_every_command_checks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_ICD_LOG_LEVEL", "loud")
    assert run_here("data", "list").stderr.startswith("BadSettings: ")
    monkeypatch.setenv("STREAM_ICD_LOG_LEVEL", "debug")
    monkeypatch.setenv("STREAM_ICD_PORT", "1")
    done = run_here("data", "list")
    assert done.returncode == 0
    assert "STREAM_ICD_PORT is not a setting" in done.stderr


def test_all_settings_classes_are_known() -> None:
    root = Path(stream_icd.__file__).parent
    text = "".join(file.read_text(encoding="utf-8") for file in root.rglob("*.py"))
    assert set(re.findall(r"^class (\w+)\(Settings\)", text, re.MULTILINE)) == {
        one.__name__ for one in SETTINGS
    }
