"""`stream-icd consume archive`: store the messages of the topics."""

from enum import StrEnum

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import ArchiveUri, WorkerOptions

app = typer.Typer()

Kinds = StrEnum("Kinds", ["SNAPSHOTS", "LABELS", "COMMUNITIES", "EVENTS", "MEMORY"])


@command(app, "archive")
class Archive(WorkerOptions):
    """Store snapshots, labels, communities, events and memory as Parquet files, each once.

    Offsets are committed after the files are safe, and a message always has the same file, so a
    crash neither loses nor repeats a message. A message that breaks the contract becomes a dead
    letter. Archives with the same --group share the messages: for a second place, give another one.

      stream-icd consume archive history/
      stream-icd consume archive s3://bucket/history --kind snapshots
    """

    uri: ArchiveUri
    kind: list[Kinds] | None = option(None, "Only this kind; may be repeated. Default: all kinds.")

    def run(self) -> None:
        from stream_icd.core.store.store import open_store
        from stream_icd.history.archive import Archive
        from stream_icd.history.archiver import TOPICS, Archiver
        from stream_icd.history.files import FILE_KINDS

        kinds = [name for name in FILE_KINDS if self.kind is None or name in self.kind]

        def archivers(_: object) -> dict[str, Archiver]:
            archive = Archive(open_store(self.uri))
            return {TOPICS[name]: Archiver(archive, name) for name in kinds}

        # At least once is enough: keeping a record twice is keeping it once.
        programs.run_worker(
            archivers,
            self,
            "archive",
            delivery="at-least-once",
            group_by_topic=True,
            uri=self.uri,
            kinds=kinds,
        )
