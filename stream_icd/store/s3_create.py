"""Create an object in S3 only if there is none: a conditional PUT, which `pyarrow.fs` lacks.

Credentials are found as the AWS tools find them: environment, configuration files, instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from stream_icd.extras import needs_extra

if TYPE_CHECKING:
    import pyarrow as pa

TAKEN, CONFLICT = 412, 409
"""HTTP status if the object exists, and if another conditional PUT is in progress."""

ATTEMPTS = 5


def create_object(uri: str, region: str, path: str, content: pa.Buffer) -> bool:
    """Write `BUCKET/KEY` unless the object exists; return whether it was written.

    If several writers do this at once, exactly one of them gets True.

    Args:
        uri: of the store, with the options `scheme` and `endpoint_override` of `pyarrow.fs`.

    Raises:
        MissingExtra: boto3 is not installed.
        OSError: the store refused, or does not answer.
    """
    with needs_extra("s3", "boto3"):
        import boto3  # noqa: F401
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = path.partition("/")
    client, body = _client(uri, region), content.to_pybytes()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
            return True
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == TAKEN:
                return False
            if status != CONFLICT or attempt == ATTEMPTS:
                raise OSError(str(error)) from error
        except BotoCoreError as error:
            raise OSError(str(error)) from error
    raise AssertionError("the last attempt returns or raises")


def _client(uri: str, region: str) -> Any:
    import boto3
    from botocore.config import Config

    options = {name: values[-1] for name, values in parse_qs(urlsplit(uri).query).items()}
    scheme, endpoint = options.get("scheme", "https"), options.get("endpoint_override")
    address = {"endpoint_url": f"{scheme}://{endpoint}"} if endpoint else {}
    style = {"addressing_style": "path" if endpoint else "auto"}
    return boto3.client("s3", region_name=region, config=Config(s3=style), **address)
