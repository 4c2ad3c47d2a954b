"""The disk is full on which an archive is kept."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from tests.testbed.brokers import wait_until
from tests.testbed.faults.ground import CannotPlay, Ground
from tests.testbed.faults.play import Item, Outcome, Play

DISK = "16m"
ROOM_BYTES = 96 * 1024
INSTRUCTION = "a small disk needs user namespaces (unshare -rm), or to be root"


def full(ground: Ground) -> Outcome:
    """The archive stops; after room was made, it is started again. Seen: what it holds."""
    with Play(ground) as play, small_disk(ground.folder) as disk:
        store = open_store(str(disk / "history"))
        arguments = ("archive", store.uri, "--kind", "snapshots")
        play.send(60)
        play.wait_stopped(play.program(*arguments))
        whole = archived(store)
        assert 0 < len(whole) < len(play.sent)
        assert len(store.files()) == len(whole)
        (disk / "filler").unlink()
        play.healed()
        play.program(*arguments)
        wait_until(lambda: len(archived(store)) > len(whole))
        next_after_s = play.since_healed()
        wait_until(lambda: len(archived(store)) >= len(play.sent))
        all_after_s = play.since_healed()
        outcome = play.outcome_of(archived(store))
        return replace(outcome, next_after_s=next_after_s, all_after_s=all_after_s)


def archived(store: Store) -> list[Item]:
    found = (Archive(store).read_snapshot(noted) for noted in Archive(store).windows())
    return [Item(snapshot.graph, snapshot.id, snapshot.n_nodes) for snapshot in found]


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of its own, nearly full; its file `filler` can be removed to make room.

    It is a tmpfs in a mount namespace, which we look into from outside: so nobody need be root.

    Raises:
        CannotPlay: there are no user namespaces here.
    """
    mount = folder / "disk"
    mount.mkdir()
    script = f"mount -t tmpfs -o size={DISK} none '{mount}' && echo mounted && exec sleep infinity"
    holder = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"mounted\n":
            raise CannotPlay(INSTRUCTION)
        disk = Path(f"/proc/{holder.pid}/root{mount}")
        fill(disk / "filler", disk)
        yield disk
    finally:
        holder.kill()
        holder.communicate()
        mount.rmdir()


def fill(filler: Path, disk: Path) -> None:
    """Leave `ROOM_BYTES` of the disk."""
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - ROOM_BYTES))
