"""`stream-icd` in this process: what it prints and its exit status, without waiting for a start.

For what a command says and does. What a process of its own is needed for (signals, pipes, kills)
is tested with one.
"""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest import mock

from stream_icd.commands.cli.main import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    output: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.output.decode()


def run_here(*arguments: str, encoding: str = "utf-8") -> Done:
    """Run `stream-icd ARGUMENTS`, and put back what it does to streams."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    status: object = 0
    try:
        with (
            mock.patch.object(sys, "argv", ["stream-icd", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            main()
    except SystemExit as ended:
        status = ended.code or 0
    assert isinstance(status, int)
    return Done(status, written(out), written(err).decode())


def written(stream: io.TextIOWrapper) -> bytes:
    """What a stream holds; it stays open, for threads that log when the command has ended."""
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()
