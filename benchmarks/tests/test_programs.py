"""Each benchmark can be imported, and the README lists it with the page that it writes."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
PROGRAMS = sorted(file.stem for file in HERE.glob("*.py"))
ROW = re.compile(
    r"^\| `(\w+)` \| .+\? \| (?:\[[\w ]+\]\(\.\./docs/([\w/]+\.md)[\w#-]*\))? ?\|$", re.MULTILINE
)
PAGES = dict(ROW.findall((HERE / "README.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_can_be_imported_and_has_a_main(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").main)


def test_the_readme_lists_each_program_with_a_page_that_names_it() -> None:
    assert sorted(PAGES) == PROGRAMS
    for name, page in PAGES.items():
        if page:
            text = (HERE.parent / "docs" / page).read_text(encoding="utf-8")
            assert re.search(rf"benchmarks[./]{name}\b", text), f"{page} does not name {name}"
