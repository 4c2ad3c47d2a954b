"""The notebook of docs/ runs from its first cell to its last, and prints what it shows."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs" / "first_steps.ipynb"


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """What each cell of code wrote to standard output."""
    return [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_notebook_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=":")
    shown = nbformat.read(NOTEBOOK, as_version=4)
    again = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(again, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert printed(again) == printed(shown)
