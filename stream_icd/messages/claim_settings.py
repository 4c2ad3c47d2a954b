"""Settings of the claim store, which holds values too large for a message."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from stream_icd.settings import ENV_PREFIX, Settings
from stream_icd.store.uri import place_of, refuse_password


class ClaimSettings(Settings):
    """The location where large values are written, and from which they are read.

    Set with `STREAM_ICD_CLAIMS_URI`, or `uri` in the `[claims]` table of the TOML file. It never
    holds a password: object stores have their own settings for that, such as AWS_ACCESS_KEY_ID.

    Raises:
        BadSettings: the value or the TOML file is wrong.

    >>> ClaimSettings(uri="s3://bucket/claims/?region=eu-central-1").place
    's3://bucket/claims'
    >>> ClaimSettings(uri="/var/lib/claims").place
    'file:///var/lib/claims'
    """

    model_config = SettingsConfigDict(env_prefix=f"{ENV_PREFIX}CLAIMS_")

    table: ClassVar[str] = "claims"

    uri: str | None = Field(
        default=None, description="a folder, or a URI that pyarrow.fs knows; None: nowhere"
    )

    @field_validator("uri")
    @classmethod
    def _names_a_place(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if "://" not in value:
            if not value.strip():
                raise ValueError("it is empty: give a folder or a URI, or omit it")
            return Path(value).expanduser().absolute().as_uri()
        refuse_password(value)
        return value

    @property
    def place(self) -> str | None:
        """The URI as shown in messages and logs."""
        return None if self.uri is None else place_of(self.uri)
