"""The documentation site: `make docs` builds it from this folder; every warning is an error."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for the generators of pages, which lie beside this file

from api_page import with_docstrings  # noqa: E402
from command_pages import write_command_pages  # noqa: E402

from stream_icd import __version__  # noqa: E402

project = "stream_icd"
copyright = "the stream_icd authors"
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nb_execution_mode = "off"  # a notebook holds its outputs; a test runs it
html_theme = "furo"
html_title = f"stream_icd {release}"
html_extra_path = ["asyncapi.yaml"]

# Links such as (operating.md#exit-codes) work here as they do where the files are read as they are.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive: list[str] = []

autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request, set_predict_request",  # scikit-learn's
}
autodoc_typehints = "description"
napoleon_numpy_docstring = False
copybutton_exclude = ".linenos, .gp, .go"

write_command_pages(HERE / "commands")

FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```\n?", re.MULTILINE | re.DOTALL)


def fences_as_code_blocks(*event: Any) -> None:
    """Docstrings show code as editors render it, between fences; Sphinx wants a directive."""
    lines: list[str] = event[-1]
    lines[:] = FENCE.sub(r"\1.. code-block:: \2\n\n\3\n", "\n".join(lines) + "\n").split("\n")


def tables_as_docstrings(_app: Any, page: str, source: list[str]) -> None:
    """Where the repository's page of the Python interface has a line a name, the site has all."""
    if page == "api":
        source[0] = with_docstrings(source[0])


def setup(app: Any) -> None:
    """Sphinx calls this once."""
    app.connect("source-read", tables_as_docstrings)
    app.connect("autodoc-process-docstring", fences_as_code_blocks, priority=1)
