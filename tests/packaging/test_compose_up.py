"""The services of docker-compose.yml together, where an engine can run them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = "stream-icd-test"
NO_PORTS = """
services:
  kafka:
    ports: !reset []
  view:
    ports: !reset []
"""
UP_S, BUILD_S = 300, 1200


def has_engine() -> bool:
    asked = (["docker", "info"], ["docker", "compose", "version"])
    quietly = {"capture_output": True, "check": False, "timeout": 60}
    return shutil.which("docker") is not None and all(
        subprocess.run(one, **quietly).returncode == 0 for one in asked
    )


pytestmark = [
    pytest.mark.skipif(
        not has_engine(),
        reason="an engine is needed: install Docker with Compose, so that `docker info` and "
        "`docker compose version` work",
    ),
    pytest.mark.timeout(BUILD_S + 2 * UP_S),
]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The services, under a name of their own and without ports; what begins each command."""
    own = tmp_path_factory.mktemp("compose") / "no-ports.yml"
    own.write_text(NO_PORTS)
    files = ["--file", "docker-compose.yml", "--file", str(own)]
    compose = ["docker", "compose", "--project-name", PROJECT, *files]
    try:
        subprocess.run([*compose, "build"], cwd=ROOT, check=True, timeout=BUILD_S)
        subprocess.run([*compose, "up", "--detach"], cwd=ROOT, check=True, timeout=UP_S)
        yield compose
    finally:
        subprocess.run([*compose, "logs", "--tail", "20"], cwd=ROOT, check=False, timeout=60)
        subprocess.run([*compose, "down", "--volumes"], cwd=ROOT, check=False, timeout=120)


def inside(up: list[str], service: str, *arguments: str) -> str:
    command = [*up, "exec", "--no-TTY", service, "stream-icd", *arguments]
    return subprocess.check_output(command, cwd=ROOT, timeout=UP_S, text=True)


def test_communities_come_and_all_is_well_and_the_model_can_be_changed(up: list[str]) -> None:
    asked = ("subscribe", "--from", "beginning", "--limit", "3", "--format", "json")
    came = inside(up, "detector", *asked)
    assert [json.loads(line)["graph"] for line in came.splitlines()] == ["lfr"] * 3
    place = ("--registry", "registry")
    assert "error " not in inside(up, "retrain", "doctor", *place)
    inside(up, "retrain", "models", "import", "as", *place)
    inside(up, "retrain", "models", "promote", "as", *place)
    assert "champion" in inside(up, "retrain", "models", "list", *place)
