"""The pods of the example for Kubernetes, as processes: secured, replicated, and one is killed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from deploy.manifests import ROOT
from deploy.pods import COUNT, BrokerPod, Place, ZooKeeperPod, environment_of_commands
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.zookeeper, pytest.mark.timeout(900)]

_DOCUMENT = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
_NAMES = [f"drumlin-{n}.drumlin.drumlin.svc.cluster.local" for n in range(COUNT)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """With certificates made as the document says."""
    tls = tmp_path / "tls"
    tls.mkdir()
    lines = re.findall(r"^\$ ((?:openssl (?:req|x509)|cat broker).*)$", _DOCUMENT, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        here = line.replace("subjectAltName=", "subjectAltName=IP:127.0.0.1,")
        subprocess.run(here, shell=True, check=True, cwd=tls, capture_output=True)
    for name in [*_NAMES, "drumlin-bootstrap.drumlin.svc.cluster.local"]:
        judge = ["openssl", "verify", "-CAfile", "ca.pem", "-verify_hostname", name, "broker.crt"]
        subprocess.run(judge, check=True, cwd=tls, capture_output=True)
    return Place(tmp_path)


@pytest.fixture
def brokers(place: Place) -> Iterator[list[BrokerPod]]:
    """All started at once, as the StatefulSets do."""
    with ExitStack() as ends, skipped_where_unavailable():
        members = [ZooKeeperPod(place, number) for number in range(COUNT)]
        found = [BrokerPod(place, number) for number in range(COUNT)]
        for each in [*members, *found]:
            ends.enter_context(closing(each))
            each.start()
        for broker in found:
            broker.await_ready()
        yield found
        for broker in found:
            assert "Traceback" not in broker.said()


def drumlin(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drumlin", *arguments],
        input=given,
        capture_output=True,
        text=True,
        env=environment_of_commands(),
        timeout=120,
    )


def test_three_pods(place: Place, brokers: list[BrokerPod]) -> None:
    (added,) = re.findall(r"drumlin-0 -- drumlin (users add .*) --config", _DOCUMENT)
    inside = ("--config", str(brokers[0].login))
    done = drumlin(*added.split(), *inside, given="her-password\n")
    assert done.returncode == 0, done.stderr
    (shown,) = re.findall(r"^```properties\n(.*?)^```", _DOCUMENT, re.MULTILINE | re.DOTALL)
    client = place.folder / "client.properties"
    said = place.here(shown, 0).replace("ca.pem", str(place.folder / "tls" / "ca.pem"))
    client.write_text(said.replace('password="..."', 'password="her-password"'))
    outside = ("--config", str(client))

    assert drumlin("topics", "create", "orders", "-p", "6", *outside).returncode == 0
    lines = "".join(f"order {number}\n" for number in range(100))
    done = drumlin("produce", "orders", *outside, given=lines)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: is_healthy(inside), "all replicas to be in sync", 120)

    brokers[1].kill()
    done = drumlin("produce", "orders", *outside, given=lines.replace("order", "later order"))
    assert done.returncode == 0, done.stderr
    read = drumlin("consume", "orders", "-n", "200", *outside)
    assert sorted(read.stdout.split("\n")[:-1]) == sorted(
        f"{label} {number}" for label in ("order", "later order") for number in range(100)
    )
    brokers[1].start()
    brokers[1].await_ready()
    wait_until(lambda: is_healthy(inside), "all replicas to be in sync", 120)

    client.write_text(said.replace('password="..."', 'password="wrong"'))
    assert drumlin("topics", "list", *outside).returncode == 1
    (address,) = re.findall("^bootstrap.servers=(.*)$", said, re.MULTILINE)
    assert drumlin("topics", "list", "--bootstrap", address).returncode == 1
    for broker in brokers:
        assert broker.terminate() == 0


def is_healthy(inside: tuple[str, str]) -> bool:
    said = drumlin("cluster", "status", "--json", *inside).stdout
    return '"is_healthy": true' in said
