"""The Helm chart: every object that it makes fits its schema, and does what the documents say.

A cluster is not needed: the schemas are those of Kubernetes itself (the package
kubernetes-validate) and, in `crds/`, of the operators that the chart can use.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from stream_icd.commands.cli.environment import check_environment
from stream_icd.interfaces.view.web.serve import HEALTH
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.methods.tracking.rules import Rule
from stream_icd.registry.find import shipped_models
from stream_icd.sources.node_tables import read_nodes
from stream_icd.streaming.execution.budget import Budget, MemorySettings
from tests.documents import arguments_of, complaint

ROOT = Path(__file__).parents[2]
Objects = dict[str, list[dict[str, Any]]]
"""What the chart makes, by the name of the values."""

CHART = ROOT / "deploy" / "helm" / "stream-icd"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
CASES = {"default": None, **{one.stem: one for one in sorted((CHART / "ci").glob("*.yaml"))}}
KUBERNETES = ("1.27", "1.37")
"""The first version that the chart accepts, and the newest whose schemas are here."""

CACHE = Path(os.environ.get("STREAM_ICD_TEST_CACHE", Path.home() / ".cache" / "stream_icd"))
HELM = (
    os.environ.get("STREAM_ICD_TEST_HELM")
    or shutil.which("helm")
    or shutil.which("helm", path=str(CACHE / "bin"))
)

pytestmark = pytest.mark.skipif(
    HELM is None,
    reason="helm is needed: put it on the PATH, set STREAM_ICD_TEST_HELM, or build it with Go: "
    "GOBIN=~/.cache/stream_icd/bin go install helm.sh/helm/v3/cmd/helm@v3.19.2",
)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(HELM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def template(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return helm("template", "icd", CHART, "--kube-version", KUBERNETES[0], *arguments)


def rendered(case: str, *arguments: str) -> list[dict[str, Any]]:
    values = CASES[case]
    done = template(*(() if values is None else ("--values", values)), *arguments)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


@pytest.fixture(scope="module")
def objects() -> Objects:
    return {case: rendered(case) for case in CASES}


def of_kind(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (found,) = (
        one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(name)
    )
    return found


def templates(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What the pods of each Deployment, Job and CronJob are made of, and the test's own pod."""
    found = {}
    for one in objects:
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if one["kind"] == "Pod" or "template" in spec:
            found[one["metadata"]["name"]] = spec.get("template", one)
    return found


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: template["spec"] for name, template in templates(objects).items()}


