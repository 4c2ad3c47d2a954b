"""`stream-icd consume rows`: a row for each node whose community changed."""

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.naming import GraphNames, naming_by
from stream_icd.commands.programs.options import DeliveryOption, WorkerOptions

app = typer.Typer()


@command(app, "rows")
class RowsOfMembers(WorkerOptions):
    """Write rows for databases: read icd.communities.v1, write icd.members.v1.

    A row is a JSON object: a node, the id of its community, the name of that, how probable it is,
    and since when the node is there. The key is GRAPH/NODE, and the topic is compacted, so it is a
    table of all nodes as they are now. Only nodes that changed are written; a node that left is
    deleted (a record without a value). ksqlDB, Flink SQL, Kafka Connect and ClickHouse read it as
    it is (docs/sql.md).

      stream-icd consume rows --graph as733
      stream-icd consume rows --names countries.csv

    It needs stable ids: run the detector with memory, as it does by default. You can start several;
    each graph is written by one of them. The topic is the only state; after a restart, a worker
    continues from it. On brokers with transactions, rows are written exactly once.
    """

    least_change: float = option(
        0.1, "Write a row again if its probability has changed by this.", min=0.01, max=1
    )
    model: str | None = option(
        None, "Only results of this model, by name or version. Default: all.", metavar="NAME"
    )
    names: GraphNames = None
    delivery: DeliveryOption = "auto"
    batch: int = option(4, "Maximum number of windows written together.", min=1)

    def run(self) -> None:
        from stream_icd.kafka.topics import COMMUNITIES
        from stream_icd.streaming.workers.rows import RowWriter

        def rows(run: programs.WorkerRun) -> dict[str, RowWriter]:
            naming = naming_by(self.names, self.graph)
            written = RowWriter(run.settings, self.least_change, self.model, self.graph, naming)
            return {COMMUNITIES: written}

        programs.run_worker(rows, self, "rows", delivery=self.delivery, batch=self.batch)
