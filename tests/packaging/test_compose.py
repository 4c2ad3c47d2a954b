"""docker-compose.yml: its services, the commands of the documents, and all of it on an engine."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_icd.core.settings import ENV_PREFIX
from stream_icd.interfaces.view.web.serve import HEALTH
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import ALERTS, check_topic_for
from stream_icd.methods.tracking.rules import Rule
from stream_icd.registry.find import shipped_models
from stream_icd.sources.node_tables import read_nodes
from stream_icd.streaming.execution.budget import Budget
from stream_icd.streaming.metrics.metrics import Metrics
from stream_icd.streaming.metrics.probe import PORT
from stream_icd.streaming.metrics.server import serving
from tests.documents import arguments_of, complaint
from tests.testbed.brokers import KAFKA_VERSION, POM

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "stream-icd"}
OVERRIDES = sorted((ROOT / "deploy" / "compose").glob("*.yml"))
SETTINGS = {f"{ENV_PREFIX}{field}".upper() for field in KafkaSettings.model_fields}

KEYS = {
    "build", "image", "pull_policy", "logging", "init", "mem_limit", "command", "ports", "volumes",
    "profiles", "restart", "environment", "depends_on", "healthcheck",
}  # fmt: skip
"""Of a service: another key is a typing error until it is looked up and added here."""

CHECKS = {"test", "interval", "timeout", "start_period", "retries"}
LISTS = {"command", "ports", "volumes", "profiles"}


def value_of(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def default_of(text: str) -> str:
    """What `${NAME:-DEFAULT}` stands for if the environment has no NAME."""
    (default,) = re.findall(r"^\$\{\w+:-(.*)\}$", text)
    return str(default)


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_a_service_has_known_keys_and_refers_to_what_exists(service: dict[str, Any]) -> None:
    assert service.keys() <= KEYS
    assert service.get("healthcheck", {}).keys() <= CHECKS
    assert all(isinstance(service[key], list) for key in LISTS & service.keys())
    environment = service.get("environment", {}).values()
    assert all(type(value) in (str, int) for value in environment), "true and false need quotes"
    for other, wait in service.get("depends_on", {}).items():
        has_ended = wait["condition"] == "service_completed_successfully"
        assert wait["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
        assert not (has_ended and "restart" in SERVICES[other])
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert source in COMPOSE["volumes"] or (ROOT / source).is_dir()
    assert {"max-size", "max-file"} <= service["logging"]["options"].keys(), "logs have an end"
    assert "mem_limit" in service
    # A broker without passwords is reached by this machine only.
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("service", OURS.values(), ids=OURS)
def test_services_run_commands_with_settings_that_exist(service: dict[str, Any]) -> None:
    assert complaint(service["command"]) is None
    if "--model" in service["command"]:
        assert value_of(service["command"], "--model") in {"champion", *shipped_models()}
    assert service["environment"].keys() <= SETTINGS
    KafkaSettings(bootstrap_servers=service["environment"]["STREAM_ICD_BOOTSTRAP_SERVERS"])


def test_alerts_have_a_rule_and_a_topic_that_the_worker_takes() -> None:
    rule, to = (value_of(OURS["alert"]["command"], option) for option in ("--rule", "--to"))
    Rule.parse(default_of(rule), read_nodes)
    check_topic_for(default_of(to).removeprefix("kafka:"), ALERTS)


def test_one_service_builds_the_image_and_no_other_starts_before_it() -> None:
    (builder,) = (name for name, service in OURS.items() if "build" in service)
    assert all(service["pull_policy"] == "never" for service in OURS.values())
    for name, service in OURS.items():
        before = {name}
        while service.get("depends_on") and builder not in before:
            (name,) = service["depends_on"]
            before.add(name)
            service = SERVICES[name]
        assert builder in before


def test_health_is_asked_of_the_port_on_which_it_is_told() -> None:
    checks = {
        name: (value_of(one["command"], "--metrics-port"), *one["healthcheck"]["test"])
        for name, one in OURS.items()
        if "healthcheck" in one and "--metrics-port" in one["command"]
    }
    assert checks.keys() == {"producer", "detector", "tracker", "archive", "alert", "rows"}
    ((port, kind, _python, *check),) = set(checks.values())
    assert kind == "CMD"
    assert port in check[-1]
    metrics = Metrics(3600, 3600)
    metrics.watch("t", "g").polled(generation=1, silence_s=0)
    with serving(metrics, port=0) as free:
        command = [sys.executable, *(part.replace(port, str(free)) for part in check)]
        assert subprocess.run(command, check=False, timeout=60).returncode == 0
        metrics.watch("t", "g")  # not a member yet
        failed = subprocess.run(command, check=False, timeout=60, stderr=subprocess.DEVNULL)
        assert failed.returncode == 1
    page = OURS["view"]
    (port,) = {address.split(":")[-1] for address in page["ports"]}
    assert f"127.0.0.1:{port}{HEALTH}" in page["healthcheck"]["test"][-1]


def test_the_detector_has_the_memory_of_the_documents() -> None:
    assert "champion" in OURS["detector"]["command"]
    gibibytes = 0.1 + 2 * (0.2 + Budget().memory_bytes / 2**30)
    limit = int(OURS["detector"]["mem_limit"].removesuffix("m")) / 1024
    assert gibibytes <= limit < 1.1 * gibibytes


def test_prometheus_and_the_image_ask_at_the_port_of_every_service_that_serves_metrics() -> None:
    path = ROOT / "deploy" / "monitoring" / "prometheus" / "prometheus.yml"
    (job,) = yaml.safe_load(path.read_text(encoding="utf-8"))["scrape_configs"]
    (asked,) = job["dns_sd_configs"]
    serving_metrics = [name for name, one in OURS.items() if "--metrics-port" in one["command"]]
    assert sorted(asked["names"]) == sorted(serving_metrics)
    assert len(serving_metrics) == 7
    ports = {value_of(OURS[name]["command"], "--metrics-port") for name in serving_metrics}
    assert ports == {str(asked["port"])} == {str(PORT)}


def test_services_reach_kafka_at_an_address_that_it_advertises() -> None:
    environment = SERVICES["kafka"]["environment"]
    advertised = dict(a.split("://") for a in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    listeners = dict(a.split("://:") for a in environment["KAFKA_LISTENERS"].split(","))
    for service in OURS.values():
        assert service["environment"]["STREAM_ICD_BOOTSTRAP_SERVERS"] in advertised.values()
    for listener, address in advertised.items():
        assert address.endswith(f":{listeners[listener]}")
    assert set(listeners) - set(advertised) == {environment["KAFKA_CONTROLLER_LISTENER_NAMES"]}


def test_it_is_the_kafka_that_the_tests_run_on() -> None:
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{KAFKA_VERSION}"
    assert f"<version>{KAFKA_VERSION}</version>" in POM.read_text(encoding="utf-8")


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


@pytest.mark.parametrize("line", sorted(set(shown())))
def test_a_command_of_the_documents_fits_the_file(line: str) -> None:
    _docker, _compose, *words = shlex.split(line, comments=True)
    profiles = {name for one in SERVICES.values() for name in one.get("profiles", ())}
    for option, value in taken(words, "").items():
        assert option != "--file" or (ROOT / value).is_file()
        assert option != "--profile" or value in profiles
    command = words.pop(0)
    given = taken(words, command)
    if "--scale" in given:
        service, count = given["--scale"].split("=")
        assert (service in SERVICES, count.isdigit()) == (True, True)
    if command not in ("exec", "run"):
        assert set(words) <= SERVICES.keys()
        return
    service, *inside = words
    running = SERVICES[service]["restart"] == "unless-stopped"
    assert running or command == "run", "it has ended: nothing runs there"
    if command == "run":  # the image begins with the program
        assert "--no-deps" in given, "it starts all that the service needs again"
        inside = ["stream-icd", *inside]
    arguments = arguments_of(shlex.join(inside)) or []
    assert complaint(arguments) is None
    if arguments[0] == "models":
        assert value_of(arguments, "--registry") == "registry"
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
    assert changed["services"].keys() == {"kafka", *OURS}
    assert changed["services"]["kafka"] is None
    secrets = changed.get("secrets", {})
    for name in OURS:
        service = changed["services"][name]
        assert service["environment"].keys() <= SETTINGS
        assert "127.0.0.1" not in service["environment"]["STREAM_ICD_BOOTSTRAP_SERVERS"]
        assert set(service.get("secrets", ())) == secrets.keys()
        for value in service["environment"].values():
            if value.startswith("/run/secrets/"):
                assert value.removeprefix("/run/secrets/") in secrets
        if "kafka" in SERVICES[name].get("depends_on", {}):
            assert service["depends_on"] is None


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


@pytest.fixture
def up(tmp_path: Path) -> Iterator[list[str]]:
    """The services, under a name of their own and without ports; what begins each command."""
    (own := tmp_path / "no-ports.yml").write_text(NO_PORTS)
    files = ["--file", "docker-compose.yml", "--file", str(own)]
    compose = ["docker", "compose", "--project-name", "stream-icd-test", *files]
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


@pytest.mark.skipif(
    not has_engine(),
    reason="an engine is needed: install Docker with Compose, so that `docker info` and "
    "`docker compose version` work",
)
@pytest.mark.timeout(BUILD_S + 2 * UP_S)
def test_communities_come_and_all_is_well_and_the_model_can_be_changed(up: list[str]) -> None:
    asked = ("subscribe", "--from", "beginning", "--limit", "3", "--format", "json")
    came = inside(up, "detector", *asked)
    assert [json.loads(line)["graph"] for line in came.splitlines()] == ["lfr"] * 3
    place = ("--registry", "registry")
    assert "error " not in inside(up, "retrain", "doctor", *place)
    inside(up, "retrain", "models", "import", "as", *place)
    inside(up, "retrain", "models", "promote", "as", *place)
    assert "champion" in inside(up, "retrain", "models", "list", *place)
