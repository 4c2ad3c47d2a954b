"""Every file store keeps whole files, finds them, and says what is wrong without its secrets."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pyarrow import fs

from stream_icd.core.errors import BadSettings, MissingExtra, StoreUnreachable, StoreUnwritable
from stream_icd.core.store import store as whole_store
from stream_icd.core.store.store import Store, open_store
from stream_icd.core.store.whole_file import whole_file, writing
from tests.testbed.object_store import new_folder


def put(store: Store, path: str, content: bytes) -> None:
    store.put(path, pa.py_buffer(content))


def test_what_is_put_is_found_and_read(store: Store) -> None:
    assert (store.files(), store.folders()) == ([], [])
    for path in ("b=1/y", "b=1/x", "a/deep/er/z", "top"):
        put(store, path, path.encode())
    assert store.files() == ["a/deep/er/z", "b=1/x", "b=1/y", "top"]
    assert store.files("b=1") == ["b=1/x", "b=1/y"]
    assert store.folders() == ["a", "b=1"]
    assert store.folders("a") == ["deep"]
    assert [path for path in ("b=1/x", "b=1/z", "b=1") if store.exists(path)] == ["b=1/x"]
    assert store.size("b=1/x") == 5
    assert abs(store.modified("top") - datetime.now(UTC)) < timedelta(minutes=5)
    assert store.open("a/deep/er/z").read() == b"a/deep/er/z"
    assert store.place == store.uri.partition("?")[0]
    assert store.place.endswith(store.root)
    assert open_store(store.uri).read("top", 3) == b"top"


def test_a_file_is_replaced_whole_and_gone_when_it_is_deleted(store: Store) -> None:
    for content in (bytes(6_000_000), b"short"):  # more than one part of an upload
        put(store, "a/x", content)
        assert store.read("a/x", len(content)) == content
    assert store.files() == ["a/x"]
    assert store.read("a/x", 4) is None  # one of another size is not read
    for _ in range(2):
        store.delete("a/x")
    assert (store.files(), store.size("a/x")) == ([], 0)
    assert store.modified("a/x") == datetime.min.replace(tzinfo=UTC)
    with pytest.raises(FileNotFoundError, match="a/x"):
        store.read("a/x", 1)


def test_a_bucket_that_is_not_there_is_said(s3: str) -> None:
    store = open_store(f"s3://no-bucket/x?{s3}")
    with pytest.raises(StoreUnwritable, match=r"s3://no-bucket/x/y: .*bucket"):
        put(store, "y", b"y")
    with pytest.raises(StoreUnwritable, match=r"s3://no-bucket/x/y: .*NoSuchBucket"):
        store.create("y", pa.py_buffer(b"y"))
    with pytest.raises(StoreUnreachable, match="no-bucket does not exist; s3://no-bucket/x should"):
        store.read("y", 1)


def test_the_folder_above_is_found_and_a_bucket_is_above_itself(disk: Store, s3: str) -> None:
    folder = open_store(new_folder(s3))
    bucket = folder.above()
    assert (bucket.root, bucket.uri) == ("bucket", f"s3://bucket?{s3}")
    assert bucket.above() == bucket
    assert disk.above().below(disk.name) == disk


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("", "is empty: give a folder or a URI"),
        ("models/\udcff", "must be UTF-8, without NUL"),
        ("s3://models/\0", "must be UTF-8, without NUL"),
        ("s3://bucket/ä b", "as a URL, it is s3://bucket/%C3%A4%20b$"),
        ("nowhere://bucket/a%20b", "cannot open nowhere://bucket/a%20b: [^;]*$"),
        ("/dev/null", "/dev/null is a file: give a folder"),
        (f"{__file__}/history", r"test_store\.py is a file: give a folder"),
    ],
)
def test_a_place_that_no_store_can_have_is_refused(place: str, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        open_store(place)


def test_a_password_in_a_uri_is_refused_and_not_repeated() -> None:
    for uri in ("s3://key:hidden@bucket/x?region=eu", "abfs://c@a/x?client_secret=hidden"):
        with pytest.raises(BadSettings, match="holds a password.*AWS_SECRET_ACCESS_KEY") as refused:
            open_store(uri)
        assert "hidden" not in str(refused.value)


def test_of_many_writers_at_once_one_creates_the_file(store: Store) -> None:
    contents = [b"%2d" % i for i in range(16)]
    with ThreadPoolExecutor(len(contents)) as threads:
        buffers = map(pa.py_buffer, contents)
        created = list(threads.map(lambda content: store.create("a/x", content), buffers))
    assert sum(created) == 1
    assert not store.create("a/x", pa.py_buffer(b"later"))
    assert store.read("a/x", 2) == contents[created.index(True)]
    assert store.files() == ["a/x"]  # no temporary file is left


def test_a_store_that_cannot_keep_two_writers_apart_is_refused() -> None:
    store = Store(fs._MockFileSystem(), "x", "mock://x")
    with pytest.raises(BadSettings, match="mock store cannot create a file only if there is none"):
        store.create("y", pa.py_buffer(b"y"))


def test_boto3_is_asked_for_where_it_is_missing(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stream-icd\[s3\]'"):
        open_store(new_folder(s3)).create("y", pa.py_buffer(b"y"))


def refused(status: int) -> ClientError:
    answer: Any = {
        "Error": {"Code": "X", "Message": f"status {status}"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "PutObject")


def create_on_s3(monkeypatch: pytest.MonkeyPatch, *answers: Exception | None) -> tuple[bool, int]:
    """Whether a file was created, and how many requests that took; S3 gives these answers."""
    to_come = list(answers)

    def put_object(**_: object) -> None:
        if (answer := to_come.pop(0)) is not None:
            raise answer

    monkeypatch.setattr(whole_store, "_client", lambda *_: SimpleNamespace(put_object=put_object))
    store = open_store("s3://bucket/x?region=eu-central-1")
    return store.create("key", pa.py_buffer(b"x")), len(answers) - len(to_come)


def test_a_put_that_meets_another_one_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert create_on_s3(monkeypatch, refused(409), None) == (True, 2)
    assert create_on_s3(monkeypatch, refused(409), refused(412)) == (False, 2)
    for answers, why in (
        ([refused(409)] * 5, "status 409"),
        ([refused(403)], "status 403"),
        ([EndpointConnectionError(endpoint_url="http://127.0.0.1:9")], "Could not connect"),
    ):
        with pytest.raises(StoreUnwritable, match=why):
            create_on_s3(monkeypatch, *answers)


def test_a_file_is_whole_or_what_was_there_before_stays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    for text in ("first", "second"):
        with whole_file(path) as aside:
            aside.write_text(text)
            assert aside.parent == path.parent
            assert not path.exists() or path.read_text() == "first"
        assert path.read_text() == text

    def fail() -> None:
        with whole_file(path) as aside:
            aside.write_text("half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_or_a_device_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("like_dev_null")
    for path, why in ((Path("."), r"write \.: "), (Path("like_dev_null"), "it is no regular file")):
        with pytest.raises(StoreUnwritable, match=why):  # noqa: SIM117
            with writing(path), whole_file(path) as aside:
                aside.write_text("anything")
    assert [(file.name, file.is_fifo()) for file in tmp_path.iterdir()] == [("like_dev_null", True)]
