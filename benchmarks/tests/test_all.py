"""What renews all pages: a page says where it was measured, or stays as it was."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import all as renewing
from benchmarks.all import Page, renewed, stamped
from benchmarks.shared.machine import Machine


def test_a_section_gets_the_stamp_and_the_rest_of_its_page_stays() -> None:
    page = "# Page\n\n<!-- benchmarks/a.py -->\n3 s\n<!-- end -->\nmore\n"
    line = "Measured at commit 1, 2 cores."
    expected = page.replace("3 s\n", f"3 s\n\n{line}\n")
    assert stamped(page, "Commit 1, 2 cores.", "a.py") == expected


@pytest.mark.parametrize(
    ("others", "exit_status", "is_new"), [(0.0, 0, True), (0.5, 0, False), (0.0, 1, False)]
)
def test_a_page_is_new_or_stays_as_it_was(
    others: float, exit_status: int, is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        (tmp_path / "a.md").write_text("# Times\n\n4 s\n")
        return subprocess.CompletedProcess([], exit_status)

    (tmp_path / "a.md").write_text("3 s\n")
    monkeypatch.setattr(renewing, "DOCS", tmp_path)
    monkeypatch.setattr(renewing, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(Machine, "others", others)
    why = renewed(Page("a.md", "a", (), 0.1), tmp_path)
    text = (tmp_path / "a.md").read_text()
    assert (why is None) == is_new
    assert text.startswith("# Times\n\n4 s\n\nMeasured at commit ") if is_new else text == "3 s\n"


def test_what_this_process_starts_is_not_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone() -> float:  # as if nobody else were there
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime

    monkeypatch.setattr("benchmarks.shared.machine._all_seconds", alone)
    machine = Machine()
    spins = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", spins], check=True)
    assert machine.others < 0.05
