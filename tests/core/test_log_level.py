"""How much a program says is a setting."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest

from stream_icd.core.log import SeldomFromClient

PROGRAM = """
import logging, structlog
from stream_icd.core.log import configure_logging
configure_logging(json=True)
with structlog.contextvars.bound_contextvars(offset=7):
    structlog.get_logger().debug("small")
    structlog.get_logger().info("usual")
    logging.getLogger("a.library").warning("odd: %d", 1)
    logging.getLogger("kafka.conn").warning("lost")
"""


def run(level: str | None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ) | ({"STREAM_ICD_LOG_LEVEL": level} if level else {})
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("level", "events"),
    [
        (None, ["usual", "odd: 1", "lost"]),
        ("WARNING", ["odd: 1", "lost"]),
        ("debug", ["small", "usual", "odd: 1", "lost"]),
        ("error", []),
    ],
)
def test_a_level_says_what_is_worth_a_line(level: str | None, events: list[str]) -> None:
    lines = [json.loads(line) for line in run(level).stderr.splitlines()]
    assert [line["event"] for line in lines] == events
    assert all(line["offset"] == 7 for line in lines)  # those of libraries, too


def test_a_program_without_standard_error_logs_nothing_and_runs() -> None:
    program = PROGRAM.replace("json=True", "") + "print('ran')"
    command = ["sh", "-c", '"$0" -c "$1" 2>&-', sys.executable, program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "ran\n"


def test_the_traceback_of_an_unexpected_error_shows_no_variables() -> None:
    program = """
import os, sys, typer
typer.Typer.__init__.__kwdefaults__["pretty_exceptions_show_locals"] = True  # as early versions do
from stream_icd.commands.cli import environment, main
def fails(_):
    password = "hid" + "den"
    raise ValueError("unexpected")
environment.check_environment = fails
os.environ["STREAM_ICD_CLIENT_ID"] = "a"
sys.argv[1:] = ["data", "list"]
main.main()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "unexpected" in ended.stderr
    assert "hidden" not in ended.stderr


def test_a_name_forges_no_line_on_a_terminal() -> None:
    program = PROGRAM.replace("json=True", "json=False").replace(
        'info("usual")', r'info("usual\x1b[2J\nforged", graph="g\x1b[2J", error="\r\nforged")'
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, timeout=60, check=True).stderr.decode()
    assert r"usual\x1b[2J\nforged" in said
    assert "\x1b[2J" not in said
    assert len(said.splitlines()) == 3


def test_a_level_that_does_not_exist_is_said() -> None:
    said = run("loud").stderr
    assert "BadSettings: log.log_level" in said
    assert "'debug', 'info', 'warning' or 'error'" in said


@pytest.mark.parametrize("as_json", [False, True])
def test_the_text_of_an_exception_forges_nothing_either(as_json: bool) -> None:
    program = (
        PROGRAM.replace("json=True", f"json={as_json}")
        + r"""
try:
    raise ValueError("g\x1b[2J\x07")
except ValueError:
    structlog.get_logger().exception("failed")
    logging.getLogger("a.library").exception("failed")
"""
    )
    command = [sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, timeout=60, check=True).stderr.decode()
    assert said.count("ValueError: g") == 2
    assert "\x1b[2J" not in said
    assert "\x07" not in said


def test_the_client_says_the_same_once_a_minute() -> None:
    now, lines = 100.0, list[str]()
    seldom = SeldomFromClient(lambda: now)

    def say(name: str, message: str, *args: object) -> None:
        record = logging.LogRecord(name, logging.ERROR, "", 0, message, args, None)
        if seldom.filter(record):
            lines.append(record.getMessage())

    for _ in range(3):
        say("kafka.net.manager", "Connection failed: %s", "KafkaConnectionError: 111")
        say("kafka.cluster", "No node available for metadata refresh - backoff/retry")
        say("kafka.coordinator", "odd: %s", 1)
        say("stream_icd.kafka", "waiting")
        now += 1
    assert lines == [
        "Connection failed: KafkaConnectionError: 111",
        "odd: 1",
        *["waiting"] * 3,
    ]
    now += 60
    say("kafka.cluster", "Metadata refresh: failed %s", "KafkaConnectionError: 111")
    assert lines[-1].endswith("KafkaConnectionError: 111 (and 5 such lines before)")
