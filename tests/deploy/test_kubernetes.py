"""The example for Kubernetes: it names nothing that is not there, here or in Kubernetes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from deploy.manifests import (
    FOLDER,
    ROOT,
    SECRETS,
    container,
    properties,
    resource,
    resources,
    variables,
)
from drumlin.cli.app import app
from drumlin.config.broker import BrokerConfig
from drumlin.config.sources import read_environment
from drumlin.security import read_properties

_DIGEST = {"drumlin-zookeeper": {"digest": "brokers:secret"}}


@pytest.mark.parametrize("number", range(3))
def test_a_broker_understands_what_its_pod_is_told(number: int, tmp_path: Path) -> None:
    root = click.Context(app, info_name="drumlin")
    name, *arguments = container("drumlin")["args"]
    command = app.get_command(root, name)
    assert command is not None
    given = command.make_context(name, arguments, parent=root).params["arguments"]
    assert given == ("/etc/drumlin/config/server.properties",)
    environment = variables("drumlin", number, _DIGEST)
    del environment["POD_NAME"]
    told, unknown = read_environment(environment)
    assert not unknown
    config = BrokerConfig.load(properties("server.properties") | told)
    assert config.node_id == number
    assert all(
        f"://drumlin-{number}.drumlin." in each
        for each in environment["DRUMLIN_ADVERTISED_LISTENERS"].split(",")
    )
    assert list(config.log_dirs) == ["/data/logs"]


def test_what_is_mentioned_is_there() -> None:
    pod = resource("StatefulSet", "drumlin")["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert set(SECRETS) == {
        volumes["tls"]["secret"]["secretName"],
        *(
            each["valueFrom"]["secretKeyRef"]["name"]
            for each in container("drumlin")["env"]
            if "secretKeyRef" in each.get("valueFrom", {})
        ),
    }
    document = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    for secret, keys in SECRETS.items():
        (made,) = re.findall(rf"create secret generic {secret} .*", document)
        assert set(re.findall(r"--from-(?:file|literal)=([\w.]+)", made)) == keys
    mounts = {each["mountPath"]: each["name"] for each in container("drumlin")["volumeMounts"]}
    for file in ("server.properties", "brokers.properties"):
        paths = re.findall(r"/etc/drumlin/\S+", (FOLDER / file).read_text("utf-8"))
        assert {str(Path(each).parent) for each in paths} <= set(mounts)
    assert mounts["/data"] == "data"
    generated = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
    made_of = {each["name"]: each["files"] for each in generated["configMapGenerator"]}
    assert made_of[volumes["config"]["configMap"]["name"]] == [
        "server.properties",
        "brokers.properties",
    ]


@pytest.mark.parametrize("name", ["drumlin", "zookeeper"])
def test_ports_and_labels_fit(name: str) -> None:
    ports = {each["name"]: each["containerPort"] for each in container(name)["ports"]}
    served = {each["name"]: each["port"] for each in resource("Service", name)["spec"]["ports"]}
    assert served == ports
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        how = container(name).get(probe, {})
        for way in ("httpGet", "tcpSocket"):
            assert how.get(way, {"port": "clients"})["port"] in ports
    labels = {"app.kubernetes.io/name": name}
    stateful = resource("StatefulSet", name)["spec"]
    assert stateful["selector"]["matchLabels"] == labels
    assert stateful["template"]["metadata"]["labels"] == labels
    assert resource("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
    assert resource("NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"] == labels


def test_a_broker_listens_where_its_ports_are() -> None:
    ports = {each["name"]: each["containerPort"] for each in container("drumlin")["ports"]}
    told = properties("server.properties")
    listening = dict(re.findall(r"(\w+)://:(\d+)", told["listeners"]))
    assert {name.lower(): int(port) for name, port in listening.items()} == {
        name: port for name, port in ports.items() if name != "metrics"
    }
    assert told["drumlin.metrics.listener"] == f"0.0.0.0:{ports['metrics']}"


def test_clients_of_the_document_are_understood(tmp_path: Path) -> None:
    document = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    (shown,) = re.findall(r"^```properties\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    (tmp_path / "client.properties").write_text(shown)
    assert read_properties(tmp_path / "client.properties")["sasl.mechanism"] == "SCRAM-SHA-512"
    assert read_properties(FOLDER / "brokers.properties")["security.protocol"] == "SSL"


@pytest.mark.deep
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["1.28", "1.37"])
def test_kubernetes_understands_it(tmp_path: Path, version: str) -> None:
    """By its own schemas, strictly: a field that it does not know is an error."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv" / "bin"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, "--quiet", "kubernetes-validate>=1.37"], check=True)
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(resources()))
    judge = [str(programs / "kubernetes-validate"), "--strict", "-k", version, str(file)]
    judged = subprocess.run(judge, capture_output=True, text=True)
    assert judged.returncode == 0, judged.stderr
    assert judged.stderr.count(" passed ") + judged.stdout.count(" passed ") == len(resources())


def pods() -> list[dict[str, Any]]:
    found = [each for each in resources() if each["kind"] == "StatefulSet"]
    return [each["spec"]["template"]["spec"] for each in found]


@pytest.mark.parametrize("pod", pods())
def test_pods_are_restricted(pod: dict[str, Any]) -> None:
    """As the namespace demands."""
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (only,) = pod["containers"]
    rights = only["securityContext"]
    assert not rights["allowPrivilegeEscalation"]
    assert rights["readOnlyRootFilesystem"]
    assert rights["capabilities"] == {"drop": ["ALL"]}
