"""Count late rows, which arrived after their windows closed, and write them to a file."""

from __future__ import annotations

import json
from pathlib import Path

import structlog

from stream_icd.errors import BadSettings
from stream_icd.sources.durations import time_at
from stream_icd.sources.source import Count
from stream_icd.sources.windows import TimedRows


class LateRows:
    """Appends late rows to a file of JSON lines, created at the first late row.

    Each line records where its row was read (`at`), so that a row read again after a restart is
    not written twice. The log names the file once.

    Raises:
        BadSettings: the file cannot be read or written, or has other content.
    """

    def __init__(self, path: Path, count: Count) -> None:
        self._path = path
        self._count = count
        self._known = _known(path)
        self._reported = False

    def __call__(self, late: TimedRows) -> None:
        self._count("late_rows", len(late.place))
        if not self._reported:
            structlog.get_logger().warning(
                "rows arrived too late for their windows", file=str(self._path)
            )
            self._reported = True
        rows = late.rows.to_pylist()
        lines = []
        for place, time, row in zip(late.place.tolist(), late.time.tolist(), rows, strict=True):
            at = f"{late.origin}:{place}"
            if at not in self._known:
                self._known.add(at)
                lines.append(json.dumps({"at": at, "time": time_at(time).isoformat(), **row}))
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
        except OSError as error:
            raise BadSettings(f"cannot keep late rows in {self._path}: {error.strerror}") from error


def _known(path: Path) -> set[str]:
    if not path.exists():
        return set()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return {json.loads(line)["at"] for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadSettings(
            f"{path} does not hold late rows ({error}); give another file with --late-rows"
        ) from error
