"""Names of communities, and what they are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import betainc

from stream_icd.core.arrays import AnyLabels
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.events import CommunityEvents
from stream_icd.core.printable import listed, printable, shortened
from stream_icd.methods.names.attributes import Attribute, Attributes
from stream_icd.methods.quality.agreement import ami

_MOST_VALUES = 3
"""A name has at most so many values."""

_FALSE_NAMES = 0.05
"""Expected fraction of the reported values that are there by chance."""

_PRIOR_NODES = 1.0
"""α₀: the prior weighs as much as one node (the unit-information prior of Kass and Wasserman)."""


@dataclass(frozen=True, slots=True, eq=False)
class _ValueCounts:
    """How many members of each community have each value of one attribute: pairs that occur."""

    community: NDArray[np.int64]  # (n_pairs,) number of the community of each pair, ascending
    value: NDArray[np.int64]  # (n_pairs,) number of the value, ascending in each community
    members: NDArray[np.int64]  # (n_pairs,) nodes, at least 1
    known: NDArray[np.int64]  # (K,) members of each community that have a value
    totals: NDArray[np.int64]  # (V,) nodes that have each value


def _counts(labels: NDArray[np.integer], k: int, attribute: Attribute) -> _ValueCounts:
    """Count the values of an attribute in each of `k` communities; labels: `(n,)` in 0..k-1."""
    has = attribute.codes >= 0
    of, codes = labels[has].astype(np.int64), attribute.codes[has].astype(np.int64)
    n_values = len(attribute.values)
    if k * n_values <= 16 * max(len(of), 1):  # ten times faster than sorting
        table = np.bincount(of * n_values + codes, minlength=k * n_values)
        pairs = np.flatnonzero(table)
        members = table[pairs]
    else:
        pairs, members = np.unique(of * n_values + codes, return_counts=True)
    community, value = np.divmod(pairs, max(n_values, 1))
    n_known, totals = np.bincount(of, minlength=k), np.bincount(codes, minlength=n_values)
    return _ValueCounts(community, value, members, n_known, totals)


def _log_odds(table: _ValueCounts) -> NDArray[np.float64]:
    """Return z of each pair, `(n_pairs,)`: log-odds in the community against all others.

    With y nodes of n in the community and y' of n' in the others, and a Dirichlet prior in
    proportion to the whole graph, α = α₀ Y / N:

        δ = log (y + α) / (n + α₀ − y − α) − log (y' + α) / (n' + α₀ − y' − α),    z = δ / σ(δ)

    σ² is the sum of the reciprocals of the four counts (Monroe, Colaresi and Quinn, "Fightin'
    words: lexical feature selection and evaluation for identifying the content of political
    conflict", Political Analysis 2008, equations 15, 18 and 22). A pair without others has z 0.
    """
    all_known, total = table.known.sum(), table.totals[table.value]
    inside = table.members, table.known[table.community]
    outside = total - inside[0], all_known - inside[1]
    prior = _PRIOR_NODES * total / max(all_known, 1)
    delta, variance = np.zeros(len(prior)), np.zeros(len(prior))
    for sign, (y, n) in ((1, inside), (-1, outside)):
        has, has_not = y + prior, n - y + _PRIOR_NODES - prior
        has_not = np.maximum(has_not, np.finfo(float).tiny)  # all nodes have the value
        delta += sign * (np.log(has) - np.log(has_not))
        variance += 1 / has + 1 / has_not
    z = delta / np.sqrt(variance)
    # With no other nodes, or none without the value, there is nothing to compare.
    z[(outside[1] == 0) | (total == all_known)] = 0.0
    return z


def _chance(table: _ValueCounts) -> NDArray[np.float64]:
    """Return the probability of as many members with the value, or more, by chance, `(n_pairs,)`.

    The tail of the binomial distribution, for n members drawn from the whole graph: an upper bound
    of that without replacement where members are more than expected (Hoeffding, JASA 1963). The
    normal distribution of z is no substitute for counts of 1 to 5, which are most: by it, three in
    ten windows with shuffled communities had a name.
    """
    n = table.known[table.community]
    fraction = table.totals[table.value] / max(table.known.sum(), 1)
    p: NDArray[np.float64] = betainc(table.members, n - table.members + 1, fraction)
    return p


def _significant(p: Sequence[NDArray[np.float64]], n_tests: int) -> list[NDArray[np.bool_]]:
    """Return which counts are too large for chance, with a false discovery rate of 5%.

    p: the probabilities of `_chance`, one array for each attribute; they are corrected together,
    since all of them are tried.
    n_tests: number of all comparisons, also of those that are in none of the arrays because the
    community has no such member (Benjamini and Hochberg, JRSS B 1995).
    """
    ascending = np.sort(np.concatenate(p))
    limits = _FALSE_NAMES * np.arange(1, len(ascending) + 1) / max(n_tests, 1)
    passing = np.flatnonzero(ascending <= limits)
    most = ascending[passing[-1]] if len(passing) else -1.0
    return [of_attribute <= most for of_attribute in p]


@dataclass(frozen=True, slots=True)
class Name:
    """What is over-represented in a community."""

    attribute: str
    values: tuple[tuple[str, int], ...]  # that name it, and how many members have each, most first
    known: int  # members with a value of the attribute
    size: int  # all members

    def __str__(self) -> str:
        """Return the name in words: `2BIO1, 31 of 32`, `mostly RU, UA` or `partly RU`."""
        names = self.briefly()
        n_named = sum(n for _, n in self.values)
        if 2 * n_named <= self.known:
            return f"partly {names}"
        if len(self.values) > 1:
            return f"mostly {names}"
        return f"{names}, {n_named} of {self.known}{'' if self.known == self.size else ' known'}"

    def briefly(self) -> str:
        """Return the values that name it, without counts: `RU, UA`."""
        return ", ".join(printable(shortened(value, 40)) for value, _ in self.values)


@dataclass(frozen=True, slots=True)
class Part:
    """One value of an attribute in a community."""

    value: str | None  # None stands for the members of which it is not known
    members: int
    total: int  # nodes of the window that have it
    z: float  # log-odds against the other communities, in standard errors
    names: bool  # whether it is over-represented beyond chance


@dataclass(frozen=True, slots=True, eq=False)
class _ComparedAttribute:
    """The values of one attribute, compared between communities; pairs are those of `_counts`."""

    attribute: Attribute
    counts: _ValueCounts
    z: NDArray[np.float64]  # (n_pairs,) log-odds
    chosen: NDArray[np.bool_]  # (n_pairs,) over-represented beyond chance

    def of(self, community: int) -> list[int]:
        """Return the pairs of a community, that with the most members first."""
        first, last = np.searchsorted(self.counts.community, [community, community + 1])
        by_members = np.argsort(-self.counts.members[first:last], kind="stable")
        pairs: list[int] = (first + by_members).tolist()
        return pairs

    def naming(self) -> Iterator[tuple[int, list[int]]]:
        """Yield each community with over-represented values, and these as `of` orders them."""
        for community in np.unique(self.counts.community[self.chosen]).tolist():
            yield community, [pair for pair in self.of(community) if self.chosen[pair]]


@dataclass(frozen=True, slots=True, eq=False)
class NamedWindow:
    """The communities of a window beside attributes of their nodes; made by `named`."""

    ids: NDArray[np.int64]  # (K,), ascending
    labels: NDArray[np.int64]  # (n,), position of each node's community in `ids`
    compared: tuple[_ComparedAttribute, ...]

    def names(self) -> dict[int, Name]:
        """Return the names of the communities that have one, by id.

        The attribute whose value is over-represented most clearly names a community.
        """
        sizes = np.bincount(self.labels, minlength=len(self.ids))
        best: dict[int, tuple[float, Name]] = {}
        for compared in self.compared:
            for at, pairs in compared.naming():
                clearest = float(compared.z[pairs].max())
                if at not in best or clearest > best[at][0]:
                    best[at] = clearest, _name(compared, pairs, at, int(sizes[at]))
        return {int(self.ids[at]): name for at, (_, name) in sorted(best.items())}

    def composition(self, community: int, most: int = 12) -> dict[str, tuple[Part, ...]]:
        """Return the most frequent values of a community by attribute; empty without such a one."""
        at = int(np.searchsorted(self.ids, community))
        if at == len(self.ids) or self.ids[at] != community:
            return {}
        size = int((self.labels == at).sum())
        return {
            compared.attribute.name: tuple(_parts(compared, at, size, most))
            for compared in self.compared
        }

    def agreement(self) -> dict[str, float | None]:
        """Return the AMI of communities and values by attribute; None if no node has a value."""
        agreement: dict[str, float | None] = {}
        for attribute in (compared.attribute for compared in self.compared):
            known = attribute.codes >= 0
            score = ami(attribute.codes[known], self.labels[known]) if known.any() else None
            agreement[attribute.name] = score
        return agreement


def named(
    nodes: Sequence[int | str] | NDArray[Any] | pa.Array,
    communities: AnyLabels,
    attributes: Attributes,
) -> NamedWindow:
    """Compare the communities of a window in the attributes of their nodes.

    A value is over-represented in a community if more members have it than by chance, corrected for
    all values, attributes and communities. How clearly it is so is told by its log-odds against all
    other communities. A community without such a value has no name.

    Args:
        nodes: `(n,)` ids, such as `ICD.nodes_`.
        communities: community of each node, `(n,)`: labels, or stable ids.

    Raises:
        BadInput: there is another number of communities than of nodes, or they are no integers.
        BadSettings: ids of the table are texts and those of the graph numbers, or the reverse.

    >>> from stream_icd.methods.names.attributes import attributes_of
    >>> classes = attributes_of(pa.array(range(30)), {"class": ["2BIO1"] * 11 + ["PC"] * 19})
    >>> window = named(pa.array(range(30)), np.repeat([5, 7], [10, 20]), classes)
    >>> {community: str(name) for community, name in window.names().items()}
    {5: '2BIO1, 10 of 10', 7: 'PC, 19 of 20'}
    """
    if len(communities) != len(nodes):
        raise BadInput(f"{len(nodes)} nodes need one community each; got {len(communities)}")
    labels_given = np.asarray(communities)
    if labels_given.ndim != 1 or (len(labels_given) and labels_given.dtype.kind not in "iu"):
        raise BadInput(
            f"communities are integers, not {labels_given.dtype} of shape {labels_given.shape}"
        )
    ids, labels = np.unique(labels_given, return_inverse=True)
    of_nodes = attributes.of_nodes(nodes)
    tables = [_counts(labels, len(ids), node) for node in of_nodes]
    z = [_log_odds(table) for table in tables]
    # Also of pairs that do not occur: a value that a community lacks was compared, too.
    n_tests = sum(int((table.known > 0).sum() * (table.totals > 0).sum()) for table in tables)
    # All attributes at once: the more comparisons, the more would be significant by chance.
    chosen = _significant([_chance(table) for table in tables], n_tests)
    compared = tuple(map(_ComparedAttribute, of_nodes, tables, z, chosen))
    return NamedWindow(ids.astype(np.int64), labels, compared)


def _name(compared: _ComparedAttribute, pairs: list[int], community: int, size: int) -> Name:
    """Return the name by the most frequent of these values, as many as cover half of the known."""
    attribute, table = compared.attribute, compared.counts
    n_known, covered = int(table.known[community]), 0
    values: list[tuple[str, int]] = []
    for pair in pairs[:_MOST_VALUES]:
        members = int(table.members[pair])
        values.append((attribute.values[table.value[pair]], members))
        covered += members
        if 2 * covered > n_known:
            break
    return Name(attribute.name, tuple(values), n_known, size)


def _parts(compared: _ComparedAttribute, community: int, size: int, most: int) -> Iterator[Part]:
    attribute, table = compared.attribute, compared.counts
    for pair in compared.of(community)[:most]:
        value = int(table.value[pair])
        members, total = int(table.members[pair]), int(table.totals[value])
        z, chosen = float(compared.z[pair]), bool(compared.chosen[pair])
        yield Part(attribute.values[value], members, total, z, chosen)
    if unknown := size - int(table.known[community]):
        total = int((attribute.codes < 0).sum())
        yield Part(None, unknown, total, 0.0, names=False)


class Naming:
    """Names communities, window after window, by attributes of nodes.

    There is a table of attributes for each graph, or one for the only graph that there is (None). A
    node of another graph may have the same id. So if a second graph comes, a table without a graph
    belongs to none of them, and `trouble` says so.
    """

    def __init__(self, tables: Mapping[str | None, Attributes]) -> None:
        self._tables = dict(tables)
        self._only: str | None = None  # the graph of a table without one
        self._several = ""  # why no graph has attributes
        self.other_ids = ""  # why a graph has no attributes, since its ids are of another type
        self.found = False  # whether a node of any window had an attribute

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all attributes, ascending."""
        return tuple(sorted({name for table in self._tables.values() for name in table.names}))

    @property
    def trouble(self) -> str:
        """Why nodes have no attributes; empty if all is well."""
        return self.other_ids or self._several

    @property
    def is_of_none(self) -> bool:
        """Whether several graphs came, and a table does not say which of them it belongs to."""
        return self._several != ""

    def check_graphs(self, graphs: Collection[str]) -> None:
        """Raise `BadSettings` if a table does not say to which of these graphs it belongs."""
        if None in self._tables and len(graphs) > 1:
            raise BadSettings(_of_which_graph(graphs))

    def window(self, graph: str, nodes: pa.Array, ids: NDArray[np.integer]) -> NamedWindow | None:
        """Return the communities beside the attributes; None if no node can be found in them."""
        attributes = self._of_graph(graph)
        if attributes is None:
            return None
        try:
            window = named(nodes, ids, attributes)
        except BadSettings as error:
            # Noted, not raised: one graph with other ids must not end the naming of all.
            self.other_ids = str(error)
            return None
        self.found = self.found or any(
            attribute.counts.known.any() for attribute in window.compared
        )
        return window

    def of_events(self, window: CommunityEvents) -> dict[int, str]:
        """Return the names of the communities of a tracked window, by id."""
        compared = self.window(window.graph, window.nodes, window.communities)
        names = {} if compared is None else compared.names()
        return {community: str(name) for community, name in names.items()}

    def values(self, graph: str, nodes: pa.Array, attribute: str) -> list[str | None] | None:
        """Return the value of an attribute of each node; None if the graph has no such attribute.

        The value is None where it is not known.
        """
        attributes = self._of_graph(graph)
        if attributes is None or attribute not in attributes.names or self.other_ids:
            return None
        column = attributes.of_nodes(nodes)[attributes.names.index(attribute)]
        values = (*column.values, None)  # a code of -1 is unknown
        return [values[code] for code in column.codes.tolist()]

    def _of_graph(self, graph: str) -> Attributes | None:
        if None in self._tables:
            self._only = self._only or graph
            if graph != self._only:
                self._several = _of_which_graph((self._only, graph))
            if self._several:
                return None
        return self._tables.get(graph, self._tables.get(None))


def _of_which_graph(graphs: Collection[str]) -> str:
    return (
        f"the table of attributes does not say whether it belongs to {listed(sorted(graphs))}: "
        f"give --names {shortened(printable(min(graphs)), 40)}=FILE, once for each graph, or one "
        "--graph"
    )
