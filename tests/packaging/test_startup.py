"""Commands that people wait for, and imports, load only what they name."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import stream_icd
from stream_icd import programs
from stream_icd.methods import names
from stream_icd.wire.communities import encode_communities
from tests.run_here import run_here
from tests.testbed.windows import window

HEAVY = (
    "torch", "numba", "sklearn", "matplotlib", "networkx", "igraph", "cdlib", "opentelemetry",
    "pandas",
)  # fmt: skip
REPORT = f"print('loaded:', *(name for name in {HEAVY} if name in sys.modules))"


def in_a_process(code: str, folder: Path) -> str:
    """The last line that `code` prints, in a process of its own without a broker."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it listens, and does not answer
        environment = {
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "STREAM_ICD_BOOTSTRAP_SERVERS": f"127.0.0.1:{silent.getsockname()[1]}",
            "STREAM_ICD_CONNECT_TIMEOUT_S": "0.1",
        }
        command = [sys.executable, "-c", code]
        shown = subprocess.check_output(command, cwd=folder, env=environment, timeout=60, text=True)
    return shown.splitlines()[-1]


def loaded_by(program: str, folder: Path) -> list[str]:
    """Which heavy libraries are loaded when `program` has ended, in a process of its own."""
    return in_a_process(f"import sys; {program}\n{REPORT}", folder).removeprefix("loaded:").split()


COMMANDS = [
    ("--help",),
    ("produce", "--help"),
    ("consume", "track", "--help"),
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
    ("view", "--history", ".", "--host", "203.0.113.1"),  # last: it looks for no pandas any more
]


EACH = """
import json, sys
from stream_icd.commands.cli.main import main
loaded, before = {{}}, set()
for arguments in {commands}:
    waits = arguments[0] in ("produce", "consume") and "--help" not in arguments
    sys.argv[1:] = [*arguments, *(["--give-up-after", "0s"] if waits else [])]
    try:
        main()
    except SystemExit:
        pass
    now = {{name for name in {heavy} if name in sys.modules}}
    loaded[" ".join(arguments)] = sorted(now - before)
    before |= now
print(json.dumps(loaded))
"""


def test_commands_start_without_the_machinery(tmp_path: Path) -> None:
    (tmp_path / "as19990402.txt").write_text("701\t1239\n1239\t7018\n")
    (tmp_path / "rows.csv").write_text("t,src,dst,taxi,lat,lon\n0,1,2,3,39.9,116.4\n")
    loaded = json.loads(in_a_process(EACH.format(commands=COMMANDS, heavy=HEAVY), tmp_path))
    assert {command: names for command, names in loaded.items() if names} == {}


IMPORTS = (
    "import stream_icd",
    "from stream_icd import subscribe, subscribe_events, subscribe_node",
    "from stream_icd import Communities, Snapshot, Window, snapshot_from_pairs",
    "import stream_icd.kafka.messages.publish",
    # NetworkX reads it when it is imported
    "import stream_icd.interfaces.interop.networkx_info",
)


PACKAGES = (stream_icd, programs, names)


def test_public_names_are_imported_on_first_use_and_others_are_reported(tmp_path: Path) -> None:
    for package in PACKAGES:
        assert all(getattr(package, name) is not None for name in package.__all__)
        wrong = f"module '{package.__name__}' has no attribute 'nme'"
        with pytest.raises(AttributeError, match=wrong):
            _ = package.nme
    program = f"""
import sys, stream_icd
from importlib import import_module
loaded = sorted(name for name in sys.modules if name.startswith("stream_icd."))
packages = map(import_module, {[package.__name__ for package in PACKAGES]})
print(loaded, *(set(package.__all__) - set(dir(package)) for package in packages))"""
    at_first = "['stream_icd.core', 'stream_icd.core.imports']"
    assert in_a_process(program, tmp_path) == f"{at_first} set() set() set()"


