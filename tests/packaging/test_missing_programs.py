"""What is skipped for want of a program is said before the first test."""

from __future__ import annotations

import conftest
from tests.testbed.programs import told_missing


def test_each_missing_program_is_said_with_the_way_to_get_it() -> None:
    chromium, promtool = told_missing(None, None)
    assert "tests of the live page are skipped" in chromium
    assert "apt install chromium" in chromium
    assert "apt install prometheus" in promtool
    assert told_missing("/usr/bin/chromium", "/usr/bin/promtool") == []
    assert conftest.pytest_report_header() == told_missing()
