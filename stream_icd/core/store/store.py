"""Files on a disk or in an object store; readers never see a partial file."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow as pa
from pyarrow import fs

from stream_icd.core.errors import BadSettings, StoreUnreachable
from stream_icd.core.imports import needs_extra
from stream_icd.core.printable import place_of, refuse_password
from stream_icd.core.store.whole_file import whole_file, writing

_WITHOUT_FOLDERS = {"s3", "gcs", "abfs"}
"""Object stores, as pyarrow names them; to create a folder there costs a request."""

_TAKEN, _CONFLICT = 412, 409
"""HTTP status if the object exists, and if another conditional PUT is in progress."""

_ATTEMPTS = 5
_ADVICE = (
    ". Nothing of it is visible. Make room or fix the cause, then start again: it continues where "
    "it stopped"
)


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of a `pyarrow.fs` file system; paths are relative to it, with `/`.

    Methods that look up files raise `StoreUnreachable` if the file system does not answer.
    """

    filesystem: fs.FileSystem  # local disk, S3, GCS, Azure, HDFS, or your own
    root: str  # the folder, as the file system names it
    uri: str  # opens the same store again

    @property
    def place(self) -> str:
        """The name of the store in messages and logs."""
        return place_of(self.uri)

    @property
    def name(self) -> str:
        return self.root.rpartition("/")[2]

    def below(self, folder: str) -> Store:
        """Return the store of a folder in this one."""
        return self._at(self._full(folder), f"{self.place}/{folder}")

    def above(self) -> Store:
        """Return the store of the parent folder; a bucket, which has none, is its own."""
        if self.filesystem.type_name in _WITHOUT_FOLDERS and "/" not in self.root:
            return self
        return self._at(self.root.rpartition("/")[0], self.place.rpartition("/")[0])

    def _at(self, root: str, place: str) -> Store:
        _, mark, options = self.uri.partition("?") if "://" in self.uri else ("", "", "")
        return Store(self.filesystem, root, f"{place}{mark}{options}")

    def files(self, folder: str = "") -> list[str]:
        """Return the paths of all files below `folder`, ascending; empty if it does not exist."""
        selector = fs.FileSelector(self._full(folder), recursive=True, allow_not_found=True)
        infos = self._look_up(selector)
        prefix = len(self.root) + 1
        return sorted(info.path[prefix:] for info in infos if info.type == fs.FileType.File)

    def folders(self, folder: str = "") -> list[str]:
        """Return the names of the folders directly in `folder`, ascending."""
        infos = self._look_up(fs.FileSelector(self._full(folder), allow_not_found=True))
        return sorted(info.base_name for info in infos if info.type == fs.FileType.Directory)

    def is_there(self) -> bool:
        """Whether the folder exists, and is no file; in an object store, whether it has content."""
        return bool(self._info().type == fs.FileType.Directory)

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type == fs.FileType.File)

    def size(self, path: str) -> int:
        """Size of a file in bytes; 0 if it does not exist."""
        return self._info(path).size or 0

    def modified(self, path: str) -> datetime:
        """When a file was last written, UTC; the earliest time if it does not exist."""
        return self._info(path).mtime or datetime.min.replace(tzinfo=UTC)

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position; raises `FileNotFoundError`."""
        return self.filesystem.open_input_file(self._full(path))

    def read(self, path: str, n_bytes: int) -> bytes | None:
        """Return the content of a file of `n_bytes`; None, without reading, if the size differs.

        Raises `FileNotFoundError`, or `StoreUnreachable`, also if the store itself is missing.
        """
        info = self._info(path)
        if info.type != fs.FileType.File:
            self._check_is_there()  # without a disk or bucket, no file is known to be missing
            raise FileNotFoundError(f"{self.place}/{path}")
        if info.size != n_bytes:
            return None
        try:
            with self.open(path) as file:
                return bytes(file.read(n_bytes))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreUnreachable(f"cannot read {self.place}/{path}: {error}") from error

    def put(self, path: str, content: pa.Buffer) -> None:
        """Write a file durably with this content, replacing any file at `path`.

        There is the whole file or none, even if the machine stops: on a local disk by `whole_file`;
        an object store's PUT is atomic. Raises `StoreUnwritable`, such as for a full disk.
        """
        with self._writing(path):
            if isinstance(self.filesystem, fs.LocalFileSystem):
                with whole_file(Path(self._full(path))) as aside:
                    aside.write_bytes(content)
                return
            if self.filesystem.type_name not in _WITHOUT_FOLDERS:
                self.filesystem.create_dir(self._full(path).rpartition("/")[0], recursive=True)
            with self.filesystem.open_output_stream(self._full(path)) as sink:
                sink.write(content)

    def create(self, path: str, content: pa.Buffer) -> bool:
        """Write a file durably unless one exists at `path`; return whether it was written.

        Of several writers at once, exactly one gets True: by a hard link on a local disk, by a
        conditional PUT (`If-None-Match: *`) on S3. A writer whose connection broke may get False
        though its own file was written: compare the content if that matters. Raises as `put`;
        `BadSettings` if this kind of store has no such operation; `MissingExtra` without boto3,
        which S3 needs, since `pyarrow.fs` has no conditional PUT.
        """
        with self._writing(path):
            if isinstance(self.filesystem, fs.LocalFileSystem):
                try:
                    with whole_file(Path(self._full(path)), replace=False) as aside:
                        aside.write_bytes(content)
                except FileExistsError:
                    return False
                return True
            if self.filesystem.type_name == "s3":
                return _create_object(self.uri, self.filesystem.region, self._full(path), content)
        raise BadSettings(
            f"{self.place}: a {self.filesystem.type_name} store cannot create a file only if there "
            "is none, which keeps two writers apart; use a local disk or S3"
        )

    def delete(self, path: str) -> None:
        """Delete a file; do nothing if it does not exist."""
        with self._writing(path), suppress(FileNotFoundError):
            self.filesystem.delete_file(self._full(path))

    def _writing(self, path: str) -> AbstractContextManager[None]:
        return writing(f"{self.place}/{path}", _ADVICE)

    def _check_is_there(self) -> None:
        is_local = isinstance(self.filesystem, fs.LocalFileSystem)
        whole = self.root if is_local else self.root.partition("/")[0]  # a bucket
        (info,) = self._look_up([whole])
        if info.type != fs.FileType.Directory:
            raise StoreUnreachable(f"{whole} does not exist; {self.place} should be there")

    def _info(self, path: str = "") -> fs.FileInfo:
        (info,) = self._look_up([self._full(path)])
        return info

    def _look_up(self, paths: fs.FileSelector | list[str]) -> list[fs.FileInfo]:
        try:
            infos: list[fs.FileInfo] = self.filesystem.get_file_info(paths)
        except OSError as error:
            raise StoreUnreachable(f"cannot look into {self.place}: {error}") from error
        return infos

    def _full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root


def open_store(uri: str, *, may_be_file: bool = False) -> Store:
    """Open the store at a URI such as `s3://bucket/folder`, `file:///folder`, or a local path.

    Raises `StoreUnreachable`; `BadSettings` if no file system is known for the URI, or it is empty,
    `-`, no UTF-8, contains a password, or names no bucket; and unless it `may_be_file`, if it is,
    or is below, a file on a disk.
    """
    store = _store_at(uri)
    if isinstance(store.filesystem, fs.LocalFileSystem) and not may_be_file:
        whole = Path(store.root)
        existing = next(path for path in (whole, *whole.parents) if os.path.exists(path))
        if not existing.is_dir():  # a file, or a device such as /dev/null
            raise BadSettings(f"{existing} is a file: give a folder")
    return store


def _store_at(uri: str) -> Store:
    if not uri:
        raise BadSettings("the place of a file store is empty: give a folder or a URI")
    if uri == "-":
        raise BadSettings("- is not standard input or output here: give a folder or a URI")
    if "\0" in uri or uri != uri.encode(errors="replace").decode():
        raise BadSettings(f"{uri!r} is no folder or URI: its name must be UTF-8, without NUL")
    if "://" not in uri:
        path = Path(uri).expanduser().absolute()
        return Store(fs.LocalFileSystem(), str(path), str(path))
    try:
        refuse_password(uri)
    except ValueError as error:
        raise BadSettings(f"the URI of a file store: {error}") from error
    try:
        filesystem, root = fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, ValueError) as error:
        quoted = quote(uri, safe="%/:?#[]@!$&'()*+,;=")
        as_url = "" if quoted == uri else f"; as a URL, it is {place_of(quoted)}"
        raise BadSettings(f"cannot open {place_of(uri)}: {error}{as_url}") from error
    except OSError as error:
        raise StoreUnreachable(f"cannot open {place_of(uri)}: {error}") from error
    if not root and filesystem.type_name in _WITHOUT_FOLDERS:
        raise BadSettings("the URI of a file store names no bucket: give s3://bucket/folder")
    return Store(filesystem, root.rstrip("/"), uri.rstrip("/"))


def _create_object(uri: str, region: str, path: str, content: pa.Buffer) -> bool:
    """Write `BUCKET/KEY` in S3 unless the object exists; return whether it was written.

    Credentials are found as the AWS tools find them. Of the options in the store's URI, `scheme`
    and `endpoint_override` count. Raises `OSError` if the store refuses, or does not answer.
    """
    with needs_extra("s3", "boto3"):
        import boto3  # noqa: F401
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _, key = path.partition("/")
    client, body = _client(uri, region), content.to_pybytes()
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            client.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
            return True
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == _TAKEN:
                return False
            if status != _CONFLICT or attempt == _ATTEMPTS:
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
