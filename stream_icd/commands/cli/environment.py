"""Settings with a name that does not exist: reported before their absence does harm."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from stream_icd.core.errors import BadSettings
from stream_icd.core.log import LogSettings
from stream_icd.core.printable import did_you_mean
from stream_icd.core.settings import CONFIG_FILE, ENV_PREFIX, Settings, config_file
from stream_icd.kafka.messages.claims import ClaimSettings
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.tracing import TraceSettings
from stream_icd.registry.settings import RegistrySettings
from stream_icd.streaming.execution.budget import Budget, MemorySettings
from stream_icd.streaming.workers.deliver import AlertSettings
from stream_icd.wire.limits import Limits

SETTINGS: tuple[type[Settings], ...] = (
    KafkaSettings,
    ClaimSettings,
    RegistrySettings,
    Limits,
    Budget,
    LogSettings,
    MemorySettings,
    TraceSettings,
    AlertSettings,
)
"""All settings classes (a test looks for others)."""

_OF_THE_TESTS = (f"{ENV_PREFIX}TEST_", f"{ENV_PREFIX}REQUIRE_KAFKA")


def check_environment(environment: Mapping[str, str]) -> list[str]:
    """Refuse misspelt settings and a wrong log level; return warnings about unknown names.

    A name close to that of a setting may be about security. Others may be of other packages, or of
    Kubernetes, which sets STREAM_ICD_PORT and the like for a service of that name.
    """
    ours = [name for name in map(str.upper, environment) if name.startswith(ENV_PREFIX)]
    names = {name.removeprefix(ENV_PREFIX) for name in ours if not name.startswith(_OF_THE_TESTS)}
    settable = {name.removeprefix(ENV_PREFIX) for name in _variables()}
    warnings = _check(names, settable, f"environment variable {ENV_PREFIX}", ENV_PREFIX)
    if path := config_file(environment):
        tables, in_file = {settings.table for settings in SETTINGS}, _tables(Path(path))
        for settings in SETTINGS:
            for name in settings.model_fields.keys() & in_file - tables:
                raise BadSettings(
                    f"settings file {path}: {name} is in no table: put it below [{settings.table}]"
                )
        warnings += _check(in_file, tables, f"settings file {path}: table ", "")
    LogSettings()  # every command refuses a wrong level, also one that logs nothing
    return warnings


def _variables() -> Iterator[str]:
    yield CONFIG_FILE
    for settings in SETTINGS:
        prefix = settings.model_config["env_prefix"]
        fields = (field for field in settings.model_fields if field != "config_file")
        yield from (f"{prefix}{field}".upper() for field in fields)


def _check(names: Set[str], settable: Set[str], place: str, prefix: str) -> list[str]:
    unknown = sorted(names - settable)
    for name in unknown:
        if meant := did_you_mean(name, settable, prefix):
            raise BadSettings(f"{place}{name} is not a setting{meant}")
    return [f"{place}{name} is not a setting and has no effect" for name in unknown]


def _tables(path: Path) -> Set[str]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).keys()
    except (OSError, ValueError):
        return set()  # reported by whoever reads a setting
