"""Copy a model out of a registry: to a folder, or to MLflow."""

from __future__ import annotations

import tempfile

import pyarrow as pa

from stream_icd.core.errors import BadSettings, StoreUnreachable
from stream_icd.core.imports import needs_extra
from stream_icd.core.printable import place_of
from stream_icd.core.store.store import Store, open_store
from stream_icd.core.store.whole_file import check_temporary_folder
from stream_icd.registry.model import LINEAGE_FILE, RECIPE_FILE, flat_recipe, read_model
from stream_icd.registry.versions import MODEL_FILES, files_in

_EXPERIMENT = "stream-icd"
_MOST_VALUE = 500
"""MLflow refuses longer values of parameters."""

ANSWERS_WITHIN_S = 5.0


def export_folder(folder: Store, target: str) -> str:
    """Copy a model and its lineage, byte for byte, to a new folder; return the folder's place.

    Raises:
        BadSettings: the target is a file, or holds more than a copy that was cut short.
        ModelError, StoreError: the model cannot be used, or the copy not be written.
    """
    place = open_store(target)
    read_model(folder)  # nothing is copied of a model that cannot be used
    files = files_in(folder, (LINEAGE_FILE, *MODEL_FILES))
    held = {name: files.get(name, b"") for name in place.files()}  # as by a copy that was cut short
    others = any(place.read(name, len(content)) != content for name, content in held.items())
    if others or RECIPE_FILE in held:  # which is written last
        raise BadSettings(f"{place.place} is not empty: export to a new folder")
    for name, content in files.items():
        place.put(name, pa.py_buffer(content))
    return place.place


def export_mlflow(folder: Store, uri: str) -> str:
    """Register a model in MLflow: its files, its recipe as parameters; return name and version.

    The tag `stream_icd_version` holds the version here. The tracking server is at `uri`, such as
    http://127.0.0.1:5000.

    Raises:
        MissingExtra: MLflow is not installed.
        StoreUnreachable: no server answers.
        StoreUnwritable: there is no folder for temporary files.
        BadSettings: MLflow refuses; the message is its own.
        ModelError: the model cannot be used.
    """
    with needs_extra("mlflow", "mlflow"):
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    version = read_model(folder).version
    name = version.rpartition("@")[0]
    check_temporary_folder()
    _check_that_somebody_answers(uri)
    try:
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        known = client.get_experiment_by_name(_EXPERIMENT)
        experiment = known.experiment_id if known else client.create_experiment(_EXPERIMENT)
        run = client.create_run(experiment, run_name=version).info.run_id
        with tempfile.TemporaryDirectory() as files:
            export_folder(folder, files)
            client.log_artifacts(run, files, "model")
        for key, value in flat_recipe(folder).items():
            client.log_param(run, key, str(value)[:_MOST_VALUE])
        client.set_terminated(run)
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        tags = {"stream_icd_version": version}
        made = client.create_model_version(name, f"runs:/{run}/model", run, tags=tags)
    except (MlflowException, ModuleNotFoundError) as error:  # databases need the whole MLflow
        raise BadSettings(f"MLflow at {uri}: {error}") from error
    return f"{name}, version {made.version}"


def _check_that_somebody_answers(uri: str) -> None:
    """Raise at once if there is no server: MLflow alone repeats its request for four minutes."""
    import requests  # MLflow's own client: it takes the same URIs and proxies

    if not uri.startswith(("http://", "https://")):
        return
    try:
        requests.head(uri, timeout=ANSWERS_WITHIN_S)
    except requests.exceptions.SSLError:
        return  # somebody answers, and MLflow has settings about certificates
    except requests.RequestException as error:
        raise StoreUnreachable(
            f"no MLflow server answers at {place_of(uri)}: start one, or give the URI of yours"
        ) from error
