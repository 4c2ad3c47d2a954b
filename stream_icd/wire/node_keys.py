"""Keys of the messages about one node of a graph: GRAPH/NODE, where the graph's name is quoted."""

from __future__ import annotations

from urllib.parse import quote, unquote

from stream_icd.core.errors import BadInput
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import graph_of


def node_key(graph: str, node: int | str) -> bytes:
    """Return the key of the messages about a node.

    >>> node_key("a/b", "10.0.0.0/8")
    b'a%2Fb/10.0.0.0/8'
    """
    return f"{quote(graph, safe='')}/{node}".encode()


def graph_and_node(key: bytes | None, limits: Limits, error: type[BadInput]) -> tuple[str, bytes]:
    """Return the graph and the node, UTF-8, that a key names; raises `error`, and as `graph_of`."""
    quoted, _, node = (key or b"").partition(b"/")
    if not node:
        raise error(f"the key is {key!r:.80}; expected GRAPH/NODE, such as as733/7018")
    return graph_of(unquote(quoted, errors="strict").encode(), limits, error), node
