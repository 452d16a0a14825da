"""What a configuration says about ZooKeeper's security: kept, or refused by name."""

from __future__ import annotations

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.zookeeper.access import access_of

_TLS = {"zookeeper.connect": "zk:2182", "zookeeper.ssl.client.enable": "true"}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"zookeeper.ssl.truststore.type": "JKS"}, "can only be PEM"),
        ({"zookeeper.ssl.keystore.type": "PKCS12"}, "can only be PEM"),
        ({"zookeeper.ssl.crl.enable": "true"}, "revoked certificates are not looked up"),
        ({"zookeeper.ssl.ocsp.enable": " TRUE"}, "revoked certificates are not looked up"),
        ({"zookeeper.ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "as OpenSSL's are used"),
        ({"zookeeper.ssl.protocol": "TLSv1.1"}, "must have TLSv1.2 or TLSv1.3"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1,TLSv1.1"}, "must have TLSv1.2 or TLSv1.3"),
        ({"zookeeper.set.acl": "true"}, "needs drumlin.zookeeper.digest, or TLS with"),
        ({"zookeeper.metadata.migration.enable": "true"}, "cannot be moved to KRaft"),
    ],
)
def test_what_cannot_be_kept_is_refused(changes: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        BrokerConfig.load(_TLS | changes)
    assert str(refused.value).startswith(next(iter(changes)))
    if "zookeeper.ssl" in next(iter(changes)):  # without TLS it has no effect anyway
        BrokerConfig.load({"zookeeper.connect": "zk:2181", **changes})


@pytest.mark.parametrize(
    ("changes", "is_1_3_alone"),
    [
        ({}, False),
        ({"zookeeper.ssl.protocol": "TLSv1.3"}, True),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.3"}, True),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.3, TLSv1.2"}, False),
        (
            {
                "zookeeper.ssl.protocol": "TLSv1.3",
                "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
            },
            False,
        ),
    ],
)
def test_versions_of_tls(changes: dict[str, str], *, is_1_3_alone: bool) -> None:
    assert access_of(BrokerConfig.load(_TLS | changes)).is_tls_1_3 is is_1_3_alone


@pytest.mark.parametrize(
    "identity",
    [
        {"zookeeper.ssl.keystore.location": "/own.pem"},
        {"drumlin.zookeeper.digest": "drumlin:secret"},
    ],
)
def test_who_has_an_identity_may_close_nodes(identity: dict[str, str]) -> None:
    config = BrokerConfig.load(_TLS | {"zookeeper.set.acl": "true"} | identity)
    assert access_of(config).sets_acl
    if "zookeeper.ssl.keystore.location" in identity:  # which shows no certificate without TLS
        with pytest.raises(ConfigError, match="who may change it otherwise"):
            BrokerConfig.load(
                {"zookeeper.connect": "zk:2181", "zookeeper.set.acl": "true"} | identity
            )
