"""`drumlin cluster up --secure`, on real brokers and a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import drumlin
from cli.conftest import Run
from drumlin.security import read_properties
from rig.brokers.practice_cluster import PracticeCluster, skip_where_there_is_none
from rig.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.deep]

_BROKERS = 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PracticeCluster]:
    skip_where_there_is_none()
    made = PracticeCluster(tmp_path, _BROKERS)
    try:
        yield made
    finally:
        made.close()


def librdkafkas(cluster: PracticeCluster, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((cluster.data / "client.json").read_text())
    return found | {name.replace("_", "."): each for name, each in changes.items()}


def is_let_in(settings: dict[str, Any]) -> bool:
    try:
        return len(AdminClient(settings).list_topics(timeout=3).brokers) == _BROKERS
    except KafkaException:
        return False


def open_nodes(client: KazooClient, path: str = "/") -> Iterator[str]:
    """What a stranger can change, but for ZooKeeper's own; or read, where secrets are."""
    for name in client.get_children(path):
        child = f"{path.rstrip('/')}/{name}"
        if child == "/zookeeper":
            continue
        try:
            acls = client.get_acls(child)[0]
        except NoAuthError:
            continue
        perms = {each.perms for each in acls if each.id.scheme == "world"}
        if perms - {1} or (perms and child.startswith(("/config/users", "/config/brokers"))):
            yield child
        yield from open_nodes(client, child)


def check_zookeeper(cluster: PracticeCluster) -> None:
    """Nobody else changes anything in it, or reads what is secret."""
    client = KazooClient(cluster.record["zookeeper"]["address"])
    client.start()
    try:
        assert "topics" in client.get_children("/brokers"), "others may look"
        with pytest.raises(NoAuthError):
            client.get("/config/users/admin")
        with pytest.raises(NoAuthError):
            client.create("/mine")
        assert [*open_nodes(client)] == []
    finally:
        client.stop()
        client.close()


def wait_for_health(run: Run, cluster: PracticeCluster) -> None:
    def is_healthy() -> bool:
        shown = run("cluster", "status", "--data", str(cluster.data), "--json")
        alive = (
            [each for each in shown.json["brokers"] if each["is_alive"]] if not shown.code else []
        )
        return bool(len(alive) == _BROKERS and shown.json["is_healthy"])

    wait_until(is_healthy, "all replicas to be in sync", 90)


def test_a_cluster_is_secured_killed_and_comes_up_again(run: Run, cluster: PracticeCluster) -> None:
    cluster.start("--secure")
    data, config = cluster.data, str(cluster.data / "client.properties")
    assert f"connect: drumlin topics list --config {config}\n" in cluster.said()
    assert librdkafkas(cluster)["bootstrap.servers"] == cluster.bootstrap
    security = read_properties(config)
    with drumlin.connect(cluster.bootstrap, security=security) as client:
        settings = {"min.insync.replicas": "2"}
        client.create_topic("both", 2, configs=settings, replication_factor=2)
        client.append({"value": ["one", "two"]}, "both")
    assert not is_let_in({"bootstrap.servers": cluster.bootstrap})
    assert not is_let_in(librdkafkas(cluster, sasl_password="guessed"))
    check_zookeeper(cluster)
    secrets = [
        librdkafkas(cluster)["sasl.password"],
        *(
            line.rpartition("password=")[2].strip('";')
            for line in (data / "secured.properties").read_text().splitlines()
            if "jaas" in line
        ),
        (data / "secured.properties").read_text().partition("digest=")[2].split()[0].split(":")[1],
    ]
    seen = cluster.said() + "".join(each.read_text() for each in data.glob("*.log"))
    for pid in cluster.pids():
        process = Path(f"/proc/{pid}")
        both = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        seen += both.decode(errors="replace")
    for secret in secrets:
        assert len(secret) >= 32
        assert secret not in seen
    for path in (data, *data.rglob("*")):
        assert path.is_socket() or path.name == ".lock" or path.stat().st_mode & 0o077 == 0, path

    killed = run("cluster", "kill", "2", "--data", str(data))
    assert (killed.code, killed.out) == (0, "broker 2: killed\n")
    assert run("cluster", "start", "2", "--data", str(data)).code == 0
    wait_for_health(run, cluster)

    # The administrator is removed, for ever; an authority is exchanged, of all brokers.
    password = data.parent / "alice"
    password.touch(0o600)
    password.write_text("secret of alice")
    add = "users", "add", "alice", "--password-file", str(password), "--config", config
    assert run(*add).code == 0
    assert run("users", "remove", "admin", "--yes", "--config", config).code == 0
    alice = {"sasl_username": "alice", "sasl_password": "secret of alice"}
    for step in ("trust", "issue"):
        assert run("certificates", "rotate", step, "--data", str(data)).code == 0
    drop = "certificates", "rotate", "drop", "--data", str(data)
    wait_until(lambda: run(*drop).code == 0, "the brokers to show other certificates", 30)
    assert is_let_in(librdkafkas(cluster, **alice))

    # A cluster that was secured stays so, and has what was there.
    assert cluster.interrupt() == 0
    cluster.start()
    assert not is_let_in({"bootstrap.servers": cluster.bootstrap})
    assert not is_let_in(librdkafkas(cluster)), "the administrator is back"
    assert is_let_in(librdkafkas(cluster, **alice))
    check_zookeeper(cluster)
    assert "ERROR" not in "".join(each.read_text() for each in data.glob("broker-*.log"))


def test_a_cluster_that_was_open_is_closed(run: Run, cluster: PracticeCluster) -> None:
    cluster.start()
    made = run("topics", "create", "kept", "-p", "2", "-b", cluster.bootstrap)
    assert made.code == 0
    assert cluster.interrupt() == 0
    cluster.start("--secure")
    assert not is_let_in({"bootstrap.servers": cluster.bootstrap})
    topics = AdminClient(librdkafkas(cluster)).list_topics(timeout=10).topics
    assert "kept" in topics
    check_zookeeper(cluster)
    wait_for_health(run, cluster)
