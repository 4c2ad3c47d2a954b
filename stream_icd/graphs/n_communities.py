"""Check the requested number of communities, K."""

from __future__ import annotations

from stream_icd.errors import BadSettings


def check_n_communities(n_communities: int | None, n_nodes: int) -> None:
    """Check that a graph of `n_nodes` can form K communities; None is allowed: K is determined.

    Raises:
        BadSettings: K is not from 1 to n.

    >>> check_n_communities(4, n_nodes=3)
    Traceback (most recent call last):
    ...
    stream_icd.errors.BadSettings: 3 nodes cannot form 4 communities; give K from 1 to 3
    """
    if n_communities is not None and not 1 <= n_communities <= n_nodes:
        raise BadSettings(
            f"{n_nodes} nodes cannot form {n_communities} communities; give K from 1 to {n_nodes}"
        )
