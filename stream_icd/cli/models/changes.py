"""Changes of a registry by command: what is done, and what is announced about it."""

from __future__ import annotations

from datetime import UTC, datetime

from stream_icd.announcement import Announcement
from stream_icd.lineage import Lineage
from stream_icd.registry.aliases import Aliases, champion, current, promote, roll_back
from stream_icd.registry.announced import change, publication
from stream_icd.registry.find import find_version
from stream_icd.registry.shipped import folder_of
from stream_icd.registry.versions import pack_folder, publish, read_lineage
from stream_icd.store.store import Store
from stream_icd.version import __version__


def import_model(registry: Store, source: str) -> tuple[str, Announcement]:
    """Add a model to the registry; return its version, and what to announce.

    Raises:
        ModelError: the model cannot be used.
        StoreUnwritable, StoreUnreachable: see these classes.
    """
    folder = folder_of(source)
    model, described = pack_folder(folder)
    lineage = Lineage("models import", datetime.now(UTC), __version__, source=source)
    published = publish(registry, model, lineage, described)
    known = lineage if published.new else read_lineage(registry, published.version)
    return published.version, publication(registry, published.version, known)


def promote_first(registry: Store, version: str) -> Announcement | None:
    """Make a version the champion if there is none; return what to announce, if anything.

    Raises:
        ChampionChanged: another program did the same at the same time.
        ModelError, StoreUnwritable, StoreUnreachable: see these classes.
    """
    if current(registry) is not None:
        return None
    now = datetime.now(UTC)
    first = promote(registry, version, "the first champion", now, by="models import", seen=None)
    return change(registry, first)


def promote_version(registry: Store, text: str, reason: str) -> tuple[Aliases, Announcement]:
    """Make a version the champion; return the aliases, and what to announce.

    Raises:
        ModelError: see `registry.aliases.promote`.
        StoreUnwritable, StoreUnreachable: see these classes.
    """
    seen, version = current(registry), find_version(registry, text)
    aliases = promote(registry, version, reason, datetime.now(UTC), by="models promote", seen=seen)
    return aliases, change(registry, aliases, read_lineage(registry, version).gate)


def roll_back_champion(registry: Store, reason: str) -> tuple[Aliases, Announcement]:
    """Make the previous champion the champion; return the aliases, and what to announce.

    Raises:
        BadSettings, ModelError: see `registry.aliases.roll_back`.
        StoreUnwritable, StoreUnreachable: see these classes.
    """
    seen = champion(registry)
    aliases = roll_back(registry, reason, datetime.now(UTC), by="models rollback", seen=seen)
    return aliases, change(registry, aliases)
