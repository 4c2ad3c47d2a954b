"""URIs of file stores, as people give them and as they are shown."""

from __future__ import annotations


def place_of(uri: str) -> str:
    """A URI, or a local path, as messages and logs name it: no options, no slash at its end.

    >>> place_of("s3://bucket/history/?region=eu-central-1")
    's3://bucket/history'
    """
    return uri.partition("?")[0].rstrip("/") if "://" in uri else uri


def refuse_password(uri: str) -> None:
    """See that a URI holds none, for logs and the command line would show it.

    Raises:
        ValueError: it does.
    """
    who, at, _ = uri.partition("?")[0].partition("://")[2].rpartition("@")
    if at and ":" in who:
        raise ValueError(
            "it holds a password: give that as the object store's own tools take it, such as in "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
