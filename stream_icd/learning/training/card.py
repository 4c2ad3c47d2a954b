"""Write a model's folder: its files, model card, short description and plots."""

from __future__ import annotations

import os
from io import BytesIO
from statistics import median

from stream_icd.core.imports import needs_extra
from stream_icd.learning.training.bp.fitted import Fit, Tried
from stream_icd.learning.training.icd.epochs import History, best_epoch
from stream_icd.learning.training.train_model import TrainedModel
from stream_icd.learning.training.yardstick import DEFAULT
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.registry.model import ABOUT_FILE, CARD_FILE, About, save_model


def write_model(trained: TrainedModel, folder: str | os.PathLike[str]) -> None:
    """Write weights, recipe, description and card; `training.png` if the paper's losses trained.

    Raises `BadSettings` if the folder holds a model already.
    """
    about = About(_purpose(trained), _learned_on(trained), _figures(trained))
    files = {ABOUT_FILE: about.to_toml(), CARD_FILE: card(trained).encode()}
    if trained.history:
        files["training.png"] = _picture(trained.history, trained.model.recipe.name)
    save_model(trained.model, folder, files)


def card(trained: TrainedModel) -> str:
    """What a user should know about a model before relying on it, as Markdown."""
    recipe = trained.model.recipe
    return f"""# {recipe.name}

**For**: {_purpose(trained)}.

**Learned from**: {_learned_on(trained)}.

**How good**: {_figures(trained)}.

**Use it** for more graphs of the same system: `stream-icd consume detect --model FOLDER`, or
`ICD.load("FOLDER")` in Python. {_advice(trained)}

**Do not use it** for graphs of another kind. If more or fewer edges link different communities, or
if communities have other sizes, results with this model are worse than without a model. The
detector warns if a model does not fit. `stream-icd models list` shows other models, and
`stream-icd train --data DATA --out FOLDER` trains one in seconds.

{_test_table(trained)}
## What was learned

{_learned(trained.fit)}
{_encoder(trained)}
## Make it again

`stream-icd train recipe.toml --out FOLDER`, with the `recipe.toml` beside this card, gives the same
bytes.
"""


