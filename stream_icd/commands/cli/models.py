"""`stream-icd models`: list, show and compare models; a registry of versions with a champion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.commands.programs.declared import argument, command, option, options
from stream_icd.commands.programs.options import BrokerOptions, RegistryUri
from stream_icd.core.errors import ModelDamaged, ModelError, RegistryDamaged
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from stream_icd.core.lineage import Gate, Lineage
    from stream_icd.core.store.store import Store
    from stream_icd.wire.announcements import Announcement

app = typer.Typer(no_args_is_help=True, help="List, compare, promote and roll back models.")

_Reason = Annotated[str, typer.Option(help="The reason, for the history of the registry.")]
_Model = Annotated[
    str,
    typer.Argument(
        help="Name of a shipped model, a model's folder, or with a registry: champion, previous, a "
        "version, or a name that has only one version."
    ),
]


@options
class _OfRegistry:
    registry: RegistryUri = None

    def opened(self) -> Store | None:
        from stream_icd.registry.settings import registry_at

        return registry_at(self.registry)

    def required(self) -> Store:
        from stream_icd.registry.settings import required

        return required(self.opened())


@options
class _Changing(_OfRegistry, BrokerOptions):
    no_announce: bool = option(
        False,
        "Do not announce it in icd.models.v1, for example where there is no Kafka. Running "
        "detectors then find it a few seconds later, by looking at the registry.",
    )

    def announce(self, *changes: Announcement) -> None:
        """Announce changes that are done; if that fails, warn: only the registry counts."""
        from stream_icd.core.errors import BrokerError
        from stream_icd.registry.announce import announce

        if self.no_announce:
            return
        try:
            for change in changes:
                announce(self.kafka(), change)
        except BrokerError as error:
            say(
                "warning: done, but not announced in icd.models.v1 "
                f"({type(error).__name__}: {error}). Detectors find it by looking at the registry. "
                "Without Kafka, give --no-announce",
                err=True,
            )


@command(app, "list")
class _ListModels(_OfRegistry):
    """List models: name, version, purpose, training data and quality.

    Versions of a registry are listed with their aliases and origin, the oldest first.

      stream-icd models list
      stream-icd models list my-models/
      stream-icd models list --registry s3://bucket/models
    """

    folder: str | None = argument(
        "Folder of models to list: a path or a URI. Default: the versions of the registry, if "
        "there is one, and the shipped models.",
        default=None,
    )

    def run(self) -> None:
        from stream_icd.core.errors import ModelNotFound
        from stream_icd.core.store.store import open_store
        from stream_icd.registry.find import shipped_models
        from stream_icd.registry.model import models_in

        if self.folder is None:
            models = shipped_models()
            if (versions := self.opened()) is not None:
                lines = list(_version_lines(versions))
                say(*lines)
                if not lines:
                    nothing = f"{versions.place} holds no version"
                    say(f"{nothing}: stream-icd models import adds one", err=True)
        else:
            folder = open_store(self.folder)
            models = models_in(folder) if folder.is_there() else {}
        if not models:
            raise ModelNotFound(
                f"no folder in {self.folder} holds a model: stream-icd train makes one, and "
                "stream-icd models show shows a single one"
            )
        for name, place in models.items():
            say(*_model_lines(name, place))


@command(app, "show")
class _Show(_OfRegistry):
    """Show a model's card: what it is for, how good it is, and when not to use it.

    Of a version in a registry, show first where it comes from: parent, data, recipe, code, and the
    figures of its comparison with the champion.

      stream-icd models show as
      stream-icd models show champion --registry models/
    """

    name: _Model

    def run(self) -> None:
        from stream_icd.registry.find import find_model
        from stream_icd.registry.model import read_card, version_of

        versions = self.opened()
        folder = find_model(self.name, versions)
        if versions is not None:
            say(*_lineage_lines(versions, folder))
        version = version_of(folder)
        try:
            say(*read_card(folder).removesuffix("\n").split("\n"))
        except ModelDamaged:
            say(f"no card  ({version})", *_about(folder))


@command(app, "diff")
class _Diff(_OfRegistry):
    """Compare two models: settings, learned parameters, weights.

    One line per setting that differs. Equal models print nothing.

      stream-icd models diff as lfr
      stream-icd models diff previous champion --registry models/
    """

    before: _Model
    after: _Model

    def run(self) -> None:
        from stream_icd.registry.find import find_model
        from stream_icd.registry.model import differences

        versions = self.opened()
        before, after = (find_model(name, versions) for name in (self.before, self.after))
        for name, *values in differences(before, after):
            was, now = ("-" if value is None else value for value in values)
            say(f"{name}: {was} -> {now}")


@command(app, "import")
class _Import(_Changing):
    """Add a model to a registry, as a version that never changes.

    The version is made from the model's content, so a model that is imported twice is one version.
    Detectors do not use it before it is promoted.

      stream-icd models import lfr --registry models/ --first-champion
      stream-icd models import my-model/ --registry s3://bucket/models
    """

    source: str = argument("Name of a shipped model, or a model's folder: a path or a URI.")
    first_champion: bool = option(
        False, "Make it the champion if the registry has none yet; so a new system can start."
    )

    def run(self) -> None:
        from stream_icd.core.errors import ChampionChanged
        from stream_icd.registry.aliases import current, promote
        from stream_icd.registry.announce import change, publication
        from stream_icd.registry.find import folder_of
        from stream_icd.registry.versions import import_folder, read_lineage

        registry, now, by = self.required(), datetime.now(UTC), "models import"
        version = import_folder(registry, folder_of(self.source), by, now, self.source)
        say(version)
        # Announced at the end, with the promotion: what is announced is already there.
        changes = [publication(registry, version, read_lineage(registry, version))]
        if self.first_champion and current(registry) is None:
            with suppress(ChampionChanged):  # another program made the first champion meanwhile
                first = promote(registry, version, "the first champion", now, by=by, seen=None)
                changes.append(change(registry, first))
                say(f"champion {version}, previous none")
        self.announce(*changes)


@command(app, "promote")
class _Promote(_Changing):
    """Make a version the champion: detectors with --model champion change to it.

    They change between two batches, without a restart. The version is loaded first; one that cannot
    be loaded is not promoted. If somebody else promotes at the same time, one of you wins, and the
    other one gets an error and changes nothing.

    stream-icd models promote lfr@2682b844 --registry models/ --reason "better"
    """

    version: str = argument("Version in the registry, or a name that has only one version.")
    reason: _Reason = "by command"

    def run(self) -> None:
        from stream_icd.registry.aliases import current, promote
        from stream_icd.registry.announce import change
        from stream_icd.registry.find import find_version
        from stream_icd.registry.versions import read_lineage

        registry, now = self.required(), datetime.now(UTC)
        # The champion before all else: if it changes meanwhile, this promotion is refused.
        seen, version = current(registry), find_version(registry, self.version)
        gate = read_lineage(registry, version).gate
        aliases = promote(registry, version, self.reason, now, by="models promote", seen=seen)
        say(f"champion {aliases.champion}, previous {aliases.previous or 'none'}")
        self.announce(change(registry, aliases, gate))  # once it is done: only the registry counts


@command(app, "rollback")
class _Rollback(_Changing):
    """Make the previous champion the champion again.

    Each further rollback goes one promotion further back. To undo a rollback, promote.

    stream-icd models rollback --registry models/ --reason "worse"
    """

    reason: _Reason = "by command"

    def run(self) -> None:
        from stream_icd.registry.aliases import champion, roll_back
        from stream_icd.registry.announce import change

        registry, now = self.required(), datetime.now(UTC)
        seen = champion(registry)
        aliases = roll_back(registry, self.reason, now, by="models rollback", seen=seen)
        say(f"champion {aliases.champion}, previous {aliases.previous or 'none'}")
        self.announce(change(registry, aliases))


@command(app, "history")
class _History(_OfRegistry, BrokerOptions):
    """List all changes of the champion: when, what, by which program, and why.

    The oldest comes first. With --all, this needs Kafka, which keeps announcements for a year.

      stream-icd models history --registry models/
      stream-icd models history --registry models/ --all
    """

    everything: bool = option(
        False,
        "Also list added versions, refusals by detectors and decisions to keep the champion, as "
        "announced in icd.models.v1.",
        "--all",
    )

    def run(self) -> None:
        from stream_icd.registry.aliases import history
        from stream_icd.registry.announce import announcements, change

        store = self.required()
        changes = [change(store, aliases) for aliases in history(store)]
        if self.everything:
            events = [e for e in announcements(self.kafka()) if e.registry == store.place]
            announced = {event.id for event in events}
            # An announcement may be lost, a change of the registry is not.
            events += [event for event in changes if event.id not in announced]
            changes = sorted(events, key=lambda event: event.at)
        for event in changes:
            version = event.version or event.champion or "-"
            when = f"{event.at:%Y-%m-%d %H:%M:%S}"
            say(f"{when}  {event.kind:<11}  {version}  {event.by}: {event.reason}")
        if not changes:
            say(
                f"{store.place} has no history yet: stream-icd models import adds a "
                "version, stream-icd models promote makes it the champion",
                err=True,
            )


@command(app, "export")
class _Export(_OfRegistry):
    """Copy a model to a folder.

    The copy has the same bytes, so the same version, and works wherever a model is asked for.

      stream-icd models export champion exported/ --registry models/
    """

    name: _Model
    target: str = argument("New folder (a path or a URI).")

    def run(self) -> None:
        from stream_icd.registry.find import find_model
        from stream_icd.registry.versions import export_folder

        say(export_folder(find_model(self.name, self.opened()), self.target))


def _model_lines(name: str, folder: Store) -> list[str]:
    from stream_icd.registry.model import version_of

    try:
        return [f"{name}  ({version_of(folder)})", *_about(folder)]
    except ModelError as error:
        return [name, _damaged(error)]


def _version_lines(registry: Store) -> Iterator[str]:
    """The versions of a registry and what is known of each, the oldest first, damaged ones last."""
    from stream_icd.registry.aliases import current
    from stream_icd.registry.versions import versions

    names: dict[str | None, str] = {}
    try:
        if (aliases := current(registry)) is not None:
            names = {aliases.previous: "previous", aliases.champion: "champion"}
    except RegistryDamaged as error:
        yield from ("aliases", _damaged(error))
    with_aliases = {*versions(registry), *filter(None, names)}  # whose folders may be gone
    described = (_described(registry, version) for version in with_aliases)
    for _, version, lines in sorted(described):
        yield f"{version}  {names.get(version, '')}".rstrip()
        yield from lines


def _described(registry: Store, version: str) -> tuple[datetime, str, list[str]]:
    from stream_icd.registry.versions import read_lineage, version_folder

    try:
        lineage = read_lineage(registry, version)
        about = _about(version_folder(registry, version))
        return lineage.made_at, version, [f"  made     {_made(lineage)}", *about]
    except ModelError as error:
        return datetime.max.replace(tzinfo=UTC), version, [_damaged(error)]


def _damaged(error: ModelError) -> str:
    return f"  damaged  {type(error).__name__}: {error}"


def _lineage_lines(registry: Store, folder: Store) -> Iterator[str]:
    """Where a version of the registry comes from; nothing of a model that is not in it."""
    from stream_icd.registry.aliases import current
    from stream_icd.registry.model import version_of
    from stream_icd.registry.versions import read_lineage, version_folder

    version = version_of(folder)
    if version_folder(registry, version).uri != folder.uri:
        return
    lineage, aliases = read_lineage(registry, version), current(registry)
    yield f"version  {version}"
    yield f"made     {_made(lineage)}"
    yield f"parent   {lineage.parent or 'none'}"
    yield f"data     {_data(lineage)}"
    yield from _gate(lineage.gate)
    if aliases is not None and aliases.champion == version:
        yield (
            f"champion {aliases.change} {aliases.at:%Y-%m-%d %H:%M:%S} UTC by {aliases.by}: "
            f"{aliases.reason} (generation {aliases.generation})"
        )
    yield ""


def _about(folder: Store) -> Iterator[str]:
    from stream_icd.registry.model import About

    about = About.read(folder)
    yield f"  for      {about.purpose}"
    yield f"  learned  {about.learned_on}"
    yield f"  figures  {about.figures}"


def _made(lineage: Lineage) -> str:
    source = f" from {lineage.source}" if lineage.source else ""
    when = f"{lineage.made_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{when} by {lineage.made_by}{source} (stream-icd {lineage.code_version})"


def _data(lineage: Lineage) -> str:
    data = lineage.data
    if data is None:
        return "not known"
    period = f"{data.start:%Y-%m-%d %H:%M} to {data.end:%Y-%m-%d %H:%M} UTC"
    labelled = f"{data.labelled} of them with labels"
    return f"{data.windows} windows of {', '.join(data.graphs)}, {period}, {labelled}"


def _gate(gate: Gate | None) -> Iterator[str]:
    if gate is None:
        yield "gate     none"
        return
    result = "passed" if gate.passed else "not passed"
    yield f"gate     {result} against {gate.champion} on {gate.windows} windows"
    yield f"         {gate.reason}"
    for figure in gate.figures:
        interval = ""
        if figure.low is not None and figure.high is not None:
            interval = f", difference {figure.low:+.4g} to {figure.high:+.4g}"
        values = f"{figure.champion:.4g} -> {figure.challenger:.4g}"
        yield f"         {figure.measure}: {values}{interval}"
