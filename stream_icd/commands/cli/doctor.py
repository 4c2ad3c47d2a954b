"""`stream-icd doctor`: is all there that the programs need, and if not, what is to be done."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from stream_icd.commands.programs.declared import command
from stream_icd.commands.programs.options import BrokerOptions, RegistryUri
from stream_icd.core.errors import Action, StreamIcdError
from stream_icd.core.printable import listed, printable, say

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings

app = typer.Typer()

_State = Literal["ok", "warning", "error"]
_AHEAD_S = 60
"""Records that the broker received this long after now show that the clocks differ."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """What a check found; of an error, whether a later try may succeed."""

    state: _State
    says: str
    may_pass: bool = False


@command(app, "doctor")
class _Doctor(BrokerOptions):
    """Check what the programs need: broker, transactions, topics, registry, memory, clock.

    Prints one line for each check, with what to do if something is wrong. It publishes nothing. The
    exit status is 0 without errors, 75 if a later try may succeed, such as when no broker listens,
    and otherwise 78; warnings do not change it.

      stream-icd doctor
      stream-icd doctor -b kafka-1:9092 --registry s3://bucket/models
    """

    registry: RegistryUri = None

    def run(self) -> None:
        settings = self.kafka(check=False)
        findings = list(_examined(settings, self.registry))
        errors = [finding for finding in findings if finding.state == "error"]
        if errors:
            raise typer.Exit(75 if all(error.may_pass for error in errors) else 78)


def _examined(settings: KafkaSettings, registry: str | None) -> Iterator[_Finding]:
    """Run all checks, and print a line for each; without a broker, not those of the broker."""
    yield _shown("versions", _versions)
    broker = _shown("broker", lambda: _broker(settings))
    yield broker
    if broker.state != "error":
        yield _shown("transactions", lambda: _transactions(settings))
        yield _shown("topics", lambda: _topics(settings))
        yield _shown("clock", lambda: _clock(settings))
    yield _shown("registry", lambda: _registry(registry))
    yield _shown("memory", _memory)


def _shown(name: str, check: Callable[[], _Finding]) -> _Finding:
    try:
        finding = check()
    except StreamIcdError as error:
        finding = _Finding("error", str(error), error.action is Action.RETRY)
    say(f"{finding.state:8} {name:13} {printable(finding.says)}")
    return finding


def _versions() -> _Finding:
    from stream_icd.core.version import __version__

    client = version("kafka-python")
    python = platform.python_version()
    return _Finding("ok", f"stream-icd {__version__}, Python {python}, kafka-python {client}")


def _broker(settings: KafkaSettings) -> _Finding:
    from stream_icd.kafka.connect import recognise
    from stream_icd.kafka.settings import check_that_somebody_listens

    check_that_somebody_listens(settings)
    began = time.monotonic()
    software = recognise(settings).software
    took_ms = 1000 * (time.monotonic() - began)
    names = {"kafka": "Apache Kafka", "tansu": "the embedded broker", "memory": "in memory"}
    shown = names.get(software, "a broker of another kind")
    by = f"{settings.bootstrap_servers} ({settings.security_protocol}) answers in {took_ms:.0f} ms"
    return _Finding("ok", f"{by}: {shown}")


def _transactions(settings: KafkaSettings) -> _Finding:
    from stream_icd.kafka.connect import connect, recognise

    if recognise(settings).hides_aborted is False:
        return _Finding(
            "warning",
            "this broker shows aborted records to readers, so delivery is at-least-once. For "
            "exactly-once, use Apache Kafka",
        )
    # As a detector would be called, so that it needs no other rights.
    connect(settings).transactional_producer("stream-icd-detect-doctor").close(1.0)
    return _Finding("ok", "the broker begins transactions: delivery is exactly-once")


def _topics(settings: KafkaSettings) -> _Finding:
    from stream_icd.kafka.connect import connect
    from stream_icd.kafka.topics import DEFAULT_TOPICS

    missing, different = list[str](), list[str]()
    with connect(settings).admin() as admin:
        for spec in DEFAULT_TOPICS:
            existing = admin.describe_topic(spec.name)
            if existing is None:
                missing.append(spec.name)
            elif differs := existing.unlike(spec):
                different.append(f"{spec.name}: {', '.join(differs)}")
    if missing:
        return _Finding(
            "error", f"missing: {listed(missing)}. Run stream-icd topics create, or ask for them"
        )
    if different:
        return _Finding("warning", f"change with kafka-configs.sh: {'; '.join(different)}")
    return _Finding("ok", f"all {len(DEFAULT_TOPICS)} are there, with suitable settings")


def _clock(settings: KafkaSettings) -> _Finding:
    from stream_icd.kafka.connect import connect
    from stream_icd.kafka.port import TopicPartition
    from stream_icd.kafka.topics import SNAPSHOTS

    with connect(settings).admin() as admin:
        existing = admin.describe_topic(SNAPSHOTS)
    places = [TopicPartition(SNAPSHOTS, n) for n in range(existing.partitions if existing else 0)]
    with closing(connect(settings).reader()) as reader:
        reader.assign(places)
        later = reader.at_time(places, round(1000 * (time.time() + _AHEAD_S))) if places else {}
    if later:
        return _Finding(
            "warning",
            f"{SNAPSHOTS} holds records from more than {_AHEAD_S} s after this machine's time: "
            "synchronise the clocks of this machine and of the brokers (NTP)",
        )
    return _Finding("ok", f"no record of {SNAPSHOTS} is from later than now")


def _registry(uri: str | None) -> _Finding:
    from stream_icd.registry.aliases import current
    from stream_icd.registry.settings import registry_at

    if (registry := registry_at(uri)) is None:
        return _Finding("ok", "none is set (--registry, or STREAM_ICD_REGISTRY)")
    if (aliases := current(registry)) is None:
        return _Finding(
            "error",
            "it has no champion: run stream-icd models import default --first-champion, with its "
            "--registry",
        )
    return _Finding("ok", f"its champion is {aliases.champion}")


def _memory() -> _Finding:
    """Compare the machine, or the limit of the container, with docs/operating.md, "Memory"."""
    from stream_icd.streaming.execution.budget import Budget, MemorySettings

    need = 0.1 + MemorySettings().cache_bytes / 2**30 + 0.2 + Budget().memory_bytes / 2**30
    have = _memory_bytes() / 2**30
    if have < need:
        return _Finding(
            "warning",
            f"{have:.1f} GiB, and a detector with one process may take {need:.1f} GiB: give more, "
            "or lower STREAM_ICD_MEMORY_CACHE_BYTES and STREAM_ICD_BUDGET_MEMORY_BYTES",
        )
    return _Finding("ok", f"{have:.1f} GiB; a detector with one process may take {need:.1f} GiB")


def _memory_bytes(limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Return the memory of this machine, or of this container if that has a limit."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(limit.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no cgroups of version 2, or "max"
        return machine
