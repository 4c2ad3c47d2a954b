"""Dockerfile and docker-compose.yml, as far as they can be held to account without an engine."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from stream_icd.core.settings import ENV_PREFIX
from stream_icd.interfaces.view.web.serve import HEALTH
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import ALERTS, check_topic_for
from stream_icd.methods.tracking.rules import parse_rule
from stream_icd.registry.find import shipped_models
from stream_icd.sources.node_tables import read_nodes
from stream_icd.streaming.execution.budget import Budget
from stream_icd.streaming.metrics.metrics import Health, Metrics
from stream_icd.streaming.metrics.probe import PORT
from stream_icd.streaming.metrics.server import serving
from tests.command_lines import complaint

ROOT = Path(__file__).parents[2]
COMPOSE_TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "stream-icd"}
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")

# The part of the Compose specification that we use; another key is a typing error until it is
# looked up there and added here.
WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
DURATION = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["image"]}, {"required": ["build"]}],
    "properties": {
        "build": {"type": "string"},
        "image": {"type": "string"},
        "pull_policy": {"enum": ["always", "never", "missing", "build"]},
        "logging": {
            "type": "object",
            "additionalProperties": False,
            "required": ["driver", "options"],
            "properties": {
                "driver": {"enum": ["json-file", "local", "journald"]},
                "options": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
        "init": {"type": "boolean"},
        "mem_limit": {"type": "string", "pattern": "^[0-9]+[mg]$"},
        "command": WORDS,
        "ports": WORDS,
        "volumes": WORDS,
        "profiles": WORDS,
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "environment": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number"]},  # true and false need quotes
        },
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["condition"],
                "properties": {
                    "condition": {
                        "enum": [
                            "service_started",
                            "service_healthy",
                            "service_completed_successfully",
                        ]
                    }
                },
            },
        },
        "healthcheck": {
            "type": "object",
            "additionalProperties": False,
            "required": ["test"],
            "properties": {
                "test": WORDS,
                "interval": DURATION,
                "timeout": DURATION,
                "start_period": DURATION,
                "retries": {"type": "integer"},
            },
        },
    },
}
FILE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["services"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
}


def instructions(name: str) -> list[list[str]]:
    """Arguments of each instruction of that name in the Dockerfile."""
    return [shlex.split(a) for a in re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)]


def test_compose_has_the_form_that_the_specification_asks_for() -> None:
    jsonschema.validate(COMPOSE, FILE)


def test_what_services_refer_to_exists() -> None:
    for service in SERVICES.values():
        for other, wait in service.get("depends_on", {}).items():
            assert other in SERVICES
            assert wait["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]
            assert wait["condition"] != "service_completed_successfully" or (
                "restart" not in SERVICES[other]
            )
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).is_dir()


@pytest.mark.parametrize("name", OURS)
def test_services_run_commands_that_exist(name: str) -> None:
    arguments = OURS[name]["command"]
    assert complaint(arguments) is None
    if "--model" in arguments:
        assert arguments[arguments.index("--model") + 1] in {"champion", *shipped_models()}


def test_alerts_have_a_rule_and_a_topic_that_the_worker_takes() -> None:
    arguments = OURS["alert"]["command"]
    rule, to = (arguments[arguments.index(one) + 1] for one in ("--rule", "--to"))
    parse_rule(default_of(rule), read_nodes)
    check_topic_for(default_of(to).removeprefix("kafka:"), ALERTS)


def default_of(text: str) -> str:
    """What `${NAME:-DEFAULT}` stands for if the environment has no NAME."""
    found = re.fullmatch(r"\$\{\w+:-(.*)\}", text)
    assert found is not None
    return found[1]


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


def test_no_log_grows_without_end() -> None:
    for service in SERVICES.values():
        assert {"max-size", "max-file"} <= service["logging"]["options"].keys()


def test_every_setting_in_the_environment_is_one_of_ours() -> None:
    fields = {f"{ENV_PREFIX}{field}".upper() for field in KafkaSettings.model_fields}
    used = {variable for service in OURS.values() for variable in service["environment"]}
    assert used <= fields
    for service in OURS.values():
        KafkaSettings(bootstrap_servers=service["environment"]["STREAM_ICD_BOOTSTRAP_SERVERS"])


def test_health_is_asked_of_the_port_on_which_it_is_told() -> None:
    checks = {
        name: one["healthcheck"]["test"]
        for name, one in OURS.items()
        if "healthcheck" in one and "--metrics-port" in one["command"]
    }
    assert checks.keys() == {"producer", "detector", "tracker", "archive", "alert", "rows"}
    for name, (kind, *check) in checks.items():
        metrics = Metrics(Health(3600, 3600))
        metrics.watch("t", "g").polled(generation=1, silence_s=0)
        arguments = OURS[name]["command"]
        port = arguments[arguments.index("--metrics-port") + 1]
        assert kind == "CMD"
        assert port in check[-1]
        with serving(metrics, port=0) as free:
            command = [one.replace(port, str(free)) for one in (sys.executable, *check[1:])]
            assert subprocess.run(command, check=False, timeout=60).returncode == 0
            metrics.watch("t", "g")  # not a member yet
            failed = subprocess.run(command, check=False, timeout=60, stderr=subprocess.DEVNULL)
            assert failed.returncode == 1


def test_the_page_is_asked_on_its_own_port_for_what_it_answers() -> None:
    check = OURS["view"]["healthcheck"]["test"][-1]
    (port,) = {one.split(":")[-1] for one in OURS["view"]["ports"]}
    assert f"127.0.0.1:{port}{HEALTH}" in check


def test_every_service_has_a_limit_of_memory_and_the_detector_that_of_the_documents() -> None:
    assert all("mem_limit" in service for service in SERVICES.values())
    assert "champion" in OURS["detector"]["command"]
    gibibytes = 0.1 + 2 * (0.2 + Budget().memory_bytes / 2**30)
    limit = int(OURS["detector"]["mem_limit"].removesuffix("m")) / 1024
    assert gibibytes <= limit < 1.1 * gibibytes


def test_prometheus_scrapes_every_service_that_serves_metrics() -> None:
    text = (ROOT / "deploy" / "monitoring" / "prometheus" / "prometheus.yml").read_text(
        encoding="utf-8"
    )
    (job,) = yaml.safe_load(text)["scrape_configs"]
    (asked,) = job["dns_sd_configs"]
    serving_metrics = [name for name, one in OURS.items() if "--metrics-port" in one["command"]]
    assert sorted(asked["names"]) == sorted(serving_metrics)
    assert len(serving_metrics) == 7
    for name in serving_metrics:
        arguments = OURS[name]["command"]
        assert arguments[arguments.index("--metrics-port") + 1] == str(asked["port"])


def test_the_image_asks_the_port_on_which_workers_tell_their_health() -> None:
    (line,) = instructions("HEALTHCHECK")
    assert line[-2:] == ["-m,", "stream_icd.streaming.metrics.probe]"]
    for service in OURS.values():
        if "--metrics-port" in service["command"]:
            arguments = service["command"]
            assert arguments[arguments.index("--metrics-port") + 1] == str(PORT)


def test_services_reach_kafka_at_an_address_that_it_advertises() -> None:
    environment = SERVICES["kafka"]["environment"]
    advertised = dict(a.split("://") for a in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
    listeners = dict(a.split("://:") for a in environment["KAFKA_LISTENERS"].split(","))
    for service in OURS.values():
        assert service["environment"]["STREAM_ICD_BOOTSTRAP_SERVERS"] in advertised.values()
    for listener, address in advertised.items():
        assert address.endswith(f":{listeners[listener]}")
    assert set(listeners) - set(advertised) == {environment["KAFKA_CONTROLLER_LISTENER_NAMES"]}


def test_only_this_machine_reaches_a_broker_without_passwords() -> None:
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_it_is_the_kafka_that_the_tests_run_on() -> None:
    pom = ElementTree.parse(ROOT / "tests" / "testbed" / "kafka_pom.xml")
    tested = pom.findtext(".//{*}dependency/{*}version")
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{tested}"


def test_files_copied_into_the_image_exist_and_are_sent_to_the_engine() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    assert "*" in ignored
    copied = [c[:-1] for c in instructions("COPY") if not c[0].startswith("--from")]
    assert copied
    for source in (source for sources in copied for source in sources):
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in sent), source


def test_the_image_runs_our_command_as_nobody_special() -> None:
    assert instructions("ENTRYPOINT") == [["[stream-icd]"]]
    last_stage = DOCKERFILE.split("\nFROM ")[-1]
    (user,) = re.findall(r"^USER (\w+)$", last_stage, re.MULTILINE)
    assert user != "root"
    assert f" {user}" in next(line for line in last_stage.splitlines() if "useradd" in line)


def test_the_image_says_what_it_is_and_a_release_says_from_where() -> None:
    label = re.search(r"^LABEL (.*)$", DOCKERFILE, re.MULTILINE)
    assert label is not None
    said = dict(one.split("=", 1) for one in shlex.split(label[1]))
    names = {name.removeprefix("org.opencontainers.image.") for name in said}
    assert names >= {"title", "description", "source", "licenses", "version", "revision"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert said["org.opencontainers.image.licenses"] == project["license"]
    by_release = {value.removeprefix("$") for value in said.values() if value.startswith("$")}
    assert by_release == {"VERSION", "REVISION", "SOURCE"}
    assert {a[0].split("=")[0] for a in instructions("ARG")} == {"PYTHON", *by_release}


def release() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The job that releases the image, and its steps."""
    path = ROOT / ".github" / "workflows" / "release.yml"
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(workflow[True]) == {"push"}  # YAML 1.1 takes `on` for a yes
    assert set(workflow[True]["push"]) == {"tags"}
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    return job, job["steps"]


