"""ICD as a scikit-learn estimator: fit on past graphs, predict the communities of a new one."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import NotFittedError

from stream_icd.core.arrays import NOBODY
from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.imports import needs_extra
from stream_icd.core.node_ids import change_of_kind, id_array, is_id_type, widened
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.hierarchy import hierarchy_table
from stream_icd.interfaces.updates import Update, UpdatedGraph
from stream_icd.learning.training.bp.fit import fit_parameters
from stream_icd.learning.training.bp.fitted import Fit
from stream_icd.learning.training.icd.epochs import History
from stream_icd.learning.training.icd.learn_edges import LearnedEdges
from stream_icd.learning.training.icd.taught import fit_edges, last_tenth
from stream_icd.methods.bp.evidence import evidence_for
from stream_icd.methods.bp.known import Known
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.levels import levels_of
from stream_icd.methods.graphs.adjacency import as_named
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment, numbered
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.icd.recipe import EDGES, UNTRAINED, Recipe
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.horizon import Horizon
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.memory.next_window import next_window
from stream_icd.methods.model import MethodChoice, Model
from stream_icd.registry.find import open_model
from stream_icd.registry.model import save_model
from stream_icd.streaming.detection.detect import check_method, detect, embed, finding

_OfNodes = ArrayLike | Mapping[Any, Any]
"""The communities of nodes, in the order of `nodes_`, or by their names."""


class NotFitted(BadSettings, NotFittedError):  # type: ignore[misc]
    """An estimator is used before `fit`; it is also scikit-learn's `NotFittedError`.

    It is here, not in `errors`, because programs that need no estimator do without scikit-learn.
    """


class ICD(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Inductive community detection: learn from past graphs, find communities of new graphs.

    The name is that of the paper, whose method is "icd" (docs/terms.md, "What is called icd").

    A graph can be a scipy sparse or dense matrix, an `edge_index`, a NetworkX or igraph graph, a
    table of pairs (pandas, Polars, Arrow, or a list of tuples), a PyG `Data` or a `Snapshot`. It is
    undirected: a directed one is refused (see `as_adjacency`). The same seed gives the same result
    on any number of threads. In another order of the nodes, some of them may be in another
    community that is nearly as good.

    Args:
        method: "bp" learns a few numbers and finds communities by local moves and belief
            propagation. "icd" is the method of the paper: it learns an encoder and clusters the
            embedding with K-means. "auto" detects by the model's own method, and learns as "bp". If
            bp learns, the encoder stays untrained, so `embed` returns an orthogonal projection of
            the features.
        recipe: how to train, or the name of one of the paper's data sets (`PRESETS`). None: "icd"
            learns the encoder `edges`, without torch; "bp" trains no encoder. If a recipe
            names another encoder, "icd" trains it by the paper's losses (needs the extra `train`).
        seed: seed of every random choice; replaces that of the recipe.
        threads: number of cores to use. One graph below 50,000 nodes takes one core with bp.
        device: device to train the encoder on, "cpu" or "cuda".
        levels: whether predictions leave the levels of communities, `hierarchy_`.

    Attributes:
        model_: the fitted `Model`.
        learned_: with bp, the `Fit`: what was learned, and the score of each candidate. With the
            encoder `edges`, the `LearnedEdges`: the cross entropy of each round. None with any
            other encoder, and for a loaded model.
        history_: the epochs of the training, if the paper's losses trained the encoder.
        nodes_: after a prediction or `embed`, the name of each node, `(n,)`, in the order of the
            result: ids (ascending), the names in a NetworkX or an igraph graph or of the rows and
            columns of a pandas matrix, or else positions.
        labels_: after a prediction, its communities, `(n,)` int32, in the order of `nodes_`.
        probabilities_: after a prediction, how probable it is that each node is in its community,
            `(n,)` float32, in the order of `nodes_`: of the nodes with 0.9, about nine in ten are
            (docs/measured/probabilities.md). None with icd: K-means says nothing of it.
        known_: the community of each label of `known`; -1 if no node is in it. After
            `predict_next`, its stable id; -1 if no node of the label is remembered.
        hierarchy_: after a prediction with `levels`, communities of communities, and communities
            inside communities, as far as they save bits: a pyarrow table with the columns `node`,
            `cluster`, `parent_cluster`, `level` and `is_final` (docs/levels.md). None without.
        evidence_, bits_: after a prediction, how strong the evidence is that the graph has
            communities at all, "strong", "weak" or "none", and the bits per edge that these
            communities save in describing it (docs/evidence.md).

    What a prediction leaves is about the last graph: `fit` and `embed` remove it.

    >>> from stream_icd.methods.synthetic.gn import generate_gn
    >>> past = [generate_gn(np.random.default_rng(s), 120, 6, 0.6, 0.02) for s in range(3)]
    >>> icd = ICD().fit(past)  # or .fit(past, labels), where the communities are known
    >>> icd.predict(past[0]).shape
    (120,)
    >>> icd.evidence_
    'strong'
    >>> len(set(ICD.load("as").predict(past[0], n_communities=6)))
    6
    """

    def __init__(
        self,
        method: MethodChoice = "auto",
        recipe: Recipe | str | None = None,
        seed: int = 0,
        threads: int = 2,
        device: Literal["cpu", "cuda"] = "cpu",
        levels: bool = False,
    ) -> None:
        self.method = method
        self.recipe = recipe
        self.seed = seed
        self.threads = threads
        self.device = device
        self.levels = levels

    def fit(self, graphs: Sequence[Any], labels: Sequence[_OfNodes | None] | None = None) -> Self:
        """Learn from graphs, and from their true communities if these are known.

        Without labels, bp takes the numbers that best predict hidden edges (see `fit_unlabelled`);
        this takes some seconds for three graphs of 5,000 nodes. With labels, bp takes what agrees
        best with them when K is not given; if that is not better than the shipped model `default`,
        it takes `default`.

        icd learns from labels which edges join two nodes of one community (`learn_edges`); how the
        communities are numbered does not matter. Without labels, it uses pseudo-labels: the
        communities that bp finds in each graph, and in `Snapshot`s of a stream with the windows
        before and after each. A graph in which bp finds none with strong evidence is not learned
        from. If the recipe names another encoder than `edges`, the paper's losses
        train it; pseudo-labels are then the communities that maximise modularity.

        Args:
            graphs: at least one graph. For icd, the last tenth validates, at least one graph; a
                single graph is learned from without validation, but not by the paper's losses,
                which need two. icd leaves out graphs without edges. For bp, consecutive `Snapshot`s
                of one graph also tell how long nodes stay in their communities, for `predict_next`.
            labels: for each graph, the communities of its nodes: an array `(n,)` in the order of
                `nodes_`, of integers or strings, with None, NaN or -1 where a community is unknown;
                or a mapping from names to communities, which may leave nodes out. None instead of
                either: those of this graph are unknown. Some labels are enough for icd's encoder
                `edges` and for bp, which is scored on the labelled nodes; the paper's losses
                need all.

        Raises:
            BadInput: a graph or its labels cannot be used.
            BadSettings: a parameter is wrong, there are too few graphs, or icd has neither labels
                nor a graph in which bp finds communities with strong evidence.
            MissingExtra: the recipe's encoder needs torch, and torch is not installed.
        """
        self._check()
        recipe = preset(self.recipe) if isinstance(self.recipe, str) else self.recipe
        encoder = EDGES if self.method == "icd" else UNTRAINED
        recipe = (recipe or Recipe(name="model", encoder=encoder)).changed(seed=self.seed)
        labelled = _with_labels(graphs, labels)
        history: History = ()
        learned: Fit | LearnedEdges | None = None
        if self.method == "icd" and recipe.encoder.kind == "edges":
            learned = fit_edges(labelled, recipe, self.threads)
            model = Model(recipe, trained=learned.weights, method="icd")
        elif self.method == "icd":
            with needs_extra("train", "torch"):
                from stream_icd.learning.training.icd.train_encoder import train
            linked = [graph for graph in labelled if graph.adjacency.nnz]
            if len(linked) < 2:
                raise BadSettings(
                    f"the encoder {recipe.encoder.kind} learns from one graph and is validated on "
                    "another: give two that have edges, or no recipe, to learn the encoder edges"
                )
            at = len(linked) - last_tenth(len(linked))
            training = train(
                linked[:at],
                recipe,
                validation=linked[at:],
                device=self.device,
                threads=self.threads,
            )
            model, history = replace(training.model, method="icd"), training.history
        else:
            learned = fit_parameters(labelled, self.seed, self.threads)
            model = Model(recipe, learned.parameters)
        self._forget()  # only now: a fit that fails changes nothing
        self.model_, self.learned_, self.history_ = model, learned, history
        return self

    def predict(
        self,
        graph: Any,
        n_communities: int | None = None,
        *,
        known: Mapping[Any, Any] | None = None,
        fixed: bool = False,
    ) -> NDArray[np.int32]:
        """Return the community of each node, `(n,)` int32 in 0..K-1, in the order of `nodes_`.

        Args:
            n_communities: K, if it is known; None to determine it.
            known: a label for some nodes, by their names (`nodes_`), such as `{"acme": 7}`. Nodes
                of one label are in one community, and `known_` says which. It is what they are
                before any edge: edges may say something else. bp takes them without K; with icd,
                they are seeds of K-means.
            fixed: known nodes are certainly in the community of their label.

        Raises:
            BadInput: the graph cannot be used, or it is several: predict one after the other; or it
                has no node of a known name.
            BadSettings: a parameter is wrong, K is not from 1 to n, or with `known` it is given to
                bp, or is less than the number of labels.
            NotFitted: not fitted yet.
        """
        model = self._fitted()
        adjacency, nodes = as_named(graph)
        of_known, names = _numbers_of(known or {})
        known_labels = np.full(len(nodes), NOBODY, np.int32)
        known_labels[_places_of(known or {}, nodes)] = of_known
        detection = detect(
            adjacency,
            model,
            n_communities,
            method=self.method,
            seed=self.seed,
            threads=self.threads,
            known=known_labels if names else None,
            fixed=fixed,
        )
        labels, memberships = detection.communities, detection.memberships
        self.known_ = dict(zip(names, detection.of_known, strict=True))
        self.bits_, self.evidence_ = evidence_for(adjacency, labels)
        self.nodes_, self.labels_ = nodes, labels
        self.probabilities_ = None if memberships is None else memberships.probabilities
        self.hierarchy_: pa.Table | None = None
        if self.levels:
            graph = finest_level(comparable(adjacency, model.bp.weight_exponent))
            levels = levels_of(graph, labels, "all", self.seed)
            self.hierarchy_ = hierarchy_table(nodes, labels, levels)
        return labels

    def predict_next(
        self,
        graph: Any,
        memory: Memory | None = None,
        n_communities: int | None = None,
        *,
        nodes: ArrayLike | None = None,
        horizon: Horizon = "auto",
        known: Mapping[Any, Any] | None = None,
        fixed: bool = False,
    ) -> Remembered:
        """Return the communities of the next window of a graph, with what earlier ones showed.

        Call it with each window in turn, and with the `memory` of the result before. Memory
        improves the communities, above all where a single window shows little, and gives them ids
        that last. Without memory, the communities are those of `predict` for nodes in ascending
        order of their ids.

        With icd, the encoder reads the sum of the windows that memory keeps. The encoder `edges`
        learned from single windows, which show less: without K it is still better than `hops`;
        with K given only in the first window, and then a few points worse (docs/stream_memory.md).

        Args:
            graph: the window. A `Snapshot` has times, so that gaps and late windows are noticed;
                any other graph counts as the window right after the last one.
            memory: that of the result for the window before; None for the first window.
            n_communities: K, if it is known; None to determine it.
            nodes: id of each node, `(n,)`, all integers or all strings: a node has the same id in
                all windows. None: those of the graph, as in `nodes_`. It warns if the ids were
                integers in the memory and are strings now, or the other way round.
            horizon: how many windows to look back; auto: found while windows come, and kept in the
                memory; off: the last window, and what is believed of it.
            known: a label for some nodes, by their ids, as in `predict`; windows may lack them.
                Give it with each window. A label keeps the id of its community, which `known_`
                says.
            fixed: known nodes are certainly in the community of their label.

        Raises:
            BadInput: the graph or the ids cannot be used.
            BadSettings: a parameter is wrong, K is not from 1 to n, or given to bp beside `known`,
                or the memory or the horizon is none.
            NotFitted: not fitted yet.

        >>> from stream_icd.methods.synthetic.lfr import generate_drifting_lfr
        >>> from stream_icd.methods.synthetic.lfr import LfrSettings
        >>> icd, memory = ICD.load("lfr"), None
        >>> for planted, _ in generate_drifting_lfr(0, 3, LfrSettings(1000, mixing=0.5)):
        ...     found = icd.predict_next(planted, memory)
        ...     memory = found.memory
        >>> found.communities.shape  # the community of each node
        (1000,)
        >>> found.community_ids.dtype  # of each community: the same in all windows
        dtype('int64')
        """
        model = self._fitted()
        if not isinstance(memory, Memory | None):
            raise BadSettings(
                f"memory is a {type(memory).__name__}; give the `memory` of the result before"
            )
        snapshot, adjacency, order = next_window(graph, memory, nodes)
        if memory is not None and (warning := change_of_kind(memory.nodes, snapshot.nodes)):
            warnings.warn(warning, stacklevel=2)
        known_nodes, known_labels = _known_nodes(known or {}, fixed=fixed)
        result = detect_remembering(
            snapshot,
            model,
            memory,
            n_communities,
            horizon=horizon,
            known=known_nodes,
            levels="all" if self.levels else "none",
            find=finding(self.method, model, seed=self.seed, threads=self.threads),
            seed=self.seed,
            threads=self.threads,
            adjacency=adjacency,
        )
        self.bits_, self.evidence_ = evidence_for(adjacency, result.communities)
        names = snapshot.nodes.to_numpy(zero_copy_only=False)
        fields = ("communities", "probabilities", "second_ids", "second_probabilities")
        at = np.argsort(order)  # the result is in ascending order, the graph may be in another
        self.nodes_ = names[at]
        of_nodes = ((name, getattr(result, name)) for name in fields)
        result = replace(result, **{name: of[at] for name, of in of_nodes if of is not None})
        self.labels_, self.probabilities_ = result.communities, result.probabilities
        self.hierarchy_ = None
        if self.levels:
            below = tuple(level[at] for level in result.levels.below)
            result = replace(result, levels=result.levels._replace(below=below))
            self.hierarchy_ = hierarchy_table(self.nodes_, self.labels_, result.levels)
        self.known_ = {
            label: result.known_ids.get(number, NOBODY) for number, label in enumerate(known_labels)
        }
        return result

    def update(self, add: Iterable[Any] = (), remove: Iterable[Any] = ()) -> Update:
        """Change a graph that the estimator keeps, and return its communities, and which changed.

        Each community keeps its id. The first call begins with an empty graph; removals come before
        additions. `graph_` holds the graph and what is remembered of it.

        Args:
            add: edges `(src, dst)` or `(src, dst, weight)`; one that is there gets this weight. The
                id of a node adds it without an edge.
            remove: edges `(src, dst)`, whose nodes stay; the id of a node removes it and its edges.

        Raises:
            BadInput: something given is no edge and no id, ids are of two types, or no edge is
                left. The graph stays as it was.
            NotFitted: not fitted yet.

        >>> icd = ICD.load("default")
        >>> triangles = [("a", "b"), ("b", "c"), ("a", "c"), ("x", "y"), ("y", "z"), ("x", "z")]
        >>> first = icd.update(add=[*triangles, ("a", "x")])
        >>> then = icd.update(add=[("z", "new"), ("y", "new")])
        >>> [then.members(community) for community in then.changed]
        [['new', 'x', 'y', 'z']]
        """
        graph: UpdatedGraph = getattr(self, "graph_", None) or UpdatedGraph()
        # Assigned only at the end: an update that is refused leaves the graph as it was.
        after, update = graph.updated(self.predict_next, add, remove)
        self.graph_: UpdatedGraph = after
        return update

    def fit_predict(self, graph: Any, n_communities: int | None = None) -> NDArray[np.int32]:
        """Learn from one graph, without labels, and return its communities, `(n,)` int32.

        The paper's losses need two graphs: call `fit` and `predict` instead.
        """
        return self.fit([graph]).predict(graph, n_communities)

    def embed(self, graph: Any) -> NDArray[np.float32]:
        """Return the embedding U of a graph, `(n, d)`, in the order of `nodes_`."""
        model = self._fitted()
        adjacency, nodes = as_named(graph)
        embedding = embed(adjacency, model, self.threads)
        self._forget()
        self.nodes_ = nodes
        return embedding

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted model to a new folder; see `save_model`."""
        save_model(self._fitted(), folder)

    @classmethod
    def load(cls, name: str | os.PathLike[str], **parameters: Any) -> ICD:
        """Return a fitted estimator with a saved model.

        Args:
            name: a shipped model, such as "as" (`stream-icd models list` shows all), or the folder
                of a model: a path or a URI.
            parameters: of the estimator. Recipe and seed are the model's, without where its graphs
                came from.

        Raises:
            ModelError: see `open_model`.
        """
        model = open_model(os.fspath(name)).model
        recipe = model.recipe.changed(data="", every_kind=False)  # another fit has other graphs
        loaded = cls(**{"recipe": recipe, "seed": recipe.seed, **parameters})
        loaded.model_, loaded.history_, loaded.learned_ = model, (), None
        return loaded

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise NotFitted("this ICD is not fitted: call fit, or use ICD.load")
        self._check()
        model: Model = self.model_
        return model

    def _forget(self) -> None:
        """Remove what the last prediction left: it is about another graph, or another model."""
        of_nodes = ("nodes_", "labels_", "probabilities_", "known_", "hierarchy_")
        for name in (*of_nodes, "bits_", "evidence_"):
            self.__dict__.pop(name, None)

    def _check(self) -> None:
        """Check the parameters, which scikit-learn sets without a look at them."""
        check_method(self.method)
        if not isinstance(self.recipe, Recipe | str | None):
            raise BadSettings(f"recipe is {self.recipe!r}; give a Recipe or the name of a preset")
        for name, least in (("seed", 0), ("threads", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise BadSettings(f"{name} is {value!r}; give a whole number, at least {least}")


def _is_pair_of_ids(value: Any) -> bool:
    return (
        isinstance(value, tuple) and len(value) in (2, 3) and isinstance(value[0], str | Integral)
    )


def _with_labels(
    graphs: Sequence[Any], labels: Sequence[_OfNodes | None] | None
) -> list[LabelledGraph]:
    is_list = isinstance(graphs, list | tuple)
    # Not of an edge_index and a number of nodes each: those are graphs.
    is_pairs = is_list and bool(graphs) and all(map(_is_pair_of_ids, graphs))
    if is_pairs or not is_list:
        kind = "list of pairs" if is_pairs else type(graphs).__name__
        raise BadSettings(f"fit takes a list of graphs, not a {kind}; for one graph: fit([graph])")
    adjacencies, nodes = zip(*map(as_named, graphs), strict=True) if graphs else ((), ())
    if not adjacencies:
        raise BadSettings("there are no graphs to learn from: give at least one")
    if labels is not None and len(labels) != len(adjacencies):
        raise BadInput(f"{len(adjacencies)} graphs need one labelling each; got {len(labels)}")
    numbers = [None] * len(graphs) if labels is None else list(map(_numbered, labels, nodes))
    moments = [Moment.of(graph) if isinstance(graph, Snapshot) else None for graph in graphs]
    return list(map(LabelledGraph, adjacencies, numbers, moments))


def _numbered(labels: _OfNodes | None, nodes: NDArray[Any]) -> NDArray[np.int32] | None:
    """The labels as 0..K-1, -1 where unknown; None if all are.

    A Series of pandas must not name the nodes in another order.
    """
    if labels is None:
        return None
    if isinstance(labels, Mapping):
        _places_of(labels, nodes)  # which refuses names that the graph does not have
        return numbered([labels.get(node) for node in nodes.tolist()])
    index = getattr(labels, "index", None)
    if index is None or callable(index):  # as that of a list
        return numbered(labels)
    labelled, expected = list(map(_id_text, index)), list(map(_id_text, nodes))
    if labelled != expected and sorted(labelled) == sorted(expected):
        pairs = zip(labelled, expected, strict=True)
        label, node = next((label, node) for label, node in pairs if label != node)
        raise BadInput(
            f"the label of node {label!r} is in the place of node {node!r}: order the labels as "
            "the nodes, and give them as an array"
        )
    return numbered(labels)


def _id_text(node: Any) -> str:
    """The id as text; pandas makes 7.0 of 7 where it joins tables."""
    return str(int(node)) if isinstance(node, float) and node.is_integer() else str(node)


def _known_nodes(known: Mapping[Any, Any], *, fixed: bool) -> tuple[Known | None, list[Any]]:
    """Return the labels of nodes for all windows, None if there are none; and the labels by number.

    Raises `BadInput` if the nodes have ids of two types, or of none that ids have.
    """
    if not known:
        return None, []
    try:
        nodes = widened(id_array(list(known)))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"known nodes are neither integers of 64 bits nor text: {error}") from error
    if not is_id_type(nodes.type):
        raise BadInput(f"known nodes are integers or text, not {nodes.type}")
    labels, names = _numbers_of(known)
    return Known(nodes, labels, fixed), names


def _numbers_of(known: Mapping[Any, Any]) -> tuple[NDArray[np.int32], list[Any]]:
    """Return the number of each node's label, in their order, and the labels by number."""
    names = list(dict.fromkeys(known.values()))
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[label] for label in known.values()], np.int32), names


def _places_of(known: Mapping[Any, Any], nodes: NDArray[Any]) -> list[int]:
    places = {name: at for at, name in enumerate(nodes.tolist())} if known else {}
    if missing := [name for name in known if name not in places]:
        raise BadInput(
            f"the graph has no node {missing[0]!r:.80} ({len(missing)} of the known ones are "
            "missing): name nodes as in nodes_"
        )
    return [places[node] for node in known]
