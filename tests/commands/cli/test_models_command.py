"""`stream-icd models`: what each model is for, and from a model to a champion, and back."""

from __future__ import annotations

import re
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_icd.core.lineage import DataRange, Figure, Gate, Lineage
from stream_icd.core.store.store import Store, open_store
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.recipe import Recipe
from stream_icd.methods.model import Model
from stream_icd.registry import aliases, announce
from stream_icd.registry.aliases import champion, current, history
from stream_icd.registry.announce import announcements
from stream_icd.registry.find import open_model, shipped_models
from stream_icd.registry.model import ABOUT_FILE, About, PackedModel, read_card, save_model
from stream_icd.registry.versions import publish, version_folder, versions
from tests.run_here import run_here
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
    done = run_here("models", *arguments, *(["--no-announce"] if changes else []))
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*arguments: str) -> str:
    """The reason of a command that must fail."""
    done = run_here("models", *arguments)
    assert done.returncode == 78, done.stdout
    return done.stderr


def published(registry: Store, bp: BpParameters | None = None, **origin: Any) -> str:
    """Publish a model of the recipe `mine`; return its version."""
    packed = PackedModel.of(Model(RECIPE, bp or BpParameters()))
    publish(registry, packed, Lineage("retrain", NOW, "0.9", **origin))
    return packed.version


def test_the_way_from_a_shipped_model_to_a_champion_and_back(registry: Store) -> None:
    assert models("import", "as") == f"{AS}\n"
    for _ in range(2):
        assert models("import", "lfr") == f"{LFR}\n"
    assert models("promote", "as", "--reason", "first") == f"champion {AS}, previous none\n"
    assert models("promote", LFR) == f"champion {LFR}, previous {AS}\n"
    lines = models("list").splitlines()
    assert {f"{AS}  previous", f"{LFR}  champion", f"lfr  ({LFR})"} <= {*lines}  # last: as shipped
    made = lines[lines.index(f"{LFR}  champion") + 1]
    assert re.match(r"  made     2\d{3}-.* UTC by models import from lfr \(stream-icd ", made)
    changes = models("diff", "previous", "champion").splitlines()
    assert "recipe.name: as -> lfr" in changes
    assert any(line.startswith("bp.resolution: ") for line in changes)
    assert models("diff", "champion", LFR) == ""
    assert models("rollback", "--reason", "worse") == f"champion {AS}, previous none\n"
    assert [change.reason for change in history(registry)] == ["first", "by command", "worse"]
    assert "none to go back to" in refused("rollback")


def test_a_first_champion_is_replaced_by_a_promotion_of_a_whole_version_only(
    registry: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = models("import", "lfr", "--first-champion")
    assert first == f"{LFR}\nchampion {LFR}, previous none\n"
    with monkeypatch.context() as at_once:
        looks = iter([lambda _: None])  # as before the other program made its champion
        at_once.setattr(aliases, "current", lambda of: next(looks, current)(of))
        assert models("import", "as", "--first-champion") == f"{AS}\n"
    assert champion(registry).champion == LFR
    folder = version_folder(registry, AS)
    folder.delete("lineage.json")
    assert "import this folder" in refused("promote", "as")
    assert champion(registry).champion == LFR
    assert models("import", folder.uri) == f"{AS}\n"
    assert models("promote", "as") == f"champion {AS}, previous {LFR}\n"
    assert models("import", "lfr", "--first-champion") == f"{LFR}\n"
    assert champion(registry).champion == AS


def test_a_version_is_shown_with_its_origin(registry: Store) -> None:
    figures = (Figure("hidden edges, bits an edge", 1.25, 1.5, 0.125, 0.375), Figure("K", 7, 8))
    gate = Gate(AS, "mine@1", NOW, NOW, 12, True, "better on hidden edges", figures)
    data = DataRange(("as733",), NOW, NOW + timedelta(days=2), windows=200, labelled=3)
    version = published(registry, parent=AS, data=data, gate=gate)
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


def test_a_name_stands_for_its_only_version_and_is_not_guessed(
    registry: Store, tmp_path: Path
) -> None:
    version, place = published(registry), str(tmp_path / "copy")
    assert f"version  {version}\n" in models("show", "mine")
    assert models("diff", "mine", version) == ""
    assert models("export", "mine", place) == f"{place}\n"
    assert open_model(place).version == version
    assert version in models("promote", "mine")
    published(registry, BpParameters(resolution=2.0))
    for command in ("show", "promote"):
        assert re.search(rf"several versions of 'mine' in .*{version}", refused(command, "mine"))
    versions_to_choose = rf"has: .*{version}.* \(stream-icd models import adds"
    assert re.search(versions_to_choose, refused("promote", "as"))


def test_a_recipe_that_is_none_is_not_imported(tmp_path: Path, registry: Store) -> None:
    models("export", "as", bad := str(tmp_path / "bad"))
    recipe = tmp_path / "bad" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("format = 3", "format = -5"))
    for command in (("diff", "as", bad), ("import", bad)):
        assert "recipe.toml has format -5" in refused(*command)
    assert versions(registry) == []


