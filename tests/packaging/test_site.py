"""The documentation site builds without a warning, and has a page for each command."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_lines import all_commands

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = pytest.mark.timeout(900)  # beside other tests on two cores, a build takes minutes


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; from a copy, since a build writes the commands' pages beside the sources.

    In a plain theme: `make docs` spends a third of its time on the navigation beside each page.
    """
    sources, built = tmp_path_factory.mktemp("sources") / "docs", tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, sources, ignore=shutil.ignore_patterns("commands"))
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "html_theme=basic"]
    build += [str(sources), str(built)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built


def test_there_is_a_page_for_each_command_and_the_contract_for_machines(
    site: Path,
) -> None:
    for command in all_commands():
        page = (site / "commands" / f"{'-'.join(command)}.html").read_text(encoding="utf-8")
        assert f"stream-icd {' '.join(command)}" in page
        assert "Usage" in page
        assert "highlight-sh" in page, "its examples are no code"
    assert (site / "asyncapi.yaml").read_bytes() == (DOCS / "asyncapi.yaml").read_bytes()
