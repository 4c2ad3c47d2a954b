"""Keep what a demonstration sent and found: an archive to look at when its broker is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

from stream_icd.history.archive import Archive
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.store.store import open_store
from stream_icd.workers.archive import TOPICS, Archiver


def keep(settings: KafkaSettings, folder: Path) -> None:
    """Archive all topics of the broker in a folder; what was there before is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    archive = Archive(open_store(str(folder)))
    for kind, topic in TOPICS.items():
        archiver = Archiver(archive, kind)
        with open_reader(settings, topic, start="beginning", until="end") as records:
            for record in records:
                archiver.process(record)
