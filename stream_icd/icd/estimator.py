"""ICD in scikit-learn's manner: fit on history, predict the communities of a new graph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from stream_icd.errors import BadInput, BadSettings
from stream_icd.extras import needs_extra
from stream_icd.icd.detection import Mode, check_mode, detect, embed
from stream_icd.icd.graphs import as_adjacency
from stream_icd.icd.labelled_graph import LabelledGraph
from stream_icd.icd.model import Model, initial_model, load_model, save_model
from stream_icd.icd.presets import preset
from stream_icd.icd.recipe import Recipe
from stream_icd.icd.refined.fit import fit_parameters
from stream_icd.icd.teacher import taught


class ICD(BaseEstimator):  # type: ignore[misc]
    """Inductive community detection: learn from a system's past graphs, answer for new ones.

    Graphs are whatever `as_adjacency` takes. The same seed gives the same answer, on any
    number of threads, and the order of the nodes does not matter where nothing is tied.

    Args:
        mode: "refined" learns a few numbers from the labels and finds communities by local
            moves and beliefs; "faithful" is the paper's way: it trains the recipe's encoder
            and clusters the embedding by K-means. In refined mode the encoder stays untrained:
            an embedding it gives is an orthogonal projection of the features.
        recipe: how to train, or the name of one of the paper's data sets (`PRESETS`).
        seed: of every random choice, instead of the recipe's.
        threads: of the dense products and K-means.
        device: "cpu" or "cuda", to train on.

    Attributes:
        model_: the fitted `Model`.
        history_: the epochs of a faithful training; empty in refined mode.

    >>> from stream_icd.synthetic.gn import generate_gn
    >>> past = [generate_gn(np.random.default_rng(s), 120, 6, 0.6, 0.02) for s in range(3)]
    >>> icd = ICD(recipe="Enron").fit(past, [graph.communities for graph in past])
    >>> icd.predict(past[0], n_communities=6).shape
    (120,)
    """

    def __init__(
        self,
        mode: Mode = "refined",
        recipe: Recipe | str = "Enron",
        seed: int = 0,
        threads: int = 2,
        device: Literal["cpu", "cuda"] = "cpu",
    ) -> None:
        self.mode = mode
        self.recipe = recipe
        self.seed = seed
        self.threads = threads
        self.device = device

    def fit(self, graphs: Sequence[Any], labels: Sequence[ArrayLike] | None = None) -> Self:
        """Learn from graphs, and from their communities where they are known.

        Without labels, refined mode keeps its defaults. Faithful mode then takes a teacher's:
        the communities that maximise modularity; its epochs are judged by modularity too.

        Args:
            graphs: at least one; two for faithful mode. The last tenth, one at least,
                validates the training.
            labels: one array `(n,)` of communities for each graph.

        Raises:
            BadInput: a graph or its labels cannot be used.
            BadSettings: a parameter is wrong, or there are too few graphs.
        """
        check_mode(self.mode)
        recipe = self._recipe()
        known = _with_labels(graphs, labels)
        self.history_ = ()
        if self.mode == "faithful":
            self.model_, self.history_ = self._train(known, recipe)
        elif labels is None:
            self.model_ = initial_model(recipe)
        else:
            fitted = fit_parameters(known, seed=self.seed)
            self.model_ = Model(recipe, initial_model(recipe).weights, fitted)
        return self

    def predict(self, graph: Any, n_communities: int | None = None) -> NDArray[np.int32]:
        """The community of each node, `(n,)` int32 in 0..K-1.

        Args:
            n_communities: K, where it is known; None to find it out.

        Raises:
            BadInput: the graph cannot be used.
            BadSettings: not fitted yet, or K is not from 1 to n.
        """
        found = detect(
            as_adjacency(graph),
            self._fitted(),
            n_communities,
            mode=self.mode,
            seed=self.seed,
            threads=self.threads,
        )
        return found.communities

    def embed(self, graph: Any) -> NDArray[np.float32]:
        """The embedding U of a graph, `(n, d)`.

        Raises:
            BadInput: the graph cannot be used.
            BadSettings: not fitted yet.
        """
        return embed(as_adjacency(graph), self._fitted(), self.threads)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted model to a new folder; see `save_model`."""
        save_model(self._fitted(), folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], **parameters: Any) -> ICD:
        """A fitted estimator from a saved model; see `load_model`.

        Args:
            parameters: of the estimator, such as `mode`; recipe and seed are the model's.
        """
        model = load_model(folder)
        loaded = cls(**{"recipe": model.recipe, "seed": model.recipe.seed, **parameters})
        loaded.model_, loaded.history_ = model, ()
        return loaded

    def _recipe(self) -> Recipe:
        recipe = preset(self.recipe) if isinstance(self.recipe, str) else self.recipe
        return recipe.changed(seed=self.seed)

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise BadSettings("this ICD has not learned anything; call fit, or use ICD.load")
        model: Model = self.model_
        return model

    def _train(self, graphs: list[LabelledGraph], recipe: Recipe) -> tuple[Model, tuple[Any, ...]]:
        with needs_extra("train", "torch"):
            from stream_icd.icd.training import train

        n_validation = max(1, round(len(graphs) / 10))
        known = [taught(graph, self.seed) for graph in graphs[:-n_validation]]
        training = train(
            known,
            recipe,
            validation=graphs[-n_validation:],
            device=self.device,
            threads=self.threads,
        )
        return training.model, training.history


def _with_labels(graphs: Sequence[Any], labels: Sequence[ArrayLike] | None) -> list[LabelledGraph]:
    adjacencies = [as_adjacency(graph) for graph in graphs]
    if not adjacencies:
        raise BadSettings("there is nothing to learn from: give at least one graph")
    if labels is None:
        return [LabelledGraph(adjacency) for adjacency in adjacencies]
    if len(labels) != len(adjacencies):
        raise BadInput(f"{len(adjacencies)} graphs need one labelling each; got {len(labels)}")
    return [
        LabelledGraph(adjacency, np.asarray(known).astype(np.int32))
        for adjacency, known in zip(adjacencies, labels, strict=True)
    ]
