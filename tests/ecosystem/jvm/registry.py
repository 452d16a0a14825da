"""Apicurio's schema registry, which keeps all it knows in topics; with clients that use it."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.ports import free_ports
from rig.servers.apache_kafka import JVM
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_VERSION = "3.0.9"
_WAIT_S = 600.0
_SUBJECTS = 100
_JSON = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
_INCOMPATIBLE = 409


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


_ID = {"name": "id", "type": "long"}
_NOTE = {"name": "note", "type": "string", "default": "none"}
_PRICE = {"name": "price", "type": "double"}  # without a default: no reader of old ones knows it


class Registry(BrokerProcess):
    """One node; what it knows is in the topics of a cluster, and nowhere else."""

    def __init__(self, program: Path, address: str, folder: Path) -> None:
        super().__init__(folder / "registry.out")
        self._program, self._folder = program, folder
        port = free_ports(1)[0]
        self._root = f"http://127.0.0.1:{port}"
        #: As Confluent's clients know it.
        self.url = f"{self._root}/apis/ccompat/v7"
        self.environment = {
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": address,
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(port),
        }

    def start(self) -> None:
        self.launch([java(), *JVM, "-jar", str(self._program)], self._folder)
        wait_until(self._is_ready, "the registry", _WAIT_S)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The status, and what it answers."""
        told = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", told, _JSON, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as said:
                return said.status, json.loads(said.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def register(self, subject: str, schema: dict[str, Any]) -> tuple[int, Any]:
        body = {"schema": json.dumps(schema)}
        return self.ask("POST", f"/subjects/{subject}/versions", body)

    def known(self) -> dict[str, list[tuple[int, int]]]:
        """Of each subject its versions, with the ids of their schemas."""
        found = {}
        for subject in self.ask("GET", "/subjects")[1]:
            path = f"/subjects/{subject}/versions"
            each = (self.ask("GET", f"{path}/{number}")[1] for number in self.ask("GET", path)[1])
            found[subject] = [(version["version"], version["id"]) for version in each]
        return found

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        try:
            with urllib.request.urlopen(f"{self._root}/health/ready", timeout=10) as said:
                return bool(said.status == 200)
        except OSError:
            return False


@pytest.fixture
def registry(drumlin: DrumlinServer, tmp_path: Path) -> Iterator[Registry]:
    with skipped_where_unavailable():
        (archive,) = Path(jar_folder("apicurio-jars")).glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "registry", filter="data")
    (program,) = (tmp_path / "registry").glob("*-runner.jar")
    made = Registry(program, drumlin.address, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.program(
    "Apicurio Registry", _VERSION, "schemas kept in topics, used by `drumlin`; killed"
)
def test_apicurio(drumlin: DrumlinServer, registry: Registry, tmp_path: Path) -> None:
    subject = "priced-value"
    assert registry.register(subject, record(_ID))[0] == 200
    assert registry.ask("PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})[0] == 200
    assert registry.register(subject, record(_ID, _PRICE))[0] == _INCOMPATIBLE
    assert registry.register(subject, record(_ID, _NOTE))[0] == 200
    for number in range(_SUBJECTS):
        field = {"name": f"field{number}", "type": "long"}
        assert registry.register(f"many{number}-value", record(field))[0] == 200
    for number in range(0, _SUBJECTS, 10):
        assert registry.ask("DELETE", f"/subjects/many{number}-value")[0] == 200

    def drumlin_cli(*arguments: str, lines: str = "") -> str:
        command = [sys.executable, "-m", "drumlin", *arguments, "--bootstrap", drumlin.address]
        done = subprocess.run(
            command, input=lines, capture_output=True, text=True, timeout=_WAIT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    orders = [{"id": number, "note": f"note {number}"} for number in range(200)]
    drumlin_cli("topics", "create", "priced")
    told = ["priced", "--registry", registry.url]
    lines = "".join(f"{json.dumps(each)}\n" for each in orders)
    drumlin_cli("produce", *told, "--value-schema", subject, lines=lines)

    def consumed() -> list[Any]:
        return [json.loads(line) for line in drumlin_cli("consume", *told).splitlines()]

    assert sorted(consumed(), key=lambda order: order["id"]) == orders
    before = registry.known()
    assert len(before) == 1 + _SUBJECTS * 9 // 10
    assert [version for version, _ in before[subject]] == [1, 2]
    registry.kill()
    registry.start()
    assert registry.known() == before
    assert registry.register(subject, record(_ID, _PRICE))[0] == _INCOMPATIBLE
    assert registry.register(subject, record(_ID))[1] == {"id": before[subject][0][1]}
    assert sorted(consumed(), key=lambda order: order["id"]) == orders