def test_a_release_is_for_both_architectures_and_says_what_is_in_it() -> None:
    job, steps = release()
    assert job["permissions"] == {"contents": "read", "packages": "write"}
    used = [step["uses"].split("@")[0] for step in steps if "uses" in step]
    assert used == [
        "actions/checkout",
        "docker/setup-qemu-action",
        "docker/setup-buildx-action",
        "docker/login-action",
        "docker/build-push-action",
    ]
    build = steps[-1]["with"]
    assert build["platforms"].split(",") == ["linux/amd64", "linux/arm64"]
    assert (build["push"], build["sbom"], build["provenance"]) == (True, True, "mode=max")
    given = {line.split("=")[0] for line in build["build-args"].splitlines()}
    assert given == {a[0].split("=")[0] for a in instructions("ARG")} - {"PYTHON"}


@pytest.mark.parametrize("tag", ["v{version}", "v9.9.9"])
def test_a_release_is_of_the_version_that_its_tag_names(tag: str, tmp_path: Path) -> None:
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    _, steps = release()
    (check,) = (step["run"] for step in steps if "run" in step)
    environment = {
        "PATH": os.environ["PATH"],
        "GITHUB_REF_NAME": tag.format(version=version[1]),
        "GITHUB_REPOSITORY": "Owner/Name",
        "GITHUB_ENV": str(tmp_path / "env"),
    }
    command = ["bash", "-e", "-c", check]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    assert (done.returncode == 0) == (tag != "v9.9.9")
    if not done.returncode:
        assert (tmp_path / "env").read_text().splitlines() == [
            f"VERSION={version[1]}",
            "IMAGE=ghcr.io/owner/name",
        ]


def test_the_image_has_a_python_that_the_project_supports() -> None:
    (version,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    assert tuple(map(int, version.split("."))) >= (3, 11)


def test_what_the_image_compiles_at_its_build_is_compiled() -> None:
    (line,) = re.findall(r"^RUN (\[.*\])$", DOCKERFILE.split("\nFROM ")[-1], re.MULTILINE)
    python, *arguments = json.loads(line)
    assert python == "python"
    assert arguments[0] == "-c"
    exec(arguments[1])  # with this checkout's own cache: only whether it runs is asked
