"""Settings from arguments, the environment and a TOML file, checked before use."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from pydantic import AfterValidator, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import did_you_mean, refuse_password

ENV_PREFIX = "STREAM_ICD_"
CONFIG_FILE = f"{ENV_PREFIX}CONFIG_FILE"


def _names_a_place(value: str) -> str:
    if not value.strip():
        raise ValueError("it is empty: give a folder or a URI, or omit it")
    refuse_password(value)
    return value


Place = Annotated[str, AfterValidator(_names_a_place)]
"""A folder, or a URI that `pyarrow.fs` knows, without a password."""


class Settings(BaseSettings):
    """Typed, frozen settings: arguments before the environment before a table of a TOML file.

    `table` names the table in the file, which `config_file` or `STREAM_ICD_CONFIG_FILE` names.
    Raises `BadSettings` if a value, a combination of values or the file is wrong.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    table: ClassVar[str]

    config_file: Path | None = None

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadSettings(_explained(error, self.table)) from None  # that would show secrets

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        path = init_settings().get("config_file") or config_file(os.environ)
        table = _table(Path(path), cls.table) if path else {}
        for name in table.keys() - cls.model_fields.keys():
            raise BadSettings(
                f"settings file {path}: {cls.table}.{name} is not a setting"
                f"{did_you_mean(name, cls.model_fields)}"
            )
        fields = [(name, cls.model_fields[name]) for name in table if name in cls.model_fields]
        secrets = [name for name, field in fields if SecretStr in get_args(field.annotation)]
        if path and secrets:
            _refuse_readable_by_others(Path(path), secrets)
        return init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=table)


def config_file(environment: Mapping[str, str]) -> str | None:
    """Return the settings file that the environment names, in capitals or not."""
    return {name.upper(): value for name, value in environment.items()}.get(CONFIG_FILE)


def secret_in(path: Path, name: str) -> str:
    """Return the secret that is all that a file holds; `ValueError` names the setting `name`."""
    try:
        secret = path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"cannot read {name} {path}: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{name} {path} is not UTF-8 text") from None
    if not secret:
        raise ValueError(f"{name} {path} is empty")
    return secret


def _table(path: Path, name: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get(name, {})
    except OSError as error:
        raise BadSettings(f"cannot read the settings file {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadSettings(f"the settings file {path} is not TOML: {error}") from error
    if not isinstance(table, dict):
        raise BadSettings(f"in the settings file {path}, `{name}` must be a table: [{name}]")
    return table


def _refuse_readable_by_others(path: Path, secrets: Sequence[str]) -> None:
    """Refuse secrets in a file that other users can read, as ssh does for keys."""
    status = path.stat()
    # The group may read a file of another user, such as root: so that one gives access.
    forbidden = 0o077 if status.st_uid == os.getuid() else 0o007
    if status.st_mode & forbidden:
        raise BadSettings(
            f"the settings file {path} holds {' and '.join(secrets)}, and other users may read "
            f"it (mode {status.st_mode & 0o777:04o}): chmod 600 {path}, or name a file with the "
            f"secret alone ({secrets[0]}_file)"
        )


def _explained(error: ValidationError, table: str) -> str:
    """One line per wrong field; never the value itself, which may be a secret."""
    return "; ".join(
        f"{'.'.join(map(str, (table, *problem['loc'])))}: "
        f"{problem['msg'].removeprefix('Value error, ')}"
        for problem in error.errors(include_input=False, include_url=False)
    )