@pytest.mark.usefixtures("registry")
def test_what_is_missing_is_named() -> None:
    for command, reason in (
        ("promote lfr", r"'lfr' in .*: none \(stream-icd models import"),
        ("rollback", "has no champion yet: stream-icd models import"),
        ("show champion", "has no champion yet"),
        ("show lfr@00000000", "no version 'lfr@00000000' in"),
        ("show internet", "models list shows what each is for"),
        ("import nonesuch", "one of the shipped models"),
    ):
        assert re.search(reason, refused(*command.split()))


def test_a_registry_must_be_named_by_option_or_setting(
    disk: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (("rollback",), ("show", "previous"), ("import", "lfr")):
        assert "--registry" in refused(*arguments)
    monkeypatch.setenv("STREAM_ICD_REGISTRY", empty := str(tmp_path / "nonesuch"))
    for command, notice in (
        ("list", "holds no version: stream-icd models import"),
        ("history", "has no history yet: "),
    ):
        done = run_here("models", command)
        assert (done.returncode, f"{empty} {notice}" in done.stderr) == (0, True)
    models("import", "as", "--registry", disk.uri)
    assert versions(disk) == [AS]


def test_damaged_versions_are_listed_beside_the_others_and_not_promoted(registry: Store) -> None:
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
    version_folder(registry, taxi).put("recipe.toml", pa.py_buffer(b"a = "))
    assert "ModelDamaged: " in refused("promote", taxi)
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
    changes = ["import as", "promote as --reason first"]
    changes *= 2  # in case the first announcement was lost
    for command in (*changes, "import lfr", "promote lfr", "rollback --reason worse"):
        models(*command.split(), *where, announced=True)
    announced = list(announcements(settings))[before:]
    assert [(a.kind, a.version, a.champion, a.generation) for a in announced] == [
        ("published", AS, None, 0),
        ("promoted", AS, AS, 1),
        ("published", LFR, None, 0),
        ("promoted", LFR, LFR, 2),
        ("rolled back", AS, AS, 3),
    ]
    assert {a.registry for a in announced} == {registry.place}
    assert [a.reason for a in announced][1::3] == ["first", "worse"]
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


@pytest.mark.brokers("memory")
def test_a_change_that_is_not_announced_is_done_and_the_next_one_of_the_version_announces_it(
    broker: Broker, registry: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = broker.settings()
    create_topics(settings)
    before = len(list(announcements(settings)))
    models("import", "as")
    where = ("--bootstrap-servers", broker.bootstrap_servers)
    with monkeypatch.context() as patch:
        patch.setattr(announce, "announce", lambda *_: sys.exit(137))  # as if it were killed then
        assert run_here("models", "promote", "as", *where).returncode == 137
    assert champion(registry).champion == AS
    with monkeypatch.context() as patch:
        patch.setenv("STREAM_ICD_CONNECT_TIMEOUT_S", "0.2")
        done = run_here("models", "promote", "as", "--bootstrap-servers", "127.0.0.1:9")
    assert done.returncode == 0
    assert "done, but not announced in icd.models.v1 (BrokerUnavailable: " in done.stderr
    assert len(list(announcements(settings))) == before
    models("promote", "as", *where, announced=True)
    (announced,) = list(announcements(settings))[before:]
    assert (announced.kind, announced.generation) == ("promoted", 1)
    assert len(history(registry)) == 1


def test_shipped_models_say_what_they_are_for_and_how_good_they_are() -> None:
    listed = models("list")
    for name, folder in shipped_models().items():
        assert f"{name}  ({open_model(name).version})" in listed
        about = About.read(folder)
        for text in (about.purpose, about.learned_on, about.figures):
            assert text != "not said"
            assert text in listed
        assert models("show", name) == read_card(folder)


def test_a_folder_of_models_is_listed_and_what_is_none_is_refused(tmp_path: Path) -> None:
    place, mine = str(tmp_path), tmp_path / "mine"
    save_model(Model(RECIPE), mine)
    assert "for      not said" in models("list", place)
    about = About("mails of one office", "3 weeks", "modularity 70 %")
    open_store(str(mine)).put(ABOUT_FILE, pa.py_buffer(about.to_toml()))
    listed = models("list", place)
    assert "mine  (mine@" in listed
    assert "mails of one office" in listed
    assert "models show shows a single one" in refused("list", str(mine))
    (file := tmp_path / "file").write_text("no folder")
    for no_model in (place, str(file)):
        assert "ModelNotFound: " in refused("show", no_model)
    for options in ([str(file)], ["--registry", str(file)]):
        assert "is a file: give a folder" in refused("list", *options)
