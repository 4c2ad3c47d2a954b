"""The limit on the name of a graph, the same for producers, readers and the archive."""

from __future__ import annotations

from urllib.parse import quote

from stream_icd.errors import BadSnapshot, LimitExceeded

MOST_GRAPH_BYTES = 200
"""Maximum size of a graph's name, written as in a URL. The archive names a folder so: file systems
allow names of 255 bytes, and `graph=` precedes the graph's name."""


def check_graph_name(graph: str) -> None:
    """Check that a graph may have this name.

    Raises:
        BadSnapshot: it is empty, or cannot be written as UTF-8.
        LimitExceeded: it has more than `MOST_GRAPH_BYTES`.

    >>> check_graph_name("as733")
    """
    if not graph:
        raise BadSnapshot("the name of the graph is empty: give one, such as as733")
    try:
        size = len(quote(graph, safe=""))
    except UnicodeEncodeError as error:
        raise BadSnapshot(f"the name of graph {graph!r:.80} is not UTF-8 text") from error
    if size > MOST_GRAPH_BYTES:
        raise LimitExceeded(
            f"the name of graph {graph:.40}… has {size} bytes when written as in a URL; the limit "
            f"is {MOST_GRAPH_BYTES}"
        )
