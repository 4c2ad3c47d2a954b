"""`stream-icd produce as`: what a person sees of good rows, bad rows and wrong options."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.testbed import brokers


def produce_as(broker: brokers.Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stream_icd.commands.cli", "produce", "as", *arguments],
        env={**os.environ, "STREAM_ICD_BOOTSTRAP_SERVERS": broker.bootstrap_servers},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def day_with_bad_rows(folder: Path) -> Path:
    bad = "".join(f"bad{n}\n" for n in range(7))
    (folder / "as19971108.txt").write_text(f"1\t2\n{bad}2\t3\n")
    return folder


def test_bad_rows_are_counted_and_the_first_shown(
    embedded: brokers.Broker, topic_name: str, tmp_path: Path
) -> None:
    done = produce_as(embedded, str(day_with_bad_rows(tmp_path)), "--graph", topic_name)
    assert done.returncode == 0, done.stderr
    assert "bad0" in done.stderr
    assert "bad6" not in done.stderr
    assert '"bad_rows": 7' in done.stderr
    assert '"snapshots": 1' in done.stderr


def test_strict_stops_at_the_first_bad_row(
    embedded: brokers.Broker, topic_name: str, tmp_path: Path
) -> None:
    folder = day_with_bad_rows(tmp_path)
    done = produce_as(embedded, str(folder), "--graph", topic_name, "--strict")
    assert done.returncode == 65
    assert "BadRow: as19971108.txt: 'bad0' is not a pair of AS numbers" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_path_and_a_wrong_day_are_one_line_of_advice(
    embedded: brokers.Broker, tmp_path: Path
) -> None:
    done = produce_as(embedded, str(tmp_path / "absent"))
    assert done.returncode == 78
    assert done.stderr.startswith("SourceNotFound: nothing at")
    done = produce_as(embedded, str(day_with_bad_rows(tmp_path)), "--from", "1997")
    assert done.returncode == 78
    assert done.stderr == "BadSettings: --from '1997': give a day as YYYY-MM-DD\n"