def _purpose(trained: TrainedModel) -> str:
    if trained.model.recipe.every_kind:
        return "graphs of any kind: the community size is chosen for each graph"
    n_nodes = median(graph.adjacency.shape[0] for graph in trained.graphs)
    n_edges = median(graph.adjacency.nnz // 2 for graph in trained.graphs)
    ks = [graph.n_communities for graph in trained.graphs if graph.n_communities is not None]
    communities = f", {int(median(ks)):,} communities" if ks else ""
    return (
        f"graphs like {trained.model.recipe.data or 'those it learned from'}: {int(n_nodes):,} "
        f"nodes, {int(n_edges):,} edges{communities} (medians)"
    )


_LEARNED = {
    "labels": "with known communities",
    "the next window": "without known communities, with memory, by predicting new edges of the "
    "next windows",
    "hidden edges": "without known communities, by predicting hidden edges and by description "
    "length",
}
"""How parameters are learned, by `Fit.criterion`."""


def _learned_on(trained: TrainedModel) -> str:
    n = trained.fit.n_graphs
    how = _LEARNED[trained.fit.criterion] if trained.fit.curve else _LEARNED["labels"]
    trains = ""
    if trained.history:
        trains = f"; the encoder from {trained.n_trained:,} other graphs"
    return f"{n:,} {'graph' if n == 1 else 'graphs'}, {how}{trains}"


def _figures(trained: TrainedModel) -> str:
    if not trained.test:
        return "not tested: there were too few graphs to keep some for testing"
    row, n = trained.test[0], trained.test[0].n_graphs
    return (
        f"{row.trained} {row.measure} on {n:,} test {'graph' if n == 1 else 'graphs'} that it was "
        f"not trained on ({row.name}); the model {row.control_name} has {row.control}"
    )


def _advice(trained: TrainedModel) -> str:
    if not trained.test:
        return "Test it on your own graphs first."
    if trained.test[0].n_graphs == 1:
        return f"One graph does not tell whether it is better than the model `{DEFAULT}`."
    if trained.test[0].is_gain:
        return ""
    return f"**On its test graphs it is not better than the model `{DEFAULT}`**: use `{DEFAULT}`."


def _test_table(trained: TrainedModel) -> str:
    if not trained.test:
        return ""
    rows = "\n".join(
        f"| {row.name} | {row.measure} | {row.trained} | {row.control_name} | {row.control} "
        f"| {row.gain} |"
        for row in trained.test
    )
    return f"""## Test graphs

Mean ± standard error, on graphs that the model did not learn from. Windows of a stream are detected
with memory of the windows before, as detectors do. The gain is the mean difference from the
control, graph by graph. Where AMI is given it decides, otherwise the bits do.

| method | measure | trained | control | of the control | gain |
|---|---|---|---|---|---|
{rows}

"""


_CURVES = {
    "labels": (
        "| resolution | AMI, % |\n|---|---|",
        "The resolution is the lowest one whose AMI with the known communities is as high as\n"
        "that of the best one. K is not given, as in detection.",
    ),
    "the next window": (
        "| resolution | prediction of new edges |\n|---|---|",
        "Consecutive windows were clustered with memory. Of the choices that predict the new\n"
        "edges of each next window as well as the best one, the one with the shortest\n"
        "description length is taken. Predictions are in bits per edge, compared with no\n"
        "communities; higher is better. Choices that were dropped early are not shown.",
    ),
    "hidden edges": (
        "| resolution | prediction of hidden edges | description length |\n|---|---|---|",
        "Of the resolutions that predict hidden edges as well as the best one, the one with\n"
        "the shortest description length is taken. Both are in bits per edge, compared with\n"
        "no communities: for prediction, higher is better; a description length below 0 is\n"
        "evidence for communities. Resolutions that were dropped early were tested on fewer\n"
        "edges.",
    ),
}
"""Head of the table of `Fit.curve`, and how a resolution was chosen, by what was learned from."""


def _learned(fit: Fit) -> str:
    numbers = f"{_numbers(fit.parameters)}{_memory(fit)}"
    if fit.learned_from == "each graph":
        return f"{numbers}\n"
    head, how = _CURVES[fit.criterion]
    if fit.learned_from == "default" and not fit.compared:
        how = f"Nothing: no choice predicts hidden edges better than the model `{DEFAULT}`."
    rows = "\n".join(_row(tried, fit.parameters) for tried in fit.curve)
    return f"{numbers}\n\n{_rivals(fit)}{how}\n\n{head}\n{rows}\n"


def _rivals(fit: Fit) -> str:
    if not fit.compared:
        return ""
    if fit.compared_by == "AMI":
        does_well, measure = "agrees with the known communities as well", "AMI, %"
        scores = [(name, f"{100 * score:.2f}") for name, score in fit.compared]
    else:
        does_well, measure = "saves as many bits on the new edges of windows", "bits per edge"
        scores = [(name, f"{score:.3f}") for name, score in fit.compared]
    rows = "\n".join(f"| {name} | {score} |" for name, score in scores)
    return (
        f"The first of these that {does_well} as the best one is\n"
        f"taken; K is not given.\n\n| parameters | {measure} |\n|---|---|\n{rows}\n\n"
    )


def _numbers(parameters: BpParameters) -> str:
    if parameters.search:
        return (
            "The description length chooses the resolution and the method for each graph, so "
            "nothing\nis learned."
        )
    beliefs = "no belief propagation: the communities have the highest modularity"
    if parameters.mixing is not None:
        beliefs = (
            f"belief propagation with mixing {parameters.mixing:.3f} and size spread "
            f"{parameters.size_spread:g}"
        )
    return f"Resolution {parameters.resolution:.3g}; {beliefs}."


def _memory(fit: Fit) -> str:
    if not fit.n_windows:
        return ""
    windows, stay = f"\n\nLearned from {fit.n_windows} consecutive windows: ", fit.parameters.stay
    if not stay:
        return f"{windows}none helps to find the communities of the next, so memory is off."
    if fit.parameters.mixing is None:
        return f"{windows}memory is on; each window determines the weight of its past."
    return f"{windows}a node stays in its community with probability {stay:.3f}."


def _row(tried: Tried, chosen: BpParameters) -> str:
    resolution = tried.parameters.resolution
    mark = " (taken)" if resolution == chosen.resolution and not chosen.search else ""
    if tried.ami is not None:
        scores = f"{100 * tried.ami:.2f}"
    elif tried.next_window is not None:
        scores = f"{tried.next_window:.3f}"
    else:
        scores = f"{tried.hidden_edges:.3f} | {tried.description_length:.3f}"
    return f"| {resolution:.3g}{mark} | {scores} |"


def _encoder(trained: TrainedModel) -> str:
    recipe = trained.model.recipe
    widths = "-".join(map(str, recipe.encoder.widths))
    if trained.encoder is None:
        return (
            f"\nThe encoder ({recipe.encoder.kind}, widths {widths}) is untrained. Only method "
            f"icd\nuses it.\n"
        )
    section = trained.encoder.section()
    if not trained.history:
        return section
    best = best_epoch(trained.history)
    outcome = (
        "training did not improve the validation score, so the weights are the untrained ones"
        if best.number == 0
        else f"the weights are those of epoch {best.number} of {trained.history[-1].number}"
    )
    kind = f"\nEncoder: {recipe.encoder.kind}, widths {widths}, {recipe.variant};\n{outcome}.\n"
    return kind + section


_TITLES = {
    "discriminator": "loss of D",
    "adversarial": "AL: adversarial",
    "reconstruction": "FR: reconstruction",
    "regularisation": "CR: regularisation",
}


def _picture(history: History, title: str) -> bytes:
    """Loss and validation curves, as PNG.

    The dotted line is the untrained model, the first epoch: below it, training has not helped.
    """
    with needs_extra("plot", "matplotlib"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6), layout="constrained")
    figure.suptitle(title)
    grid = figure.add_gridspec(2, 4)
    axes, best = figure.add_subplot(grid[0, :]), best_epoch(history)
    scores = [epoch.validation for epoch in history]
    axes.plot([epoch.number for epoch in history], scores, marker=".", label="validation")
    axes.axhline(scores[0], linestyle=":", color="grey", label=f"untrained: {scores[0]:.4f}")
    axes.plot(best.number, best.validation, "o", label=f"kept: {best.validation:.4f}")
    axes.set(xlabel="epoch", ylabel="mean validation score")
    axes.legend()
    for column, name in enumerate(_TITLES):
        axes, trained = figure.add_subplot(grid[1, column]), history[1:]
        losses = [epoch.losses[name] for epoch in trained]
        axes.plot([epoch.number for epoch in trained], losses, marker=".")
        axes.set(xlabel="epoch", title=_TITLES[name])
    picture = BytesIO()
    figure.savefig(picture, dpi=120)
    return picture.getvalue()
