"""An object store as S3 is one, in this process: nothing of it is on a disk or in the cloud."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock
from uuid import uuid4

from moto.server import ThreadedMotoServer
from pyarrow import fs

BUCKET = "bucket"
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "a key",
    "AWS_SECRET_ACCESS_KEY": "a secret",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def object_store() -> Iterator[str]:
    """The options of a URI that reach it, once it has a bucket; its account is in the environment.

    Programs that are started meanwhile reach it, too.
    """
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # else a line a request
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    address = {"endpoint_override": f"127.0.0.1:{port}", "scheme": "http", "region": "us-east-1"}
    options = "&".join(f"{name}={value}" for name, value in address.items())
    try:
        with mock.patch.dict(os.environ, ACCOUNT):
            _make_bucket(BUCKET, options)
            yield options
    finally:
        server.stop()


def new_folder(options: str) -> str:
    """The URI of a folder that nobody has used."""
    return f"s3://{BUCKET}/{uuid4().hex}?{options}"


def new_bucket(options: str) -> str:
    """The URI of a whole bucket that nobody has used."""
    name = f"bucket-{uuid4().hex}"
    _make_bucket(name, options)
    return f"s3://{name}?{options}"


def _make_bucket(name: str, options: str) -> None:
    allowed = f"s3://{name}?{options}&allow_bucket_creation=true"
    filesystem, _ = fs.FileSystem.from_uri(allowed)
    filesystem.create_dir(name)
