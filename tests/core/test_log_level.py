"""How much a program says is a setting, and no text that it logs forges a line."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from stream_icd.core.errors import BadSettings
from stream_icd.core.log import _SeldomFromClient, configure_logging


@pytest.fixture(autouse=True)
def plain_structlog() -> Iterator[None]:
    """Put back how this process logs."""
    yield
    structlog.reset_defaults()


def say() -> None:
    with structlog.contextvars.bound_contextvars(offset=7):
        structlog.get_logger().debug("small")
        structlog.get_logger().info("usual")
        logging.getLogger("a.library").warning("odd: %d", 1)
        logging.getLogger("kafka.conn").warning("lost")


def test_a_level_says_what_is_worth_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = ["small", "usual", "odd: 1", "lost"]
    for level, n_left_out in ((None, 1), ("WARNING", 2), ("debug", 0), ("error", 4)):
        if level is not None:
            monkeypatch.setenv("STREAM_ICD_LOG_LEVEL", level)
        configure_logging(json=True)
        say()
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [line["event"] for line in lines] == events[n_left_out:]
        assert all(line["offset"] == 7 for line in lines)  # those of libraries, too
    monkeypatch.setenv("STREAM_ICD_LOG_LEVEL", "loud")
    with pytest.raises(BadSettings, match=r"log\.log_level.*'debug', 'info', 'warning' or 'error'"):
        configure_logging()


def test_a_program_without_standard_error_logs_nothing_and_runs() -> None:
    program = """
import logging
from stream_icd.core.log import configure_logging
configure_logging()
logging.getLogger("a.library").warning("odd")
print("ran")
"""
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


@pytest.mark.parametrize("as_json", [False, True])
def test_no_text_forges_a_line(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=as_json)
    log = structlog.get_logger()
    log.info("usual\x1b[2J\nforged", graph="g\x1b[2J", error="\r\nforged")
    lines = capsys.readouterr().err
    assert (len(lines.splitlines()), "\x1b[2J" in lines) == (1, False)
    assert as_json or r"usual\x1b[2J\nforged" in lines
    try:
        raise ValueError("g\x1b[2J\x07")
    except ValueError:
        log.exception("failed")
        logging.getLogger("a.library").exception("failed")
    lines = capsys.readouterr().err
    assert lines.count("ValueError: g") == 2
    assert ("\x1b[2J" in lines, "\x07" in lines) == (False, False)


def test_the_client_says_the_same_once_a_minute() -> None:
    now, lines = 100.0, list[str]()
    seldom = _SeldomFromClient(lambda: now)

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
    assert lines == ["Connection failed: KafkaConnectionError: 111", "odd: 1", *["waiting"] * 3]
    now += 60
    say("kafka.cluster", "Metadata refresh: failed %s", "KafkaConnectionError: 111")
    assert lines[-1].endswith("KafkaConnectionError: 111 (and 5 such lines before)")
