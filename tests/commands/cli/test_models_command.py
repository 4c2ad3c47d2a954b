"""`stream-icd models`: what each model is for, and from a model to a champion, and back."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from stream_icd.commands.cli.main import app
from stream_icd.core.errors import (
    BadSettings,
    ModelDamaged,
    ModelNotFound,
    RegistryDamaged,
    StreamIcdError,
)
from stream_icd.core.lineage import DataRange, Figure, Gate, Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry import aliases
from stream_icd.registry.aliases import champion, current, history
from stream_icd.registry.announce import announcements
from stream_icd.registry.find import open_model, shipped_models
from stream_icd.registry.model import ABOUT_FILE, About, PackedModel, read_card, save_model
from stream_icd.registry.versions import publish, version_folder, versions
from tests.testbed.brokers import Broker

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RECIPE = Recipe(name="mine", encoder={"widths": (32, 16, 8)}, discriminator_widths=(8, 1))
AS, LFR = (open_model(name).version for name in ("as", "lfr"))


@pytest.fixture
def registry(disk: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("STREAM_ICD_REGISTRY", disk.uri)
    return disk


def models(*arguments: str, announced: bool = False) -> str:
    """What a command prints as its result; it must succeed."""
    changes = arguments[0] in ("import", "promote", "rollback") and not announced
    quiet = ("--no-announce",) if changes else ()
    result = CliRunner().invoke(app, ["models", *arguments, *quiet], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_way_from_a_shipped_model_to_a_champion_and_back(registry: Store) -> None:
    assert models("import", "as") == f"{AS}\n"
    assert models("import", "lfr") == f"{LFR}\n"
    assert models("import", "lfr") == f"{LFR}\n"
    assert models("promote", "as", "--reason", "first") == f"champion {AS}, previous none\n"
    assert models("promote", LFR) == f"champion {LFR}, previous {AS}\n"
    listed = models("list")
    assert f"{AS}  previous\n" in listed
    assert f"{LFR}  champion\n" in listed
    assert re.search(r"made     2\d{3}-.* UTC by models import from lfr \(stream-icd ", listed)
    assert f"lfr  ({LFR})" in listed  # the shipped models, as without a registry
    assert models("rollback", "--reason", "worse") == f"champion {AS}, previous none\n"
    assert [aliases.reason for aliases in history(registry)] == ["first", "by command", "worse"]
    with pytest.raises(BadSettings, match="none to go back to"):
        models("rollback")


def test_the_first_champion_is_never_replaced_by_starting_again(registry: Store) -> None:
    first = models("import", "lfr", "--first-champion")
    assert first == f"{LFR}\nchampion {LFR}, previous none\n"
    models("import", "as")
    models("promote", "as")
    assert models("import", "lfr", "--first-champion") == f"{LFR}\n"
    assert champion(registry).champion == AS


def test_of_two_first_champions_at_once_one_is_made(
    registry: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    models("import", "lfr", "--first-champion")
    looks = iter([lambda _: None])  # as before the other one
    monkeypatch.setattr(aliases, "current", lambda of: next(looks, current)(of))
    assert models("import", "as", "--first-champion") == f"{AS}\n"
    assert champion(registry).champion == LFR


def test_a_version_without_its_lineage_is_not_promoted_and_is_mended_by_importing_it(
    registry: Store,
) -> None:
    models("import", "lfr", "--first-champion")
    models("import", "as")
    folder = version_folder(registry, AS)
    folder.delete("lineage.json")
    with pytest.raises(RegistryDamaged, match="import this folder"):
        models("promote", "as")
    assert champion(registry).champion == LFR
    assert models("import", folder.uri) == f"{AS}\n"
    assert models("promote", "as") == f"champion {AS}, previous {LFR}\n"


def test_a_version_is_shown_with_its_origin(registry: Store) -> None:
    figures = (Figure("hidden edges, bits an edge", 1.25, 1.5, 0.125, 0.375), Figure("K", 7, 8))
    gate = Gate(AS, "mine@1", NOW, NOW, 12, True, "better on hidden edges", figures)
    data = DataRange(("as733",), NOW, NOW + timedelta(days=2), windows=200, labelled=3)
    lineage = Lineage("retrain", NOW, "0.9", parent=AS, data=data, gate=gate)
    packed = PackedModel.of(Model(RECIPE))
    publish(registry, packed, lineage)
    version = packed.version
    models("promote", "mine", "--reason", "it passed")
    shown = models("show", "champion")
    assert shown == models("show", version)
    for line in (
        f"version  {version}",
        "made     2026-01-31 12:00:00 UTC by retrain (stream-icd 0.9)",
        f"parent   {AS}",
        "data     200 windows of as733, 2026-01-31 12:00 to 2026-02-02 12:00 UTC, 3 of them with "
        "labels",
        f"gate     passed against {AS} on 12 windows",
        "         better on hidden edges",
        "         hidden edges, bits an edge: 1.25 -> 1.5, difference +0.125 to +0.375",
        "         K: 7 -> 8",
        f"no card  ({version})",
    ):
        assert f"{line}\n" in shown
    assert re.search(r"champion promoted .* UTC by models promote: it passed \(generation 1", shown)
    assert "parent" not in models("show", "lfr")  # a shipped one is not in the registry


def test_a_name_that_promote_takes_is_found_by_the_other_commands_too(
    registry: Store, tmp_path: Path
) -> None:
    packed = PackedModel.of(Model(RECIPE))
    publish(registry, packed, Lineage("retrain", NOW, "0"))
    version = packed.version
    assert f"version  {version}\n" in models("show", "mine")
    assert models("diff", "mine", version) == ""
    place = str(tmp_path / "copy")
    assert models("export", "mine", place) == f"{place}\n"
    assert open_model(place).version == version
    other = PackedModel.of(Model(RECIPE, BpParameters(resolution=2.0)))
    publish(registry, other, Lineage("retrain", NOW, "0"))
    with pytest.raises(ModelNotFound, match="several versions of 'mine'"):
        models("show", "mine")


@pytest.mark.usefixtures("registry")
def test_models_are_compared_setting_by_setting() -> None:
    models("import", "as")
    models("promote", "as")
    lines = models("diff", "champion", "lfr").splitlines()
    assert "recipe.name: as -> lfr" in lines
    assert any(line.startswith("bp.resolution: ") for line in lines)
    assert models("diff", "champion", AS) == ""


@pytest.mark.parametrize(
    "line", [f"format = 3\n{'a.' * 5000}a = 1", "format = -5"], ids=["deep", "format"]
)
def test_a_recipe_that_is_none_is_refused_before_it_is_in_the_registry(
    tmp_path: Path, registry: Store, line: str
) -> None:
    models("export", "as", str(tmp_path / "bad"))
    recipe = tmp_path / "bad" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("format = 3", line))
    for command in (("diff", "as", str(recipe.parent)), ("import", str(recipe.parent))):
        with pytest.raises(ModelDamaged, match=r"recipe.toml has (format -5|tables more than 10)"):
            models(*command)
    assert versions(registry) == []


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        (("promote", "lfr"), ModelNotFound, r"'lfr' in .*: none \(stream-icd models import"),
        (("rollback",), ModelNotFound, "has no champion yet: stream-icd models import"),
        (("show", "champion"), ModelNotFound, "has no champion yet"),
        (("show", "lfr@00000000"), ModelNotFound, "no version 'lfr@00000000' in"),
        (("import", "nonesuch"), ModelNotFound, "one of the shipped models"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_what_is_missing_is_named(
    arguments: tuple[str, ...], error: type[StreamIcdError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        models(*arguments)


def test_a_registry_must_be_named_by_option_or_setting(
    disk: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (("rollback",), ("show", "previous"), ("import", "lfr")):
        with pytest.raises(BadSettings, match="--registry"):
            models(*arguments)
    monkeypatch.setenv("STREAM_ICD_REGISTRY", "/nonesuch")
    models("import", "as", "--registry", disk.uri)
    assert versions(disk) == [AS]


@pytest.mark.parametrize(
    ("command", "notice"),
    [("list", "holds no version: stream-icd models import"), ("history", "has no history yet: ")],
)
def test_a_registry_without_versions_is_said_to_be_one(
    command: str, notice: str, tmp_path: Path
) -> None:
    place = str(tmp_path / "nonesuch")
    result = CliRunner().invoke(app, ["models", command, "--registry", place])
    assert result.exit_code == 0
    assert place in result.stderr
    assert notice in result.stderr


def test_a_name_of_several_versions_is_not_guessed_and_no_damaged_one_is_promoted(
    registry: Store, tmp_path: Path
) -> None:
    models("import", "lfr")
    models("export", "lfr", str(tmp_path / "other"))
    recipe = tmp_path / "other" / "recipe.toml"
    recipe.write_text(f"{recipe.read_text()}\n")
    models("import", str(tmp_path / "other"))
    assert len(versions(registry)) == 2
    with pytest.raises(ModelNotFound, match=rf"several versions of 'lfr' in .*{LFR}"):
        models("promote", "lfr")
    with pytest.raises(ModelNotFound, match=rf"has: .*{LFR}.* \(stream-icd models import adds one"):
        models("promote", "as")
    recipe.write_text("format = 1")
    with pytest.raises(StreamIcdError):
        models("import", str(tmp_path / "other"))
    (Path(registry.root) / "versions" / LFR.replace("@", "-") / "recipe.toml").write_text("a = ")
    with pytest.raises((ModelDamaged, ModelNotFound)):
        models("promote", LFR)


@pytest.mark.brokers("memory")
def test_damaged_versions_are_listed_beside_the_others(registry: Store) -> None:
    for name in ("as", "lfr", "taxi"):
        models("import", name)
    models("promote", "lfr")
    taxi = open_model("taxi").version
    for version, name, content in (
        (AS, "lineage.json", b'{"format": 1, "made_at": "n\nlfr@00000000  champion"}'),
        (taxi, "about.toml", b"purpose = "),
    ):
        version_folder(registry, version).put(name, pa.py_buffer(content))
    listed = models("list").splitlines()
    assert re.fullmatch(r"  made     .* from lfr .*", listed[listed.index(f"{LFR}  champion") + 1])
    assert "RegistryDamaged" in listed[listed.index(AS) + 1]
    assert "ModelDamaged" in listed[listed.index(taxi) + 1]
    assert sum(line.endswith("champion") for line in listed) == 1
    shutil.rmtree(version_folder(registry, LFR).root)
    listed = models("list").splitlines()
    assert "ModelNotFound" in listed[listed.index(f"{LFR}  champion") + 1]
    models("import", "lfr")
    registry.put("aliases/00000002.json", pa.py_buffer(b"{"))
    listed = models("list").splitlines()
    assert "RegistryDamaged" in listed[listed.index("aliases") + 1]
    assert LFR in listed


@pytest.mark.brokers("memory")
def test_each_change_is_announced_once(broker: Broker, registry: Store) -> None:
    settings = broker.settings()
    create_topics(settings)
    before = len(list(announcements(settings)))
    where = ("--bootstrap-servers", broker.bootstrap_servers)
    for arguments in (
        ("import", "as"),
        ("import", "as"),
        ("promote", "as", "--reason", "first"),
        ("promote", "as"),  # announces it again, in case the first one was lost
        ("import", "lfr"),
        ("promote", "lfr"),
        ("rollback", "--reason", "worse"),
    ):
        models(*arguments, *where, announced=True)
    announced = list(announcements(settings))[before:]
    assert [
        (announcement.kind, announcement.version, announcement.champion, announcement.generation)
        for announcement in announced
    ] == [
        ("published", AS, None, 0),
        ("promoted", AS, AS, 1),
        ("published", LFR, None, 0),
        ("promoted", LFR, LFR, 2),
        ("rolled back", AS, AS, 3),
    ]
    assert {announcement.registry for announcement in announced} == {registry.place}
    assert [announcement.reason for announcement in announced][1::3] == ["first", "worse"]
    listed = models("history", *where).splitlines()
    assert [line.split("  ", 1)[1] for line in listed] == [
        f"promoted     {AS}  models promote: first",
        f"promoted     {LFR}  models promote: by command",
        f"rolled back  {AS}  models rollback: worse",
    ]
    everything = models("history", "--all", *where).splitlines()
    assert [line for line in everything if "published" not in line] == listed
    assert len(everything) == 5
    models("promote", "lfr", "--reason", "not announced", *where)
    last = models("history", *where).splitlines()[-1]
    assert last.endswith("models promote: not announced")
    assert models("history", "--all", *where).splitlines() == [*everything, last]


def test_without_kafka_the_change_is_done_and_a_warning_says_what_is_not(
    registry: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_ICD_CONNECT_TIMEOUT_S", "0.2")
    models("import", "as")
    where = ("--bootstrap-servers", "127.0.0.1:9")
    result = CliRunner().invoke(app, ["models", "promote", "as", *where])
    assert result.exit_code == 0
    assert "done, but not announced in icd.models.v1 (BrokerUnavailable: " in result.stderr
    assert champion(registry).champion == AS


@pytest.mark.brokers("memory")
def test_kill_9_before_the_announcement_changes_nothing_but_the_delay(
    broker: Broker, registry: Store
) -> None:
    """The next promotion of the same version announces it."""
    settings = broker.settings()
    create_topics(settings)
    before = len(list(announcements(settings)))
    models("import", "as")
    child = multiprocessing.get_context("fork").Process(
        target=_promote_and_die, args=(broker.bootstrap_servers,)
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert champion(registry).champion == AS
    assert len(list(announcements(settings))) == before
    models("promote", "as", "--bootstrap-servers", broker.bootstrap_servers, announced=True)
    (announced,) = list(announcements(settings))[before:]
    assert (announced.kind, announced.generation) == ("promoted", 1)
    assert len(history(registry)) == 1


def _promote_and_die(bootstrap_servers: str) -> None:
    """Killed when the promotion is on the disk and before anything is sent."""
    import stream_icd.registry.announce as messages

    messages.announce = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    CliRunner().invoke(app, ["models", "promote", "as", "--bootstrap-servers", bootstrap_servers])


def test_every_shipped_model_says_what_it_is_for_and_how_good_it_is() -> None:
    listed = models("list")
    for name, folder in shipped_models().items():
        assert f"{name}  ({open_model(name).version})" in listed
        about = About.read(folder)
        for text in (about.purpose, about.learned_on, about.figures):
            assert text != "not said"
            assert text in listed


def test_models_of_a_folder_are_listed_too(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "mine"))
    save_model(Model(RECIPE), tmp_path / "mine")
    assert "for      not said" in models("list", str(tmp_path))
    about = About("mails of one office", "3 weeks", "modularity 70 %")
    store.put(ABOUT_FILE, pa.py_buffer(about.to_toml()))
    assert "mine  (mine@" in models("list", str(tmp_path))
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
