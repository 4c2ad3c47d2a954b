"""Settings of the model registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from stream_icd.core.errors import BadSettings
from stream_icd.core.settings import Place, Settings

if TYPE_CHECKING:
    from stream_icd.core.store.store import Store


class RegistrySettings(Settings):
    """Where the model registry is, and how often a detector looks there.

    Set with `STREAM_ICD_REGISTRY` and `STREAM_ICD_REGISTRY_CHECK_S`, or in the `[models]` table of
    the TOML file. Raises `BadSettings` if a value or the file is wrong.

    >>> RegistrySettings(registry="s3://bucket/models").registry
    's3://bucket/models'
    """

    table: ClassVar[str] = "models"

    registry: Place | None = Field(
        default=None, description="a folder, or a URI that pyarrow.fs knows; None: no registry"
    )
    registry_check_s: float = Field(
        default=10.0, gt=0, le=86_400, description="between two looks for a new champion"
    )


def registry_at(uri: str | None) -> Store | None:
    """Open the registry at `uri`, or at the setting's place; None if neither is given."""
    from stream_icd.core.store.store import open_store  # takes long to import

    settings = RegistrySettings() if uri is None else RegistrySettings(registry=uri)
    return None if settings.registry is None else open_store(settings.registry)


def required(registry: Store | None) -> Store:
    """Return the registry, or raise BadSettings if there is none."""
    if registry is None:
        raise BadSettings("which registry? Give --registry, or set STREAM_ICD_REGISTRY")
    return registry
