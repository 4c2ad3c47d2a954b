"""Each `docker compose` command of the documents does what docker-compose.yml allows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_icd.core.settings import ENV_PREFIX
from stream_icd.kafka.settings import KafkaSettings
from tests.command_lines import arguments_of, complaint

ROOT = Path(__file__).parents[2]
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE_TEXT)["services"]
OVERRIDES = sorted((ROOT / "deploy" / "compose").glob("*.yml"))

# Each command of `docker compose` that the documents use, with its options; True: it takes a value.
OPTIONS: dict[str, dict[str, bool]] = {
    "": {"--file": True, "--profile": True, "--project-name": True},
    "up": {"--build": False, "--detach": False, "--wait": False, "--scale": True},
    "down": {"--volumes": False},
    "logs": {"--follow": False},
    "exec": {"--no-TTY": False},
    "run": {"--detach": False, "--no-deps": False},
}
WRITES_THE_REGISTRY = {"import", "promote", "rollback"}


def shown() -> Iterator[str]:
    """Every command that pages and files of compose show."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "docker-compose.yml", *OVERRIDES]
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            if found := re.fullmatch(r"(?:#\s*)?(docker compose .*)", line.strip()):
                yield found[1]


def taken(words: list[str], command: str) -> dict[str, str]:
    """Take the options of a command from the front of `words`."""
    given = {}
    while words and words[0].startswith("-"):
        option = words.pop(0)
        assert option in OPTIONS[command], f"{option} of {command} is not known here"
        given[option] = words.pop(0) if OPTIONS[command][option] else ""
    return given


def profiles(words: Sequence[str]) -> str:
    return words[words.index("--profile") + 1] if "--profile" in words else ""


@pytest.mark.parametrize("line", sorted(set(shown())))
def test_it_fits_the_file(line: str) -> None:
    _docker, _compose, *words = shlex.split(line, comments=True)
    profile = profiles(words)
    assert not profile or any(profile in one.get("profiles", ()) for one in SERVICES.values())
    for option, value in taken(words, "").items():
        assert option != "--file" or (ROOT / value).is_file()
    command = words.pop(0)
    given = taken(words, command)
    if "--scale" in given:
        service, count = given["--scale"].split("=")
        assert service in SERVICES
        assert count.isdigit()
    if command not in ("exec", "run"):
        assert set(words) <= SERVICES.keys()
        return
    service, *inside = words
    running = SERVICES[service]["restart"] == "unless-stopped"
    assert running or command == "run", "it has ended: nothing runs there"
    if command == "run":  # the image begins with the program
        assert "--no-deps" in given, "it starts all that the service needs again"
        inside = ["stream-icd", *inside]
    arguments = arguments_of(shlex.join(inside))
    assert arguments is not None
    assert complaint(arguments) is None
    if arguments[0] == "models":
        assert arguments[arguments.index("--registry") + 1] == "registry"
        (volume,) = (one for one in SERVICES[service]["volumes"] if one.startswith("registry:"))
        if arguments[1] in WRITES_THE_REGISTRY:
            assert volume == "registry:/home/icd/registry"


def test_changing_the_model_is_shown() -> None:
    found = {line.split(" models ")[1].split()[0] for line in shown() if " models " in line}
    assert found >= WRITES_THE_REGISTRY


class Reset(yaml.SafeLoader):
    """Reads `!reset`, by which an override leaves something of the file out, as None."""


Reset.add_constructor("!reset", lambda _loader, _node: None)


@pytest.mark.parametrize("override", OVERRIDES, ids=lambda path: path.stem)
def test_an_override_replaces_kafka_for_all_services(override: Path) -> None:
    text = override.read_text(encoding="utf-8")
    changed = yaml.load(text, Reset)
    ours = {name for name, one in SERVICES.items() if one["image"] == "stream-icd"}
    assert changed["services"].keys() == {"kafka", *ours}
    assert changed["services"]["kafka"] is None
    fields = {f"{ENV_PREFIX}{field}".upper() for field in KafkaSettings.model_fields}
    secrets = changed.get("secrets", {})
    for name in ours:
        service = changed["services"][name]
        assert service["environment"].keys() <= fields
        assert "127.0.0.1" not in service["environment"]["STREAM_ICD_BOOTSTRAP_SERVERS"]
        assert set(service.get("secrets", ())) == secrets.keys()
        for value in service["environment"].values():
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in secrets
        if "kafka" in SERVICES[name].get("depends_on", {}):
            assert service["depends_on"] is None
