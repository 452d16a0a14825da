"""A ZooKeeper that lets nobody in without a certificate, and nodes that only their user changes."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from cluster.conftest import MakeBroker
from drumlin.zookeeper.access import ZooKeeperAccess, access_in
from drumlin.zookeeper.connection import close_client, connect
from drumlin.zookeeper.reconnecting import reconnecting_client
from rig.servers.certificates import KEY_PASSWORD, Certificates
from rig.servers.zookeeper import ZooKeeper, running_zookeeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ZooKeeper]:
    with running_zookeeper(tmp_path_factory.mktemp("guarded"), certificates) as server:
        yield server


def settings_for(server: ZooKeeper, certificates: Certificates, **more: str) -> dict[str, str]:
    return {
        "zookeeper.connect": f"localhost:{server.secure_port}/guarded",
        "zookeeper.connection.timeout.ms": "60000",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": certificates.path("ca.crt"),
        "zookeeper.ssl.keystore.location": certificates.path("client.pem"),
        **{key.replace("_", "."): value for key, value in more.items()},
    }


@pytest.mark.deep
def test_a_broker_with_a_certificate_and_a_name(
    make_broker: MakeBroker, guarded: ZooKeeper, certificates: Certificates
) -> None:
    settings = settings_for(
        guarded, certificates, drumlin_zookeeper_digest="drumlin:secret", zookeeper_set_acl="true"
    )
    broker = make_broker(settings)
    stranger = KazooClient(guarded.address)
    stranger.start()
    stranger.create("/guarded/config/users/old", b"{}", makepath=True)  # without zookeeper.set.acl
    broker.start()
    stranger.chroot = "/guarded"
    assert "cannot any more: /config/users, /config/users/old\n" in broker.said()
    with broker.connect() as client:
        topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        answer = client.ask("create_topics", 7, timeout=9000, topics=topics)
        assert answer.topics[0].error_code == 0
        user = {"name": "alice", "mechanism": 1, "iterations": 4096}
        upsertions = [{**user, "salt": b"salt", "salted_password": b"salted"}]
        done = client.ask("alter_user_scram_credentials", 0, upsertions=upsertions)
        assert done.results[0].error_code == 0
    try:
        assert stranger.get("/brokers/topics/t")[0]  # everyone may read
        for path in ("/brokers/topics/t", "/controller_epoch", "/config/topics/t"):
            with pytest.raises(NoAuthError):
                stranger.set(path, b"{}")
        with pytest.raises(NoAuthError):
            stranger.create("/admin/delete_topics/t")
        for path in ("/config/users", "/config/users/alice", "/config/users/old"):  # but no secret
            with pytest.raises(NoAuthError):
                stranger.get(path)
            with pytest.raises(NoAuthError):
                stranger.get_children(path)
    finally:
        close_client(stranger)
    assert broker.terminate() == 0
    broker.start()  # and comes back to what is its own


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "what", "said"),
    [
        ("zookeeper.ssl.keystore.location", "foreign.pem", "no ZooKeeper answers"),
        ("zookeeper.ssl.keystore.location", "missing.pem", "cannot be used"),
        ("zookeeper.ssl.truststore.location", "stranger.crt", "no ZooKeeper answers"),
        ("zookeeper.ssl.truststore.location", "client.key", "cannot be used"),
    ],
)
def test_what_is_wrong_is_told(
    make_broker: MakeBroker,
    guarded: ZooKeeper,
    certificates: Certificates,
    name: str,
    what: str,
    said: str,
) -> None:
    settings = settings_for(guarded, certificates) | {name: certificates.path(what)}
    broker = make_broker(settings | {"zookeeper.connection.timeout.ms": "3000"})
    with pytest.raises(AssertionError):
        broker.start()
    assert said in broker.said()


def test_tools_read_the_same_keys_from_a_file(
    guarded: ZooKeeper, certificates: Certificates
) -> None:
    properties = settings_for(guarded, certificates)
    properties["zookeeper.ssl.endpoint.identification.algorithm"] = ""
    properties["drumlin.zookeeper.digest"] = "drumlin:secret"
    client = connect(
        f"127.0.0.1:{guarded.secure_port}",
        session_timeout_ms=60_000,
        connection_timeout_ms=60_000,
        access=access_in(properties),
    )
    try:
        assert client.exists("/")
    finally:
        close_client(client)


def test_a_locked_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_text(certificates.text("client.crt") + certificates.text("client-locked.key"))
    properties = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": certificates.path("ca.crt"),
        "zookeeper.ssl.keystore.location": str(both),
    }
    with pytest.raises(Exception, match="cannot be used"):
        access_in(properties).options()
    properties["zookeeper.ssl.keystore.password"] = KEY_PASSWORD
    assert access_in(properties).options()["use_ssl"]


@pytest.mark.parametrize("is_tls_1_3", [True, False])
def test_tls_1_3_alone_is_kept(certificates: Certificates, *, is_tls_1_3: bool) -> None:
    """Of a server that has no more than TLS 1.2."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.path("server.pem"))
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    access = ZooKeeperAccess(trusted=certificates.path("ca.crt"), is_tls_1_3=is_tls_1_3)
    client = reconnecting_client(access.context, hosts="localhost:1")
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        listening.settimeout(10)

        def serve() -> str | None:
            accepted, _ = listening.accept()
            with accepted, server.wrap_socket(accepted, server_side=True) as channel:
                return channel.version()

        served = pool.submit(serve)
        address = listening.getsockname()
        if is_tls_1_3:
            with pytest.raises(ssl.SSLError):
                client.handler.create_connection(address, "localhost", use_ssl=True, timeout=10)
            assert isinstance(served.exception(10), ssl.SSLError)
        else:
            client.handler.create_connection(address, "localhost", use_ssl=True, timeout=10).close()
            assert served.result(10) == "TLSv1.2"
