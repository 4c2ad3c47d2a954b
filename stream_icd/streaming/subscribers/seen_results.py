"""The results seen so far: repetitions, corrections, and two models in use on one graph.

A *result* is identified by `(graph, snapshot id, model)`. It has *revisions*: the snapshot was
corrected, or the detector had another K or seed. A revision that is later in the topic replaces
the previous one. A revision is a repetition if it is already the newest one, or if it was made
from the same record of the snapshots topic as a seen one: a restarted detector publishes old
revisions again, followed by the newest ones. When a correction is reverted, the revision comes
from another record, so it is the newest again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from hashlib import blake2b
from typing import NamedTuple

from stream_icd.kafka.record import Record

_REMEMBERED = 100_000
"""How many recent results are remembered to recognise repetitions: 75 MB, and 105 MB at most, where
each has a graph of its own with a long name."""

_LONGEST = 31
"""Bytes of a name that is kept as it is; of a longer one, a digest of one byte more is kept."""

_MOST_CHANGES, WITHIN = 2, 100
"""A promotion and its rollback are two changes; a third within this many results is reported."""

_Name = tuple[bytes, bytes, bytes]
"""Graph, snapshot id and model."""

_Revision = tuple[bytes, bytes]
"""The revision, and what it was made from."""


class _ResultIdentity(NamedTuple):
    """Identifies a result, by the headers of its record; empty where these do not say it."""

    name: _Name
    revision: bytes
    made_from: bytes  # position of its snapshot in the snapshots topic


def result_of(record: Record) -> _ResultIdentity:
    """Return the result in a record of communities or events."""
    headers = dict(record.headers)
    named = headers.get("icd_snapshot_id", b""), headers.get("icd_model", b"")
    return _ResultIdentity(
        name=(record.key or b"", *named),
        revision=headers.get("icd_revision", b""),
        made_from=headers.get("icd_snapshot_place", b""),
    )


class SeenResults:
    """The last `_REMEMBERED` results, beside those seen `before`, which only `keep` changes."""

    def __init__(self, before: SeenResults | None = None) -> None:
        self._before = before
        # The revisions of each name, newest last; the name with the newest one last.
        self._seen: OrderedDict[_Name, dict[_Revision, None]] = OrderedDict()
        self._of_graph: defaultdict[bytes, set[_Name]] = defaultdict(set)
        self._n_revisions = 0

    def __contains__(self, result: _ResultIdentity) -> bool:
        """Return whether the result is a repetition."""
        name, revision = _in_few_bytes(result)
        layers = [self] if self._before is None else [self, self._before]
        of_name = [layer._seen[name] for layer in layers if name in layer._seen]
        is_newest = bool(of_name) and next(reversed(of_name[0]))[0] == revision[0]
        return is_newest or any(revision in revisions for revisions in of_name)

    def add(self, result: _ResultIdentity) -> None:
        """Add a result: its revision is now the newest."""
        self._add(*_in_few_bytes(result))

    def _add(self, name: _Name, revision: _Revision) -> None:
        revisions = self._seen.setdefault(name, {})
        self._seen.move_to_end(name)
        self._of_graph[name[0]].add(name)
        self._n_revisions += revision not in revisions
        revisions.pop(revision, None)  # so that it becomes the last one
        revisions[revision] = None
        if self._n_revisions > _REMEMBERED:
            oldest, revisions = next(iter(self._seen.items()))
            self._remove(oldest, next(iter(revisions)))

    def take_back(self, result: _ResultIdentity) -> None:
        """Remove a result that was added here, as if it had not been seen."""
        self._remove(*_in_few_bytes(result))

    def _remove(self, name: _Name, revision: _Revision) -> None:
        del self._seen[name][revision]
        self._n_revisions -= 1
        if not self._seen[name]:
            del self._seen[name]
            self._of_graph[name[0]].remove(name)
            if not self._of_graph[name[0]]:
                del self._of_graph[name[0]]

    def is_new(self, result: _ResultIdentity) -> bool:
        """Add a result; return False if it is a repetition."""
        if result in self:
            return False
        self.add(result)
        return True

    def forget(self, key: bytes | None) -> None:
        """Forget all results of a graph: if they are published again, they are new."""
        for name in self._of_graph.pop(_short(key or b""), ()):
            self._n_revisions -= len(self._seen.pop(name))

    def keep(self) -> None:
        """Add the results that were added here to the earlier ones."""
        assert self._before is not None, "there is somewhere to keep it"
        for name, revisions in self._seen.items():
            for revision in revisions:
                self._before._add(name, revision)


class MixedModels:
    """Detects alternating results of two models for a graph: two detectors process it.

    This happens if detectors of one group have different models, or two groups detect one graph.
    A change from one model to another is not reported, nor is the change back.
    """

    def __init__(self) -> None:
        self._n_results: Counter[str] = Counter()
        # The last changes of each graph: after how many results, and to which model.
        self._changes: dict[str, deque[tuple[int, str]]] = {}
        self._reported: set[str] = set()

    def look_at(self, graph: str, model: str) -> str | None:
        """Return a warning after this result; None if there is none, or it was given before."""
        if graph in self._reported:
            return None
        long_ago = deque([(-WITHIN, model)], _MOST_CHANGES + 1)
        changes = self._changes.setdefault(graph, long_ago)
        self._n_results[graph] += 1
        now = self._n_results[graph]
        if model != changes[-1][1]:
            changes.append((now, model))
        if len(changes) <= _MOST_CHANGES or now - changes[0][0] >= WITHIN:
            return None
        self._reported.add(graph)
        models = sorted({to for _, to in changes})
        return (
            f"graph {graph} has results of {len(models)} models by turns, {', '.join(models)}: two "
            "detectors work on it"
        )


def _in_few_bytes(result: _ResultIdentity) -> tuple[_Name, _Revision]:
    graph, snapshot, model = map(_short, result.name)
    return (graph, snapshot, model), (_short(result.revision), _short(result.made_from))


def _short(text: bytes) -> bytes:
    return text if len(text) <= _LONGEST else blake2b(text, digest_size=_LONGEST + 1).digest()
