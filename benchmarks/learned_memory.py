"""What an encoder that is learned from the first half of a stream brings to memory in the second.

    python -m benchmarks.learned_memory --data FOLDER

FOLDER holds labelled/. The labels of the first half teach as `consume retrain` does it; K is
unknown in the second half, which is followed with what memory keeps of the first, and anew. Writes
a section of docs/measured/stream_memory.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.real_streams import find_by
from benchmarks.shared.commit import measured_at
from benchmarks.shared.methods.stream_methods import Follow, decayed, remembering
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.streams.known_streams import KnownWindow, known_streams
from stream_icd.core.node_ids import widened
from stream_icd.learning.training.icd.proved_encoder import with_edges
from stream_icd.learning.training.icd.taught import Taught
from stream_icd.methods.graphs.labelled_graph import LabelledGraph, Moment
from stream_icd.methods.icd.recipe import EDGES, Recipe
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import ami, of_known
from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.detect import finding

STREAMS = ("hospital", "un_votes", "ants_1", "workplace_hours", "basketball_weeks", "brain")
PAGE = "measured/stream_memory.md"

DECAY = 0.9
"""Of the plain sum beside which memory is shown."""


def main() -> None:
    """Write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    streams = known_streams(parser.parse_args().data)
    lines = [
        "| stream | windows | λ .9 | without | **with the encoder** | anew: λ .9 | without "
        "| **with it** | what was chosen |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with threadpool_limits(1):
        for stream in streams.values():
            if stream.name in STREAMS:
                lines.append(_row(stream.name, stream.load(0)))
                print(lines[-1], flush=True)
    write_section(PAGE, "learned_memory.py", "\n".join([*lines, "", measured_at()]))


def _row(name: str, windows: Sequence[KnownWindow]) -> str:
    half, default = len(windows) // 2, open_model("default").model
    taught = [_taught(window) for window in windows[:half]]
    learned, proof = with_edges(Model(Recipe(name="learned", encoder=EDGES), default.bp), taught)
    ways = decayed(find_by(default, "bp"), DECAY), _memory(default), _memory(learned)
    found = [
        _second_half(windows[first:], follow, half - first)
        for first in (0, half)  # with what is kept of the first half, and anew
        for follow in ways
    ]
    scores = " | ".join(f"**{x:.1f}**" if at % 3 == 2 else f"{x:.1f}" for at, x in enumerate(found))
    return f"| {name} | {len(windows)} | {scores} | {proof.chosen} |"


def _memory(model: Model) -> Follow:
    return remembering(partial(detect_remembering, find=finding("auto", model)), model)


def _taught(window: KnownWindow) -> Taught:
    snapshot = window.snapshot
    moment = Moment("stream", widened(snapshot.nodes), snapshot.window)
    graph = LabelledGraph(snapshot.adjacency(), None, moment)
    return Taught(graph, window.classes.astype(np.int32), "labels")


def _second_half(windows: Sequence[KnownWindow], follow: Follow, begins: int) -> float:
    """Mean AMI in percent of the windows from this one on; all are followed."""
    found = follow(windows)
    scores = []
    for window, one in list(zip(windows, found, strict=True))[begins:]:
        scores.append(100 * ami(*of_known(window.classes, one.communities)))
    return float(np.mean(scores))


if __name__ == "__main__":
    main()
