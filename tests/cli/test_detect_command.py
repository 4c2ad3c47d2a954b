"""Options of `stream-icd consume detect` that contradict each other."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from consumers.detect import app
from stream_icd.errors import BadSettings


@pytest.mark.parametrize("threads", ["1", "4"])
def test_threads_are_refused_where_they_would_do_nothing(threads: str) -> None:
    done = CliRunner().invoke(app, ["--threads", threads])
    assert isinstance(done.exception, BadSettings)
    assert f"--threads {threads} has no effect" in str(done.exception)
    assert "--processes" in str(done.exception)
