"""Communities by igraph's Leiden, with confluent-kafka; at least once."""

import sys

import igraph
import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer


def labels_of(value):
    pairs = pa.ipc.open_stream(value).read_all().select(["src", "dst"]).drop_null()
    ends = np.concatenate([pairs["src"].to_numpy(), pairs["dst"].to_numpy()])
    nodes, places = np.unique(ends, return_inverse=True)
    graph = igraph.Graph(len(nodes), places.reshape(2, -1).T)
    found = graph.community_leiden("modularity")
    table = pa.table({"node": nodes, "community": pa.array(found.membership, pa.int32())})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def main():
    servers, group, source, target = sys.argv[1:]
    kafka = {"bootstrap.servers": servers}
    begin = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**kafka, **begin, "group.id": group})
    producer = Producer({**kafka, "enable.idempotence": True})
    consumer.subscribe([source])
    while True:
        messages = consumer.consume(8, 0.1)
        for message in messages:
            if message.error():
                raise SystemExit(message.error())
            snapshot = dict(message.headers())["ce_id"]
            labels = labels_of(message.value())
            producer.produce(target, labels, message.key(), headers={"ce_id": snapshot})
        if messages:
            producer.flush()
            consumer.commit(asynchronous=False)


if __name__ == "__main__":
    main()
