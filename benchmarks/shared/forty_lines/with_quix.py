"""Communities by igraph's Leiden, with Quix Streams; at least once."""

import sys

from quixstreams import Application
from with_confluent import labels_of


def main():
    servers, group, source, target = sys.argv[1:]
    app = Application(servers, consumer_group=group, auto_offset_reset="earliest")
    snapshots = app.topic(source, key_deserializer="bytes", value_deserializer="bytes")
    communities = app.topic(target, key_serializer="bytes", value_serializer="bytes")
    found = app.dataframe(snapshots).apply(labels_of)
    found.to_topic(communities)
    app.run()


if __name__ == "__main__":
    main()
