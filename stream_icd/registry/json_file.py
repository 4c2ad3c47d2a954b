"""Small JSON files of a registry: a frozen dataclass and the version of its format."""

from __future__ import annotations

import json
from typing import TypeVar

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from stream_icd.errors import RegistryDamaged, StreamIcdError
from stream_icd.store.store import Store

Entry = TypeVar("Entry")

MOST_BYTES = 2**20


def to_json(kind: type[Entry], entry: Entry, format_: int) -> pa.Buffer:
    """Return the file of an entry; times and numbers are as in JSON Schema."""
    values = TypeAdapter(kind).dump_python(entry, mode="json")
    return pa.py_buffer(json.dumps({"format": format_, **values}, indent=2).encode() + b"\n")


def read_json(store: Store, path: str, kind: type[Entry], format_: int) -> Entry:
    """Read an entry; fields that this version does not know are ignored.

    Raises:
        FileNotFoundError: there is no such file.
        RegistryDamaged: it is not such an entry, or its format is later than `format_`.
        StoreUnreachable: the store does not answer.
    """
    place, size = f"{store.place}/{path}", store.size(path)
    if size > MOST_BYTES:
        raise RegistryDamaged(f"{place} has {size} bytes; at most {MOST_BYTES} are read")
    content = store.read(path, size)
    try:
        values = json.loads(content or b"")
        found = values["format"]
        if isinstance(found, int) and found > format_:
            raise RegistryDamaged(
                f"{place} has format {found} and this version reads up to {format_}; upgrade "
                "stream-icd"
            )
        return TypeAdapter(kind).validate_python(values, strict=False)
    except StreamIcdError:
        raise
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
        )
        raise RegistryDamaged(f"{place} cannot be read: {wrong:.300}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RegistryDamaged(f"{place} cannot be read: {error!s:.300}") from error
