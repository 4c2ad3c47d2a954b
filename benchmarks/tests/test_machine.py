"""A page says commit, machine and load, or it is not written."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import all as renewing
from benchmarks import steady
from benchmarks.shared.machine import BY_CPU, Machine, _own_seconds


def test_a_page_that_is_written_says_commit_and_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_steady(tmp_path, monkeypatch, others=0.4)
    page = (tmp_path / "steady.md").read_text(encoding="utf-8")
    assert "Measured at commit " in page
    assert "other programs used 0.40 cores." in page


def test_a_page_stays_as_it_was_on_a_busy_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "steady.md").write_text("3 ms\n")
    with pytest.raises(SystemExit, match=r"used 1\.50 cores .* they stand 1\. .* run the same"):
        run_steady(tmp_path, monkeypatch, others=1.5)
    assert (tmp_path / "steady.md").read_text() == "3 ms\n"


def run_steady(folder: Path, monkeypatch: pytest.MonkeyPatch, others: float) -> None:
    options = argparse.Namespace(data=folder, only=["no stream"], docs=folder)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", lambda _: options)
    monkeypatch.setattr(Machine, "others", others)
    steady.main()


def test_what_this_process_starts_is_not_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone() -> float:  # as if nobody else were there
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + ended.ru_utime + ended.ru_stime

    monkeypatch.setattr("benchmarks.shared.machine._all_seconds", alone)
    machine = Machine(BY_CPU)
    spins = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", spins], check=True)
    assert machine.others < 0.05


def test_what_outlives_its_parent_is_not_others(tmp_path: Path) -> None:
    Machine(BY_CPU)
    before, ended = _own_seconds(), tmp_path / "ended"
    spins = f"import time\nwhile time.process_time() < 0.5: pass\nopen({str(ended)!r}, 'w')"
    leaves = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {spins!r}])"
    subprocess.run([sys.executable, "-c", leaves], check=True)
    while not ended.exists():
        time.sleep(0.01)
    assert _own_seconds() - before > 0.5


def test_what_its_parent_does_not_wait_for_is_not_others(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = 0.5
    monkeypatch.setattr("benchmarks.shared.machine._all_seconds", lambda: spent)
    machine = Machine(BY_CPU, watch_s=0.02)
    spins = f"import time\nwhile time.process_time() < {spent}: pass"
    ignores = (
        "import signal, subprocess, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', {spins!r}]).wait()"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", ignores], check=True)
    spent *= 2  # as if this machine had run that process and nothing else
    assert machine.others * (time.monotonic() - began) < 0.2


@pytest.mark.parametrize(("statuses", "expected"), [((0, 0), 0), ((1, 0), 1)])
def test_all_runs_every_program_and_fails_if_one_did(
    statuses: tuple[int, int],
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran, left = [], list(statuses)

    def run(command: list[str], **_: object) -> SimpleNamespace:
        ran.append(command[1:3] + command[-2:])
        return SimpleNamespace(returncode=left.pop(0))

    monkeypatch.setattr(renewing, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(sys, "argv", ["all", "--data", "there", "--only", "replay", "growth"])
    assert renewing.main() == expected
    assert ran == [
        ["-m", "benchmarks.replay", "--data", "there/as733.parquet"],
        ["-m", "benchmarks.growth", "-m", "benchmarks.growth"],
    ]
    assert capsys.readouterr().err.strip() == ("replay: exit status 1" if expected else "")
