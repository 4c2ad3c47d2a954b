"""URIs of file stores: how to show them, and what they must not contain."""

from __future__ import annotations


def place_of(uri: str) -> str:
    """Return a URI or local path for messages and logs: without options or trailing slash.

    >>> place_of("s3://bucket/history/?region=eu-central-1")
    's3://bucket/history'
    """
    return uri.partition("?")[0].rstrip("/") if "://" in uri else uri


def refuse_password(uri: str) -> None:
    """Raise `ValueError` if a URI has a password, which logs and the command line would show."""
    who, at, _ = uri.partition("?")[0].partition("://")[2].rpartition("@")
    if at and ":" in who:
        raise ValueError(
            "it holds a password: give that as the object store's own tools take it, such as in "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
