"""Errors that explain why a selection is empty."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stream_icd.errors import BadSettings, SourceNotFound, StreamIcdError
from stream_icd.history.archive import Selection, partitions, windows
from stream_icd.printable import did_you_mean, listed
from stream_icd.store.store import Store


def refuse_nothing(store: Store, selections: Iterable[Selection]) -> None:
    """Check that at least one of the selections, of different kinds, holds a window.

    Raises:
        SourceNotFound: there is no archive, or it is empty.
        BadSettings: the archive holds only other graphs, models or times.
    """
    chosen = list(selections)
    if all(next(windows(store, one), None) is None for one in chosen):
        kinds = store.folders()
        raise nothing_selected(store, next((one for one in chosen if one.kind in kinds), chosen[0]))


def nothing_selected(store: Store, selection: Selection) -> StreamIcdError:
    """Return the error for an empty selection; its message names what the archive holds."""
    if not store.is_there():
        return SourceNotFound(
            f"there is no archive at {store.place}: give a folder or URI that `stream-icd "
            "consume archive` writes to"
        )
    days = partitions(store, Selection(selection.kind))
    if not days:
        return SourceNotFound(
            f"{store.place} holds no archived {selection.kind}; to archive them: stream-icd "
            f"consume archive {store.place}"
        )
    graphs = sorted({day.graph for day in days})
    if selection.graph is not None and selection.graph not in graphs:
        return BadSettings(
            f"{store.place} holds no {selection.kind} of graph {selection.graph}; "
            f"it holds {listed(graphs)}{did_you_mean(selection.graph, graphs)}"
        )
    return _nothing_of_that_model_or_time(store, selection)


def _nothing_of_that_model_or_time(store: Store, selection: Selection) -> StreamIcdError:
    found = list(windows(store, Selection(selection.kind, selection.graph)))
    models = sorted({noted.identity.model for noted in found})
    if selection.model is not None and selection.model not in models:
        return BadSettings(
            f"{store.place} holds no communities of model {selection.model}; it holds those of "
            f"{listed(models)}{did_you_mean(selection.model, models)}"
        )
    of_model = [one for one in found if replace(selection, start=None, end=None).holds(one)]
    start, end = selection.start or "the beginning", selection.end or "the end"
    return BadSettings(
        f"{store.place} holds no {selection.kind} with windows that start from {start} to "
        f"{end}; its windows start from {of_model[0].window.start} to "
        f"{of_model[-1].window.start}"
    )
