"""Dockerfile, compose.yaml and the chart deploy what there is: commands, settings, files; and hold no secret."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import CommandLine
from harken.config.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
CHART = ROOT / "deploy" / "helm" / "harken"
URLS = {"store": {"url": "postgresql://app@db/harken", "ownerUrl": "postgresql://owner@db/harken"}}
# The smallest, the largest, and one that brings its own secret.
VALUES: tuple[dict[str, Any], ...] = (
    URLS,
    {
        **URLS,
        "settings": {"HARKEN_SERVE__RATE": "100", "HARKEN_WEBHOOKS__ALLOW_HOSTS": "a.example,b.example"},
        "settingsSecrets": ["models"],
        "imagePullSecrets": [{"name": "pull"}],
        "server": {"autoscaling": {"enabled": True}},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"},
    },
    {"store": {"existingSecret": "own"}, "metrics": {"port": 0}, "worker": {"replicas": 0}},
)


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def dockerfile_variables() -> dict[str, str]:
    pairs = (word.split("=", 1) for line in instructions("ENV") for word in shlex.split(line))
    return {name: value for name, value in pairs if name.startswith("HARKEN_")}


def rendered(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    chart = pytest.importorskip("helm_python.chart", reason="needs helm-python-sdk")
    files = chart.Chart.load(str(CHART)).render(values)
    found = [each for name, text in files.items() if "NOTES" not in name for each in yaml.safe_load_all(text)]
    return [each for each in found if each]


def containers(resources: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in resources:
        if each["kind"] in ("Deployment", "Job"):
            yield from each["spec"]["template"]["spec"]["containers"]


def are_settings(variables: Mapping[str, str], home: Path) -> None:
    """Raise where one of the variables names no setting, or its value cannot be."""
    load_settings(home, {**variables, "HARKEN_HOME": str(home)})


def there_is(cli: CommandLine, words: list[str]) -> None:
    assert "Usage: harken" in cli(*words, "--help").out


def test_the_image_runs_as_nobody_in_particular_and_has_nothing_secret() -> None:
    assert instructions("USER") == ["10001:10001"]
    assert instructions("STOPSIGNAL") in ([], ["SIGTERM"])
    copied = {word for line in instructions("COPY") if "--from" not in line for word in shlex.split(line)[:-1]}
    assert all((ROOT / each).exists() for each in copied)
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == allowed
    assert not any(re.search(r"(?i)password|token|secret|_key", line) for line in instructions("ENV"))


@pytest.mark.no_home
def test_the_image_begins_by_a_command_that_there_is(cli: CommandLine, tmp_path: Path) -> None:
    [entry], [command] = map(json.loads, instructions("ENTRYPOINT")), map(json.loads, instructions("CMD")[-1:])
    assert entry == "harken" or entry == ["harken"]
    there_is(cli, command)
    are_settings(dockerfile_variables(), tmp_path)
    assert instructions("EXPOSE") == [dockerfile_variables()["HARKEN_SERVE__PORT"]]
    assert f":{instructions('EXPOSE')[0]}/readyz" in DOCKERFILE


def test_the_image_installs_extras_that_there_are() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    [named] = re.findall(r'install "\.\[([\w,]+)\]"', DOCKERFILE)
    assert set(named.split(",")) <= known.keys()


@pytest.mark.no_home
@pytest.mark.parametrize("service", ["migrate", "server", "worker"])
def test_what_compose_runs_there_is(cli: CommandLine, tmp_path: Path, service: str) -> None:
    described = COMPOSE["services"][service]
    there_is(cli, described["command"])
    assert described["read_only"] is True
    assert described["cap_drop"] == ["ALL"]
    variables = {
        name: re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value) for name, value in described.get("environment", {}).items()
    }
    are_settings(variables, tmp_path)


def test_compose_publishes_nothing_but_on_loop_back_and_knows_no_password() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports == ["127.0.0.1:4275:4275"]
    assert "${POSTGRES_PASSWORD:?" in COMPOSE["services"]["database"]["environment"]["POSTGRES_PASSWORD"]
    assert COMPOSE["services"]["server"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}


def test_the_password_that_stands_beside_compose_is_committed_by_nobody() -> None:
    assert "> .env" in (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_where_processors_are_short_the_server_goes_before_the_worker() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    asked = {role: int(values[role]["resources"]["requests"]["cpu"].removesuffix("m")) for role in ("server", "worker")}
    assert 4 * asked["worker"] <= asked["server"]
    assert 4 * COMPOSE["services"]["worker"]["cpu_shares"] <= 1024
    assert "cpu_shares" not in COMPOSE["services"]["server"]


def test_the_chart_tells_how_members_are_added_to_the_team_that_it_serves() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    assert re.findall(r"\S+ harken --store OWNER team init NAME", notes.replace("{{ .Values.team }}", "crew")) == [
        "HARKEN_TENANT=crew harken --store OWNER team init NAME"
    ]


@pytest.mark.parametrize("values", VALUES)
def test_helm_finds_nothing_wrong_with_the_chart(values: dict[str, Any]) -> None:
    chart = pytest.importorskip("helm_python.chart", reason="needs helm-python-sdk")
    report = chart.lint(str(CHART), values, strict=True)
    assert (report["messages"], report["errors"]) == ([], [])


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("version", ["1.27", "1.34"])
def test_what_the_chart_makes_is_what_kubernetes_takes(values: dict[str, Any], version: str) -> None:
    validating = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate")
    resources = rendered(values)
    assert {"Deployment", "Job", "Service", "PodDisruptionBudget"} <= {each["kind"] for each in resources}
    for each in resources:
        validating.validate(each, version, strict=True)


@pytest.mark.no_home
@pytest.mark.parametrize("values", VALUES)
def test_what_the_chart_runs_there_is_and_its_variables_are_settings(
    cli: CommandLine, tmp_path: Path, values: dict[str, Any]
) -> None:
    found = list(containers(rendered(values)))
    for each in found:
        there_is(cli, list(map(str, each["args"])))
        plain = {one["name"]: one["value"] for one in each["env"] if "value" in one}
        are_settings({**plain, "HARKEN_STORE": "postgresql://app@db/harken"}, tmp_path)
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    server = next(each for each in found if each["name"] == "server")
    assert server["ports"][0]["containerPort"] == int(dockerfile_variables()["HARKEN_SERVE__PORT"])
    assert {server[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} == {
        "/healthz",
        "/readyz",
    }


def test_the_chart_holds_no_login_where_a_secret_is_named_and_refuses_to_go_without_one() -> None:
    kinds = [each["kind"] for each in rendered({"store": {"existingSecret": "own"}})]
    assert "Secret" not in kinds
    with pytest.raises(Exception, match="store"):
        rendered({})


def test_no_pod_gets_variables_of_services_whose_names_are_no_settings() -> None:
    pods = [each["spec"]["template"]["spec"] for each in rendered(URLS) if each["kind"] in ("Deployment", "Job")]
    assert [pod["enableServiceLinks"] for pod in pods] == [False] * 3


def test_pods_have_longer_to_end_than_the_server_takes() -> None:
    [server] = [
        each for each in rendered(URLS) if each["kind"] == "Deployment" and "worker" not in each["metadata"]["name"]
    ]
    pod = server["spec"]["template"]["spec"]
    drain = next(one["value"] for one in pod["containers"][0]["env"] if one["name"] == "HARKEN_SERVE__DRAIN_SECONDS")
    assert pod["terminationGracePeriodSeconds"] >= int(drain) + 30
    assert server["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