def test_imports_load_only_what_they_name_and_the_check_sees_what_is_loaded(tmp_path: Path) -> None:
    assert loaded_by("; ".join(IMPORTS), tmp_path) == []
    hidden = "from stream_icd.core.imports import without_pandas; without_pandas()"
    looks = "import pyarrow as pa; pa.array([701])"  # it imports pandas, if it is there
    assert loaded_by(f"{hidden}; {looks}", tmp_path) == []
    assert loaded_by(f"{hidden}; {looks}; import pandas", tmp_path) == ["pandas"]
    assert loaded_by(looks, tmp_path) == ["pandas"]


def test_listing_commands_loads_none_of_what_they_work_with(tmp_path: Path) -> None:
    code = """
import sys
from importlib.metadata import entry_points
for group in ("producers", "consumers"):
    for entry in entry_points(group=f"stream_icd.{group}"):
        entry.load()
print(*sorted({"pyarrow", "numpy", "scipy", "kafka", "torch"} & set(sys.modules)))"""
    assert in_a_process(code, tmp_path) == ""


def test_an_estimator_needs_no_other_library_of_graphs(tmp_path: Path) -> None:
    """Nor does a detector; neither needs torch."""
    detector = "import consumers.detect, stream_icd.streaming.workers.detect"
    loaded = loaded_by(f"from stream_icd import ICD; ICD.load('default'); {detector}", tmp_path)
    assert {"networkx", "igraph", "cdlib", "torch"}.isdisjoint(loaded)


def test_a_worker_loads_no_pandas(tmp_path: Path) -> None:
    program = (
        "import pyarrow as pa; from contextlib import suppress\n"
        "from stream_icd.kafka.in_process.broker import memory_broker\n"
        "from stream_icd.commands.programs import WorkerOptions, run_worker\n"
        "with memory_broker() as broker, suppress(ZeroDivisionError):\n"
        "    options = WorkerOptions(bootstrap_servers=broker.bootstrap_servers)\n"
        "    run_worker(lambda _: pa.array([701]) and 1 / 0, options, 'test')"
    )
    assert loaded_by(program, tmp_path) == []


SUBSCRIBING = """
import sys
from stream_icd import KafkaSettings, memory_broker, subscribe
from stream_icd.commands.cli.main import main
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, create_topics
with memory_broker() as broker:
    settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
    create_topics(settings)
    with Publisher(settings) as publisher:
        publisher.send(OutgoingRecord(COMMUNITIES, {0.value!r}, {0.key!r}, {0.headers!r}))
""".format(encode_communities(window(0, [0, 0, 1, 1])))


def test_the_subscribe_command_loads_no_pandas_for_a_result(tmp_path: Path) -> None:
    shows = """
    address = ["--bootstrap-servers", broker.bootstrap_servers]
    sys.argv[1:] = ["subscribe", "--until", "end", "--format", "csv", *address]
    try:
        main()
    except SystemExit as end:
        assert not end.code"""
    assert loaded_by(f"{SUBSCRIBING}{shows}", tmp_path) == []


def test_ctrl_c_ends_a_subscription_also_while_pandas_is_imported(tmp_path: Path) -> None:
    stops = """
    class CtrlC:
        def find_spec(self, name, *_):
            if name == "pandas":
                raise KeyboardInterrupt
    sys.meta_path.insert(0, CtrlC())
    try:
        next(subscribe(until="end", settings=settings))
    except KeyboardInterrupt:
        print("ended")"""
    assert in_a_process(f"{SUBSCRIBING}{stops}", tmp_path) == "ended"


def test_training_without_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    for module in [one for one in sys.modules if one.startswith("stream_icd.learning.training")]:
        monkeypatch.delitem(sys.modules, module)
    data = "gn:nodes=60,communities=4,graphs=10"
    done = run_here("train", "--encoder", "Enron", "--data", data)
    assert done.returncode == 78
    assert "pip install 'stream-icd[train]'" in done.stderr
