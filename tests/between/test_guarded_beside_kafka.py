"""A ZooKeeper that asks for certificates, with `zookeeper.set.acl`: a real Apache Kafka 3.9 and a
Drumlin take turns, with one certificate, and give nodes the same rights.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from rig.brokers.secured_brokers import SecuredMember
from rig.data.raw import RawClient
from rig.ports import free_ports
from rig.servers.certificates import Certificates
from rig.servers.running import running
from rig.servers.zookeeper import running_zookeeper
from rig.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = [pytest.mark.zookeeper, pytest.mark.kafka, pytest.mark.slow, pytest.mark.deep]

_SECRETS = ("/config/users", "/config/brokers", "/delegation_token/tokens")


def _settings(port: int, certificates: Certificates) -> dict[str, str]:
    listed = f"PLAINTEXT://127.0.0.1:{port}"
    return {
        "listeners": listed,
        "advertised.listeners": listed,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "the same for all",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.set.acl": "true",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.protocol": "TLSv1.3",  # ZooKeeper 3.9 takes no other by default
        "zookeeper.ssl.truststore.location": certificates.path("ca.crt"),
        "zookeeper.ssl.truststore.type": "PEM",
        "zookeeper.ssl.keystore.location": certificates.path("client.pem"),
        "zookeeper.ssl.keystore.type": "PEM",
    }


def _make(port: int, name: str) -> None:
    """A topic, an ACL and a user with this name."""
    with RawClient(port) as admin:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
        answer = admin.ask("create_topics", 7, timeout=30_000, topics=topics)
        assert answer.topics[0].error_code == 0
        user = {"name": name, "mechanism": 1, "iterations": 4096}
        upsertions = [{**user, "salt": b"salt", "salted_password": b"salted"}]
        done = admin.ask("alter_user_scram_credentials", 0, upsertions=upsertions)
        assert done.results[0].error_code == 0
        acl = {
            "resource_type": 2,
            "resource_pattern_type": 3,
            "resource_name": name,
            "principal": f"User:{name}",
            "host": "*",
            "operation": 3,
            "permission_type": 3,
        }
        assert admin.ask("create_acls", 3, creations=[acl]).results[0].error_code == 0


def _nodes_of(name: str) -> tuple[str, ...]:
    state = f"/brokers/topics/{name}/partitions/0/state"
    return (state, f"/config/topics/{name}", f"/kafka-acl/Topic/{name}", f"/config/users/{name}")


def test_rights_of_nodes_are_kafkas(tmp_path: Path, certificates: Certificates) -> None:
    with running_zookeeper(tmp_path, certificates) as server:
        chroot = f"localhost:{server.secure_port}/kafka"
        ports = free_ports(2)
        folder = tmp_path / "kafka"
        folder.mkdir()
        kafka = ZooKeeperKafka(folder, chroot, _settings(ports[0], certificates))
        kafka.port = ports[0]
        with running(kafka):
            _make(ports[0], "theirs")
            kafka.terminate(60)
        drumlin = SecuredMember(tmp_path / "drumlin", 2, chroot, _settings(ports[1], certificates))
        drumlin.start()
        stranger = KazooClient(f"{server.address}/kafka")
        stranger.start()
        owner = KazooClient(
            chroot,
            use_ssl=True,
            ca=certificates.path("ca.crt"),
            certfile=certificates.path("client.pem"),
            keyfile=certificates.path("client.pem"),
        )
        owner.start()
        try:
            assert "cannot any more" not in drumlin.said(), "Kafka's nodes are as they should be"
            _make(drumlin.port, "ours")
            for theirs, ours in zip(_nodes_of("theirs"), _nodes_of("ours"), strict=True):
                assert owner.get_acls(theirs)[0] == owner.get_acls(ours)[0], ours
                with pytest.raises(NoAuthError):
                    stranger.set(ours, b"{}")
            for path in _SECRETS:
                with pytest.raises(NoAuthError):
                    stranger.get_children(path)
            drumlin.stop()
        finally:
            for each in (owner, stranger):
                each.stop()
                each.close()
            drumlin.close()
        drumlin.check_output()
        with running(kafka):
            _make(ports[0], "again")
