"""`drumlin server --secure`: what its first start makes, and what later ones do with it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

import drumlin
from drumlin.config.config_error import ConfigError
from drumlin.securing.authority import Authority, read_certificate
from drumlin.securing.secured_server import secured_server
from drumlin.security import read_properties
from rig.brokers.secure_server import SecureServer
from rig.ports import free_ports
from rig.waiting import wait_until
from securing.conftest import Run

FILES = {"authority.pem", "broker.pem", "ca.pem", "client.json", "client.properties", "kcat.conf"}


def test_all_are_let_in_who_have_the_files(server: SecureServer) -> None:
    security = read_properties(server.client_properties)
    with drumlin.connect(server.address, security=security) as client:
        client.create_topic("seen")
    assert "seen" in AdminClient(server.librdkafkas()).list_topics(timeout=10).topics
    settings = (line.partition("=") for line in (server.data / "kcat.conf").read_text().split())
    kcats = AdminClient({key: text for key, _, text in settings})
    assert "seen" in kcats.list_topics(timeout=10).topics


@pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat")
def test_the_line_that_is_printed_connects(server: SecureServer) -> None:
    lines = [line.split(":", 1)[1].split() for line in server.said().splitlines()[1:3]]
    assert lines[0][:3] == ["drumlin", "topics", "list"]
    # As old as it may be: its library may repeat its part of SCRAM's nonce.
    done = subprocess.run(lines[1], capture_output=True, text=True, timeout=30)
    assert "1 brokers" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sasl_password": "guessed"}, "invalid credentials"),
        ({"security_protocol": "PLAINTEXT"}, ""),
        ({"security_protocol": "SSL"}, ""),
        ({"ssl_ca_pem": Authority.make("another").certificate_pem()}, "certificate"),
    ],
)
def test_nobody_else_is(server: SecureServer, changes: dict[str, str], why: str) -> None:
    said: list[str] = []
    settings = server.librdkafkas(**changes)
    if settings["security.protocol"] != "SASL_SSL":
        settings = {name: each for name, each in settings.items() if not name.startswith("sasl.")}
    client = AdminClient(settings | {"error_cb": lambda error: said.append(str(error))})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)

    def is_told() -> bool:
        client.poll(0.1)
        return any(why in each for each in said)

    wait_until(is_told, f"{why!r} among {said}", 20)


def test_secrets_are_in_no_file_that_others_read_and_nowhere_else(server: SecureServer) -> None:
    assert {each.name for each in server.data.iterdir()} >= FILES
    for path in (server.data, *server.data.rglob("*")):
        assert path.is_socket() or path.stat().st_mode & 0o077 == 0, path
    password = json.loads((server.data / "client.json").read_text())["sasl.password"]
    assert len(password) >= 32
    process = Path(f"/proc/{server.pid}")
    seen = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    for said in (server.said().encode(), seen):
        assert password.encode() not in said
        assert b"PRIVATE KEY" not in said


def test_users_before_the_first_start_and_later_ones(tmp_path: Path, run: Run) -> None:
    server = SecureServer(tmp_path)
    offline = "--data", server.data
    for command in (["list"], ["passwd", "early"], ["remove", "early", "--yes"]):
        refused = run("users", *command, *offline, typed="bird")
        assert refused.code == 1
        assert f"{server.data} has no drumlin-metadata.sqlite: no broker has run" in refused.err
        assert not server.data.exists()
    assert run("users", "add", "early", *offline, typed="bird").code == 0
    assert run("users", "list", *offline).out == "early\tSCRAM-SHA-256,SCRAM-SHA-512\n"
    assert run("users", "passwd", "early", *offline, typed="worm").code == 0
    try:
        server.start()
        before = {name: (server.data / name).read_bytes() for name in FILES}
        early = server.librdkafkas(sasl_username="early", sasl_password="worm")
        assert AdminClient(early).list_topics(timeout=10).brokers
        server.stop()
        assert run("users", "passwd", "admin", *offline, typed="lost and found").code == 0
        # Elsewhere: the files follow, the user stays.
        (server.port,) = free_ports(1)
        removed = "users", "remove", "admin", "--yes", *offline
        server.start()
        after = {name: (server.data / name).read_bytes() for name in FILES}
        same = "authority.pem", "broker.pem", "ca.pem"
        assert all(after[name] == before[name] for name in same)
        assert AdminClient(server.librdkafkas()).list_topics(timeout=10).brokers
        assert run(*removed).code == 1, "a broker runs there"
        server.stop()
        assert run(*removed).out == "admin: removed\n"
        server.start()
        with pytest.raises(KafkaException):
            AdminClient(server.librdkafkas()).list_topics(timeout=2)
        server.check_output()
    finally:
        server.close()


def test_no_users_are_made_beside_data_without_metadata(data: Path, run: Run) -> None:
    """It may be another one of the broker's log dirs, or Kafka's."""
    data.mkdir()
    (data / "meta.properties").write_text("version=1\ncluster.id=abcdefghijklmnopqrstuv\n")
    refused = run("users", "add", "alice", "--data", data, typed="secret")
    assert refused.code == 1
    assert "has a broker's meta.properties, but no drumlin-metadata.sqlite" in refused.err
    assert [each.name for each in data.iterdir()] == ["meta.properties"]


def test_a_start_that_was_cut_short_is_completed(data: Path) -> None:
    # What makes the certificate is there, and the administrator's password, but not yet the user.
    given = {"log.dirs": str(data), "listeners": "SASL_SSL://127.0.0.1:9092"}
    umask = os.umask(0o077)
    try:
        secured_server(given, 1)
        password = (data / "client.properties").read_bytes()
        for each in data.glob("drumlin-metadata*"):
            each.unlink()
        for name in ("broker.pem", "ca.pem", "client.json"):
            (data / name).unlink()
        authority = (data / "authority.pem").read_bytes()
        secured_server(given, 1)
        assert (data / "authority.pem").read_bytes() == authority
        assert (data / "client.properties").read_bytes() == password
        # A new name of the machine is in the certificate before a client looks for it.
        moved = given | {"advertised.listeners": "SASL_SSL://new.example:9092"}
        secured_server(moved, 1)
        assert "new.example" in read_certificate((data / "broker.pem").read_text()).hosts
        assert b"new.example:9092" in (data / "client.properties").read_bytes()
    finally:
        os.umask(umask)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"listeners": "PLAINTEXT://:9092"}, "must be SASL_SSL://HOST:PORT with --secure"),
        ({"listeners": "SASL_SSL://127.0.0.1:0"}, "needs a port with --secure"),
        (
            {"zookeeper.connect": "127.0.0.1:1"},
            "which secures one machine and no cluster with ZooKeeper",
        ),
        ({"ssl.keystore.location": "/k.pem"}, "must not be set with --secure"),
        ({"authorizer.class.name": "a.B"}, "must not be set with --secure"),
    ],
)
def test_what_contradicts_it_is_refused(data: Path, given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        secured_server({"log.dirs": str(data), **given}, 1)
    assert not data.exists()


def test_a_directory_that_others_can_write_is_refused(data: Path) -> None:
    data.mkdir()
    data.chmod(0o777)
    umask = os.umask(0o077)
    try:
        with pytest.raises(ConfigError, match="can be written by others"):
            secured_server({"log.dirs": str(data)}, 1)
    finally:
        os.umask(umask)
    assert not [*data.iterdir()]


@pytest.mark.deep
def test_several_brokers_know_each_other(tmp_path: Path) -> None:
    class Several(SecureServer):
        def command(self) -> list[str]:
            return [*super().command(), "--brokers", "2"]

    server = Several(tmp_path)
    server.port = free_ports(2)[0]
    try:
        server.start()
        security = read_properties(server.client_properties)
        with drumlin.connect(server.address, security=security) as client:
            client.create_topic(
                "both", 2, configs={"min.insync.replicas": "2"}, replication_factor=2
            )
            client.append({"value": ["one", "two"]}, "both")
        server.check_output()
    finally:
        server.close()
