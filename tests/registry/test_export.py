"""A model that is exported is the same model elsewhere."""

from __future__ import annotations

import socket
import sys
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from stream_icd.core.errors import BadSettings, MissingExtra, StoreUnreachable, StoreUnwritable
from stream_icd.core.lineage import Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.registry.export import export_folder, export_mlflow
from stream_icd.registry.find import folder_of, open_model
from stream_icd.registry.versions import pack_folder, publish, version_folder

LINEAGE = Lineage("test", datetime(2026, 1, 31, tzinfo=UTC), "0")


@pytest.fixture
def folder(disk: Store) -> Store:
    """A version in a registry."""
    model = pack_folder(folder_of("lfr"))
    publish(disk, model, LINEAGE)
    return version_folder(disk, model.version)


def test_a_copy_has_the_same_files_and_version(folder: Store, tmp_path: Path) -> None:
    place = export_folder(folder, str(tmp_path / "copy"))
    assert open_model(place).version == open_model("lfr").version
    copy = open_store(place)
    assert copy.files() == folder.files()
    assert all(copy.open(name).read() == folder.open(name).read() for name in folder.files())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "card.md").write_text("my cards")
    for taken in (place, str(tmp_path / "mine")):
        with pytest.raises(BadSettings, match="is not empty: export to a new folder"):
            export_folder(folder, taken)
    assert (tmp_path / "mine" / "card.md").read_text() == "my cards"


def test_a_copy_that_was_cut_short_is_completed(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(place: Store, path: str, content: pa.Buffer) -> None:
        if path == "recipe.toml":
            raise StoreUnwritable("the disk is full")
        whole(place, path, content)

    whole, copy = Store.put, str(tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full_disk)
        with pytest.raises(StoreUnwritable):
            export_folder(folder, copy)
    assert export_folder(folder, copy) == copy
    assert open_model(copy).version == open_model("lfr").version


def test_mlflow_gets_files_parameters_and_version(
    folder: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'stream-icd[mlflow]' to run this")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    uri = (tmp_path / "mlruns").as_uri()
    assert [export_mlflow(folder, uri) for _ in range(2)] == ["lfr, version 1", "lfr, version 2"]
    client = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    made = client.get_model_version("lfr", "2")
    assert made.tags == {"stream_icd_version": open_model("lfr").version}
    run = client.get_run(made.run_id)
    assert run.data.params["recipe.name"] == "lfr"
    artifacts = run.info.artifact_uri.removeprefix("file://")
    assert open_model(f"{artifacts}/model").version == open_model("lfr").version


def test_an_mlflow_server_that_is_not_there_is_noticed_at_once(
    folder: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="pip install 'stream-icd[mlflow]' to run this")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # else a failure takes minutes
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(StoreUnreachable, match=f"no MLflow server answers at .*:{port}: start one"):
        export_mlflow(folder, f"http://127.0.0.1:{port}")


def test_a_server_that_is_not_mlflow_is_said_to_refuse(folder: Store) -> None:
    pytest.importorskip("mlflow", reason="pip install 'stream-icd[mlflow]' to run this")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(BadSettings, match="MLflow at .* 501"):
            export_mlflow(folder, f"http://127.0.0.1:{other.server_port}")
        other.shutdown()


def test_mlflow_is_asked_for_where_it_is_missing(
    folder: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'stream-icd\[mlflow\]'"):
        export_mlflow(folder, "http://127.0.0.1:5000")
