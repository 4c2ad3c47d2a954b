"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stream_icd.core.errors import StoreUnwritable
from stream_icd.core.store.whole_file import whole_file, writing


def test_it_appears_when_the_block_ends_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    for text in ("first", "second"):
        with whole_file(path) as aside:
            aside.write_text(text)
            assert aside.parent == path.parent
            assert not path.exists() or path.read_text() == "first"
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def fail() -> None:
        with whole_file(path) as aside:
            aside.write_text("half of")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "."])
def test_a_folder_is_not_replaced_and_the_error_names_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    with pytest.raises(StoreUnwritable, match=r"cannot write \.: "):  # noqa: SIM117
        with writing(path), whole_file(path) as aside:
            aside.write_text("anything")
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "like_dev_null"
    os.mkfifo(path)
    with pytest.raises(StoreUnwritable, match="it is no regular file"):  # noqa: SIM117
        with writing(path), whole_file(path) as aside:
            aside.write_text("anything")
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]
