"""Train the encoder, where it is asked for, on chosen windows."""

from __future__ import annotations

from collections.abc import Sequence

from stream_icd.errors import BadSettings
from stream_icd.extras import needs_extra
from stream_icd.graphs.labelled_graph import LabelledGraph
from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.recipe import Recipe, recipe_digest
from stream_icd.store.store import Store
from stream_icd.training.pseudo_labels import pseudo_labelled


def trained_encoder(
    graphs: Sequence[LabelledGraph], recipe: Recipe, checkpoints: Store, threads: int = 1
) -> Weights:
    """The weights of the encoder after its best epoch.

    The newest quarter of the graphs, at least one, chooses the epoch; the others train. Graphs
    without labels get pseudo-labels. Deterministic for a recipe and these graphs.

    Args:
        graphs: in time order, with edges.
        checkpoints: folder for a checkpoint after each epoch, in a folder of the recipe. If there
            is one, training goes on from there.

    Raises:
        BadSettings: fewer than two graphs.
        MissingExtra: torch is not installed.
    """
    if len(graphs) < 2:
        raise BadSettings(f"the encoder needs at least 2 windows with edges, not {len(graphs)}")
    with needs_extra("train", "torch"):
        from stream_icd.training.icd.train_encoder import train
    n_choosing = max(1, len(graphs) // 4)
    training = train(
        [pseudo_labelled(graph, recipe.seed) for graph in graphs[:-n_choosing]],
        recipe,
        validation=graphs[-n_choosing:],
        checkpoints=checkpoints.below(recipe_digest(recipe)[:16]),
        threads=threads,
    )
    return training.model.weights
