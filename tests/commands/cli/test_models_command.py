"""`stream-icd models` says what each model is for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import BadSettings, ModelDamaged, ModelNotFound
from stream_icd.core.store.store import open_store
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model, shipped_models
from stream_icd.registry.model import ABOUT_FILE, About, read_about, read_card, save_model

SMALL = Recipe(name="small", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))


def models(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["models", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_shipped_model_says_what_it_is_for_and_how_good_it_is() -> None:
    listed = models("list")
    for name, folder in shipped_models().items():
        assert f"{name}  ({open_model(name).version})" in listed
        about = read_about(folder)
        for text in (about.purpose, about.learned_on, about.figures):
            assert text != "not said"
            assert text in listed


def test_models_of_a_folder_are_listed_too(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "mine"))
    save_model(Model(SMALL), tmp_path / "mine")
    assert "for      not said" in models("list", str(tmp_path))
    about = About("mails of one office", "3 weeks", "modularity 70 %")
    store.put(ABOUT_FILE, pa.py_buffer(about.to_toml()))
    assert "mine  (small@" in models("list", str(tmp_path))
    assert "mails of one office" in models("list", str(tmp_path))
    with pytest.raises(ModelNotFound, match="models show shows a single one"):
        models("list", str(tmp_path / "mine"))


def test_a_card_is_shown() -> None:
    for name, folder in shipped_models().items():
        assert models("show", name) == read_card(folder)
    with pytest.raises(ModelNotFound, match="models list shows what each is for"):
        models("show", "internet")


def test_what_is_no_model_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for command, place in (("show", tmp_path), ("show", tmp_path / "file")):
        with pytest.raises(ModelNotFound):
            models(command, str(place))
    for options in ([str(tmp_path / "file")], ["--registry", str(tmp_path / "file")]):
        with pytest.raises(BadSettings, match="is a file: give a folder"):
            models("list", *options)


@pytest.mark.parametrize("text", ["purpose = ", 'colour = "red"'])
def test_a_spoilt_description_is_said_to_be_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "about.toml").write_text(text)
    with pytest.raises(ModelDamaged, match="about.toml"):
        read_about(open_store(str(tmp_path)))