def pod_of(deployment: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def environment_of(container: dict[str, Any]) -> dict[str, Any]:
    """The environment by name; None: from elsewhere."""
    return {one["name"]: one.get("value") for one in container["env"]}


def environments(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The environment of each container that stays."""
    running = [one for pod in pods(objects).values() for one in pod["containers"]]
    return list(map(environment_of, running))


def deployments(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == "Deployment"}


@pytest.mark.parametrize("case", CASES)
def test_lint_is_content_and_every_object_fits_its_schema(objects: Objects, case: str) -> None:
    values = CASES[case]
    done = helm("lint", "--strict", CHART, *(() if values is None else ("--values", values)))
    assert done.returncode == 0, done.stdout
    assert objects[case]
    for one in objects[case]:
        check_schema(one)


def check_schema(made: dict[str, Any]) -> None:
    definition = Path(__file__).parent / "crds" / f"{made['kind']}.json"
    if definition.exists():
        custom = json.loads(definition.read_text("utf-8"))
        assert made["apiVersion"] == custom["apiVersion"]
        jsonschema.validate(made, custom["schema"])
    else:
        for version in KUBERNETES:
            kubernetes_validate.validate(made, version, strict=True)


def commands_of(container: dict[str, Any]) -> list[list[str]]:
    """The arguments of each `stream-icd` that a container runs, perhaps in a shell."""
    if "command" not in container:
        return [container["args"]]
    assert container["command"] == ["sh", "-c"]
    steps = container["args"][0].replace("$graph", "graph").split(" && ")
    return [found for step in steps if (found := arguments_of(step)) is not None]


@pytest.mark.parametrize("case", CASES)
def test_pods_run_commands_without_rights_and_with_limits(objects: Objects, case: str) -> None:
    ran = probed = 0
    for pod in pods(objects[case]).values():
        assert pod["securityContext"]["runAsNonRoot"]
        if case != "reached-values":  # where the cluster gives one
            user = pod["securityContext"]["runAsUser"]
            assert f"--uid {user} " in (ROOT / "Dockerfile").read_text()
        assert not pod["enableServiceLinks"]
        volumes = {one["name"] for one in pod["volumes"]}
        for container in (*pod["initContainers"], *pod["containers"]):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert not security["allowPrivilegeEscalation"]
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert {one["name"] for one in container["volumeMounts"]} <= volumes
            resources = container["resources"]  # where a quota asks for them, else no pod starts
            assert {"cpu", "memory"} <= resources["requests"].keys()
            assert "memory" in resources["limits"]
            if container["name"] == "compiled-code":
                continue
            ran += 1
            assert {complaint(arguments) for arguments in commands_of(container)} == {None}
            given = dict.fromkeys(environment_of(container), "")
            assert all(name.startswith("STREAM_ICD_") or name == "VIEW_TOKEN" for name in given)
            assert check_environment(given) == []
            if "--metrics-port" in container.get("args", ()):
                probed += 1
                (port,) = values_of(container["args"], "--metrics-port")
                assert container["ports"] == [{"name": "metrics", "containerPort": int(port)}]
                for probe, path in (("liveness", "/healthz"), ("readiness", "/readyz")):
                    asked = {"path": path, "port": "metrics"}
                    assert container[f"{probe}Probe"]["httpGet"] == asked
    assert ran >= 2
    # The retrainer is a CronJob by default, which serves nothing.
    expected = {"smallest-values": 1, "default": 3, "reached-values": 4, "secured-values": 6}
    assert probed == expected[case]


def test_memory_is_by_the_formula_of_the_documents() -> None:
    budget, graphs = Budget().memory_bytes, MemorySettings().cache_bytes
    assert VALUES["detector"]["budget"]["memoryBytes"] == budget
    for model, processes, copies in (("default", 1, 1), ("champion", 1, 2), ("champion", 4, 8)):
        chosen = f"detector.model={model},detector.processes={processes}"
        detector = of_kind(rendered("default", "--set", chosen), "Deployment", "detector")
        (container,) = pod_of(detector)["containers"]
        gibibytes = 0.1 + graphs / 2**30 + copies * (0.2 + budget / 2**30)
        assert container["resources"]["limits"]["memory"] == f"{ceil(1024 * gibibytes)}Mi"
        assert container["resources"]["requests"]["cpu"] == str(processes)
        assert environment_of(container)["STREAM_ICD_BUDGET_MEMORY_BYTES"] == str(budget)
        assert environment_of(container)["STREAM_ICD_MEMORY_CACHE_BYTES"] == str(graphs)


def test_detectors_are_scaled_by_their_own_lag(objects: Objects) -> None:
    secured = objects["secured-values"]
    scaled = of_kind(secured, "ScaledObject")
    detector = of_kind(secured, "Deployment", "detector")
    assert scaled["spec"]["scaleTargetRef"]["name"] == detector["metadata"]["name"]
    assert "replicas" not in detector["spec"]
    (trigger,) = scaled["spec"]["triggers"]
    lag = {"topic": "icd.snapshots.v1", "consumerGroup": "stream-icd-detect"}
    login = {"sasl": "scram_sha256", "tls": "enable"}
    assert (lag | login).items() <= trigger["metadata"].items()
    allowed = of_kind(secured, "TriggerAuthentication")
    assert trigger["authenticationRef"]["name"] == allowed["metadata"]["name"]
    given = {one["parameter"] for one in allowed["spec"]["secretTargetRef"]}
    assert given == {"username", "password", "ca", "cert", "key"}
    # No secret is needed if the brokers' certificate is a public one.
    ssl = "kafka.securityProtocol=SSL,detector.autoscaling.enabled=true"
    public = rendered("default", "--set", ssl)
    assert "TriggerAuthentication" not in {one["kind"] for one in public}
    (trigger,) = of_kind(public, "ScaledObject")["spec"]["triggers"]
    assert (trigger["metadata"]["tls"], "authenticationRef" in trigger) == ("enable", False)


def test_no_detector_and_large_numbers_are_what_they_say() -> None:
    values = {"detector.replicas": 0, "retrainer.everyWindows": 1_000_000}
    chosen = ",".join(f"{name}={value}" for name, value in values.items())
    objects = rendered("default", "--set-json", chosen, "--set", "podAnnotations.a=b")
    assert of_kind(objects, "Deployment", "detector")["spec"]["replicas"] == 0
    (retrainer,) = pods(objects)["icd-stream-icd-retrainer"]["containers"]
    assert values_of(retrainer["args"], "--every-windows") == ["1000000"]
    for name, template_of in templates(objects).items():
        if name != "icd-stream-icd-test":
            assert template_of["metadata"]["annotations"] == {"a": "b"}, name


def test_secrets_are_files_and_no_argument(objects: Objects) -> None:
    for name, pod in pods(objects["secured-values"]).items():
        for container in pod["containers"]:
            env = {one["name"]: one for one in container["env"]}
            mounted = {one["mountPath"] for one in container["volumeMounts"]}
            for file in ("SASL_PASSWORD_FILE", "SSL_CAFILE", "SSL_CERTFILE", "SSL_KEYFILE"):
                assert str(Path(env[f"STREAM_ICD_{file}"]["value"]).parent) in mounted, name
            assert "valueFrom" in env["STREAM_ICD_SASL_USERNAME"]


def test_prometheus_scrapes_all_workers_as_the_job_of_the_alerts(objects: Objects) -> None:
    secured = objects["secured-values"]
    service, monitor = of_kind(secured, "Service", "metrics"), of_kind(secured, "ServiceMonitor")
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    alerts = (ROOT / "deploy" / "monitoring" / "prometheus" / "alerts.yml").read_text()
    assert f'job="{labels[monitor["spec"]["jobLabel"]]}"' in alerts
    chosen = service["spec"]["selector"].items()
    workers = deployments(secured).items()
    scraped = {name.split("-")[-1] for name, one in workers if chosen <= pod_labels(one).items()}
    assert scraped == {"detector", "tracker", "rows", "alert", "archive", "retrainer"}


def pod_labels(deployment: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return labels


def test_selectors_find_the_pods_they_are_for(objects: Objects) -> None:
    for case in objects.values():
        labels = {name: pod_labels(one).items() for name, one in deployments(case).items()}
        for name, one in deployments(case).items():
            assert one["spec"]["selector"]["matchLabels"].items() <= labels[name]
        for budget in (one for one in case if one["kind"] == "PodDisruptionBudget"):
            wanted = budget["spec"]["selector"]["matchLabels"].items()
            hit = [name for name in labels if wanted <= labels[name]]
            assert hit == [budget["metadata"]["name"]]


def test_alerts_have_rules_receivers_and_a_secret_of_their_own(objects: Objects) -> None:
    found = {name.split("-")[-1]: pod for name, pod in pods(objects["secured-values"]).items()}
    (container,) = found["alert"]["containers"]
    rules, receivers = (values_of(container["args"], one) for one in ("--rule", "--to"))
    assert [Rule.parse(rule, read_nodes).text for rule in rules] == rules != []
    mounted = {one["mountPath"] for one in container["volumeMounts"]}
    env = environment_of(container)
    files = [one.partition("@")[2] for one in receivers if "@" in one]
    assert files
    for file in (*files, env["STREAM_ICD_ALERTS_SECRET_FILE"]):
        assert str(Path(str(file)).parent) in mounted
    secrets = {
        name: {one.get("secret", {}).get("secretName") for one in pod["volumes"]}
        for name, pod in found.items()
    }
    assert [name for name, of_pod in secrets.items() if "alert" in of_pod] == ["alert"]


def values_of(arguments: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(arguments) if name == option]


TOKENS = "kafka.securityProtocol=SASL_SSL,kafka.sasl.mechanism=OAUTHBEARER"


def test_a_login_by_token_and_a_prefix_are_those_of_all_programs() -> None:
    extra = "extraEnv[0].name=STREAM_ICD_SASL_OAUTH_TOKEN_FILE,extraEnv[0].value=/run/token"
    for env in environments(rendered("default", "--set", f"{TOKENS},{extra}")):
        assert env["STREAM_ICD_SASL_MECHANISM"] == "OAUTHBEARER"
        assert env["STREAM_ICD_SASL_OAUTH_TOKEN_FILE"] == "/run/token"
        assert "STREAM_ICD_SASL_USERNAME" not in env
    prefix = "kafka.topicPrefix=team-a.,detector.autoscaling.enabled=true"
    objects = rendered("default", "--set", prefix)
    assert {env["STREAM_ICD_TOPIC_PREFIX"] for env in environments(objects)} == {"team-a."}
    (trigger,) = of_kind(objects, "ScaledObject")["spec"]["triggers"]
    assert trigger["metadata"]["topic"] == "team-a.icd.snapshots.v1"
    assert trigger["metadata"]["consumerGroup"] == "team-a.stream-icd-detect"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("kafka.securityProtocol=SASL_SSL", "kafka.sasl.existingSecret"),
        ("kafka.tls.clientCertificate=true", "kafka.tls.existingSecret"),
        ("kafka.tls.existingSecret=a", "no effect with kafka.securityProtocol PLAINTEXT"),
        ("kafka.sasl.existingSecret=a", "no effect with kafka.securityProtocol PLAINTEXT"),
        (f"{TOKENS},kafka.sasl.existingSecret=a", "no effect with kafka.sasl.mechanism OAUTH"),
        (f"{TOKENS},detector.autoscaling.enabled=true", "make a ScaledObject of your own"),
        ("kafka.topicPrefix=a/b", "topicPrefix"),
        ("history.uri=/history", "/history is on no volume"),
        ("registry.uri=", "give registry.uri, or a shipped model"),
        ("storage.enabled=false", "s3://bucket/history"),
        ("detector.autoscaling.enabled=true,detector.extraArgs={--graph,a}", "stream-icd-detect"),
        ("detector.procesess=2", "procesess"),
        ("kafka.bootstrapServers=kafka", "bootstrapServers"),
        ("alert.enabled=true", "alert.rules"),
        ("alert.enabled=true,alert.rules={split},alert.sign=true", "alert.existingSecret"),
        ("view.ingress.enabled=true", "view.ingress.host"),
        ("view.httpRoute.enabled=true", "view.httpRoute.parentRefs"),
    ],
)
def test_values_that_contradict_each_other_are_refused(setting: str, reason: str) -> None:
    done = template("--set", setting)
    assert (done.returncode == 0, reason in done.stderr) == (False, True)


def test_the_readme_explains_every_value_and_is_up_to_date() -> None:
    made = runpy.run_path(str(ROOT / "deploy" / "helm" / "readme.py"))["readme"]()
    assert (CHART / "README.md").read_text("utf-8") == made, "run python deploy/helm/readme.py"
    assert set(re.findall(r"^\| `([\w.]+)` \|", made, re.MULTILINE)) == set(leaves(VALUES))
    assert VALUES["registry"]["firstChampion"] in shipped_models()


def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value and name != "resources":
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def test_selectors_and_names_are_those_of_every_version(objects: Objects) -> None:
    """Kubernetes refuses other selectors in an upgrade, and objects of other names are new ones."""
    other = rendered("default", "--set", "image.tag=next,detector.processes=3,podLabels.a=b")
    parts = ("detector", "tracker", "archive", "view")
    for found in (objects["default"], other):
        assert deployments(found).keys() == {f"icd-stream-icd-{one}" for one in parts}
        for name, one in deployments(found).items():
            part = name.removeprefix("icd-stream-icd-")
            labels = {"name": "stream-icd", "instance": "icd", "component": part}
            expected = {f"app.kubernetes.io/{label}": value for label, value in labels.items()}
            assert one["spec"]["selector"] == {"matchLabels": expected}
        claim = of_kind(found, "PersistentVolumeClaim")
        assert claim["metadata"]["name"] == "icd-stream-icd-data"
        assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize("case", CASES)
def test_an_upgrade_lets_each_pod_finish_its_batch(objects: Objects, case: str) -> None:
    for one in deployments(objects[case]).values():
        assert one["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    batch_s = {int(env["STREAM_ICD_SHUTDOWN_TIMEOUT_S"]) for env in environments(objects[case])}
    assert min(batch_s) >= KafkaSettings().shutdown_timeout_s
    # After its batch, a worker notes its end (5 s) and leaves its group (5 s).
    grace_s = [pod["terminationGracePeriodSeconds"] for pod in pods(objects[case]).values()]
    assert min(grace_s) >= max(batch_s) + 15


def test_each_revision_has_a_setup_which_may_leave_topics_alone(objects: Objects) -> None:
    """A job cannot be changed, so an upgrade makes another one."""
    job = of_kind(rendered("default", "--is-upgrade"), "Job")
    assert re.fullmatch(r"icd-stream-icd-setup-\d+", job["metadata"]["name"])
    (topics,) = (c for c in job["spec"]["template"]["spec"]["initContainers"] if "args" in c)
    assert topics["args"] == ["topics", "create"]  # which changes none that exists
    (setup,) = (p for name, p in pods(objects["reached-values"]).items() if "setup" in name)
    assert not any("topics" in one.get("args", ()) for one in setup["initContainers"])
    nothing = rendered("smallest-values", "--set", "topics.create=false")
    assert not [one for one in nothing if one["kind"] == "Job"]


def test_names_users_and_the_spread_of_pods_can_be_chosen(objects: Objects) -> None:
    reached = objects["reached-values"]
    names = [one["metadata"]["name"] for one in reached]
    assert all(name == "graphs" or name.startswith("graphs-") for name in names)
    named = of_kind(rendered("default", "--set", "nameOverride=graphs"), "Deployment", "detector")
    assert named["metadata"]["name"] == "icd-graphs-detector"
    assert named["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "graphs"
    for pod in pods(reached).values():
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & pod["securityContext"].keys()
        assert pod["priorityClassName"] == "high"
    for one in deployments(reached).values():
        (constraint,) = pod_of(one)["topologySpreadConstraints"]
        assert constraint["labelSelector"] == one["spec"]["selector"]
        assert pod_labels(one)["team"] == "graphs"


def test_the_page_is_reached_through_its_service_and_probed(objects: Objects) -> None:
    (page,) = pods(objects["default"])["icd-stream-icd-view"]["containers"]
    asked = {"path": HEALTH, "port": "http"}
    assert page["livenessProbe"]["httpGet"] == page["readinessProbe"]["httpGet"] == asked
    found = objects["reached-values"]
    service = of_kind(found, "Service", "view")
    (port,) = service["spec"]["ports"]
    ((path,),) = (rule["http"]["paths"] for rule in of_kind(found, "Ingress")["spec"]["rules"])
    backend = path["backend"]["service"]
    assert backend == {"name": service["metadata"]["name"], "port": {"name": port["name"]}}
    ((other,),) = (rule["backendRefs"] for rule in of_kind(found, "HTTPRoute")["spec"]["rules"])
    assert other == {"name": service["metadata"]["name"], "port": port["port"]}


def test_the_network_lets_through_metrics_page_brokers_and_no_more(objects: Objects) -> None:
    found = [one for one in objects["reached-values"] if one["kind"] == "NetworkPolicy"]
    by_name = {one["metadata"]["name"]: one["spec"] for one in found}
    assert by_name.keys() == {"graphs", "graphs-metrics", "graphs-alert", "graphs-view"}
    everyone = by_name["graphs"]
    assert (everyone["policyTypes"], "ingress" in everyone) == (["Ingress", "Egress"], False)
    left = [{one["port"] for one in rule["ports"]} for rule in everyone["egress"]]
    assert left == [{53}, {9092, 9093, 9094}, {443}]
    ((receivers,),) = (rule["ports"] for rule in by_name["graphs-alert"]["egress"])
    assert receivers["port"] == 8443
    alert = of_kind(objects["reached-values"], "Deployment", "alert")
    assert by_name["graphs-alert"]["podSelector"] == alert["spec"]["selector"]
    wanted = everyone["podSelector"]["matchLabels"].items()
    workers = list(deployments(objects["reached-values"]).values())
    assert all(wanted <= pod_labels(one).items() for one in workers)
    for name, port in (("graphs-metrics", "metrics"), ("graphs-view", "http")):
        (rule,) = by_name[name]["ingress"]
        assert rule["from"]
        assert rule["ports"] == [{"port": port, "protocol": "TCP"}]
        chosen = by_name[name]["podSelector"]["matchLabels"].items()
        for one in workers:
            if chosen <= pod_labels(one).items():
                (container,) = pod_of(one)["containers"]
                assert port in {p["name"] for p in container["ports"]}


def test_helm_test_sends_a_snapshot_and_waits_for_its_communities(objects: Objects) -> None:
    pod = of_kind(objects["default"], "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["activeDeadlineSeconds"] <= 300
    (container,) = pod["spec"]["containers"]
    sent, received = commands_of(container)
    assert sent[:2] == ["produce", "gn"]
    assert received[0] == "subscribe"
    assert values_of(sent, "--graph") == values_of(received, "--graph") == ["graph"]


def test_who_installs_it_is_told_what_the_volume_needs(tmp_path: Path) -> None:
    """Without a cluster, Helm shows no notes: here they are an object like others."""
    chart = shutil.copytree(CHART, tmp_path / "chart")
    notes = chart / "templates" / "NOTES.txt"
    text = '{{ define "notes" }}' + notes.read_text("utf-8") + "{{ end }}"
    notes.with_name("notes.yaml").write_text(text + '\nnotes: {{ include "notes" . | toJson }}')
    shown = ("--show-only", "templates/notes.yaml", "--kube-version", KUBERNETES[0])
    for values, said in (
        ("image.tag=next", True),
        ("storage.accessModes={ReadWriteOnce}", False),
    ):
        done = helm("template", "icd", chart, *shown, "--set", values)
        assert "helm test icd" in done.stdout, done.stderr
        assert ("the claim stays Pending" in done.stdout) == said
