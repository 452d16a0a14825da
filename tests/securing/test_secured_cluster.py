"""What `drumlin cluster up --secure` makes before any process runs, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumlin.config.config_error import ConfigError
from drumlin.config.properties import decode_properties
from drumlin.securing.authority import Authority, read_certificate
from drumlin.securing.secured_cluster import PlacedBroker, SecuredCluster, is_secured


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    umask = os.umask(0o022)
    yield
    os.umask(umask)


def placed(folder: Path, count: int) -> list[PlacedBroker]:
    return [
        PlacedBroker(folder / f"broker-{each}", f"127.0.0.1:{9091 + each}")
        for each in range(1, count + 1)
    ]


def settings(folder: Path) -> dict[str, str]:
    return decode_properties((folder / "secured.properties").read_bytes())


def test_each_broker_has_a_certificate_of_one_authority(data: Path) -> None:
    assert not is_secured(data)
    first = SecuredCluster.prepare(data, placed(data, 2), {"super.users": "User:root"})
    assert is_secured(data)
    authority = Authority.of_pem((data / "authority.pem").read_text())
    pems = {each.certificate.read_text() for each in placed(data, 2)}
    assert len(pems) == 2
    for pem in pems:
        assert authority.has_issued(pem)
        assert read_certificate(pem).covers(["127.0.0.1", "localhost"])
    before = settings(data)
    of_broker = first.of_broker(placed(data, 2)[1], {"super.users": "User:root", "a": "b"})
    assert of_broker == {
        "a": "b",
        "listeners": "SASL_SSL://127.0.0.1:9093",
        "super.users": "User:root;User:admin;User:drumlin-brokers",
        "ssl.keystore.location": str(data / "broker-2" / "broker.pem"),
    }
    # A later start has a broker more, and another password of the brokers.
    SecuredCluster.prepare(data, placed(data, 3), {})
    assert Authority.of_pem((data / "authority.pem").read_text()).pem() == authority.pem()
    assert {each.certificate.read_text() for each in placed(data, 2)} == pems
    assert authority.has_issued(placed(data, 3)[2].certificate.read_text())
    after = settings(data)
    changed = {key for key in before if before[key] != after[key]}
    login = "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"
    assert changed == {login}
    for path in (data, *data.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    "key",
    [
        "authorizer.class.name",
        "listener.security.protocol.map",
        "ssl.keystore.location",
        "zookeeper.set.acl",
        "drumlin.zookeeper.digest",
    ],
)
def test_what_contradicts_it_is_refused(
    data: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="must not be set for a secured cluster") as refused:
        SecuredCluster.prepare(data, placed(data, 1), {key: "x:hidden"})
    assert str(refused.value).startswith(key)
    assert ("hidden" in str(refused.value)) is (key != "drumlin.zookeeper.digest")
    monkeypatch.setenv(f"DRUMLIN_{key.removeprefix('drumlin.')}".replace(".", "_").upper(), "x:y")
    with pytest.raises(ConfigError, match="must not be set for a secured cluster"):
        SecuredCluster.prepare(data, placed(data, 1), {})
    assert not data.exists()


def test_super_users_of_the_environment_are_some_more(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRUMLIN_SUPER_USERS", "User:ops")
    (broker,) = placed(data, 1)
    of_broker = SecuredCluster.prepare(data, [broker], {}).of_broker(broker, {})
    assert of_broker["super.users"] == "User:ops;User:admin;User:drumlin-brokers"


def test_an_administrators_files_follow_and_are_not_made_twice(data: Path) -> None:
    prepared = SecuredCluster.prepare(data, placed(data, 1), {})
    assert prepared.how_to_connect() == ""
    assert not (data / "client.properties").exists()  # before ZooKeeper says that there is none
    password = prepared.administrators_password()
    assert prepared.administrators_password().reveal() == password.reveal()
    assert prepared.how_to_connect().startswith("connect: drumlin topics list --config ")
    SecuredCluster.prepare(data, placed(data, 2), {})
    found = json.loads((data / "client.json").read_text())
    assert found["bootstrap.servers"] == "127.0.0.1:9092,127.0.0.1:9093"
    assert found["sasl.password"] == password.reveal()
