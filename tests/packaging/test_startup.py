"""Commands that people wait for start without the machinery of detection."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "torch",
    "numba",
    "sklearn",
    "matplotlib",
    "networkx",
    "igraph",
    "cdlib",
    "opentelemetry",
    "pandas",
)
REPORT = f"print('loaded:', *(name for name in {HEAVY} if name in sys.modules))"


def loaded_by(program: str, folder: Path) -> list[str]:
    """Which heavy libraries are loaded when `program` has ended, in a process of its own."""
    code = f"import sys\ntry:\n    {program}\nexcept SystemExit:\n    pass\n{REPORT}"
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it listens, and does not answer
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env={
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "STREAM_ICD_BOOTSTRAP_SERVERS": f"127.0.0.1:{silent.getsockname()[1]}",
                "STREAM_ICD_CONNECT_TIMEOUT_S": "0.1",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    return done.stdout.splitlines()[-1].removeprefix("loaded:").split()


def command(*arguments: str) -> str:
    return f"sys.argv[1:] = {list(arguments)}; from stream_icd.cli.main import main; main()"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("subscribe", "--help"),
        ("produce", "--help"),
        ("produce", "as", "--help"),
        ("produce", "lfr", "--help"),
        ("consume", "detect", "--help"),
        ("consume", "track", "--help"),
        ("topics", "create", "--help"),
        # As far as they come without a broker: everything that they need is loaded by then.
        ("subscribe",),
        ("subscribe", "--node", "701"),
        ("consume", "detect"),  # its worker processes load it
        ("topics", "create"),
        ("produce", "as", "as19990402.txt"),
        ("produce", "lfr", "--limit", "1"),
        ("produce", "gn", "--limit", "1"),
        ("produce", "events", "rows.csv"),
        ("produce", "taxi", "rows.csv"),
        ("produce", "files", "."),
        ("data", "list"),
        ("view", "--help"),
        ("dlq", "list"),
        ("dlq", "retry", "--all"),
        ("data", "fetch", "--help"),
    ],
    ids=" ".join,
)
def test_a_command_starts_without_the_machinery(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "as19990402.txt").write_text("701\t1239\n1239\t7018\n")
    (tmp_path / "rows.csv").write_text("t,src,dst,taxi,lat,lon\n0,1,2,3,39.9,116.4\n")
    assert loaded_by(command(*arguments), tmp_path) == []


@pytest.mark.parametrize(
    "statement",
    [
        "import stream_icd",
        "from stream_icd import subscribe, subscribe_events, subscribe_node",
        "from stream_icd import Communities, Snapshot, Window, snapshot_from_pairs",
        "import stream_icd.messages.publish",
        "import stream_icd.interop.networkx_info",  # NetworkX reads it when it is imported
    ],
)
def test_an_import_loads_only_what_it_names(statement: str, tmp_path: Path) -> None:
    assert loaded_by(statement, tmp_path) == []


def test_the_check_itself_sees_what_is_loaded(tmp_path: Path) -> None:
    assert loaded_by("import matplotlib", tmp_path) == ["matplotlib"]


def test_an_estimator_needs_no_other_library_of_graphs(tmp_path: Path) -> None:
    loaded = loaded_by("from stream_icd import ICD; ICD.load('default')", tmp_path)
    assert {"networkx", "igraph", "cdlib"}.isdisjoint(loaded)


def test_a_detector_needs_no_torch(tmp_path: Path) -> None:
    assert "torch" not in loaded_by("import consumers.detect, stream_icd.workers.detect", tmp_path)


def test_pyarrow_brings_no_pandas_into_a_worker_process(tmp_path: Path) -> None:
    looks = "import pyarrow as pa; pa.array([701])"
    hidden = "from stream_icd.execution.engines import without_pandas; without_pandas()"
    assert loaded_by(looks, tmp_path) == ["pandas"]
    assert loaded_by(f"{hidden}; {looks}", tmp_path) == []
    assert loaded_by(f"{hidden}; {looks}; import pandas", tmp_path) == ["pandas"]


def test_training_without_torch_says_what_to_install(tmp_path: Path) -> None:
    arguments = ["train", "--encoder", "Enron", "--data", "gn:nodes=60,communities=4,graphs=10"]
    code = (
        "import sys; sys.modules['torch'] = None  # as if it were not installed\n"
        f"{command(*arguments)}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 78
    assert "pip install 'stream-icd[train]'" in done.stderr
