"""Listeners for each way to be secured, with users and rights: of an Apache Kafka or a Drumlin.

The users of PLAIN are alice, and bob, who has no rights. Of the topics "open" may be read by all,
"locked" may be seen by alice and read by no user, and "hidden" may not even be seen; alice may be a
member of the group "readers". The plain listener is the administrator's: no one else uses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pyarrow as pa

import drumlin
from rig.data.raw import RawClient
from rig.servers.certificates import Certificates
from rig.servers.token_signer import TokenSigner

PASSWORD = 'al\\ice\'s "secret"'
SCRAM_PASSWORD = "scrambled;secret"
SESSION_MS = 3000
_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"

#: Kafka's names of listeners: security protocol, certificate, other settings.
LISTENERS: dict[str, tuple[str, str, dict[str, str]]] = {
    "tls": ("SSL", "server", {}),
    "mutual": ("SSL", "server", {"ssl.client.auth": "required"}),
    "expired": ("SSL", "expired", {}),
    "elsewhere": ("SSL", "elsewhere", {}),
    "login": ("SASL_PLAINTEXT", "", {"sasl.enabled.mechanisms": _MECHANISMS}),
    "tlslogin": ("SASL_SSL", "server", {"sasl.enabled.mechanisms": _MECHANISMS}),
    "scramonly": ("SASL_PLAINTEXT", "", {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}),
    "short": (
        "SASL_PLAINTEXT",
        "",
        {"sasl.enabled.mechanisms": _MECHANISMS, "connections.max.reauth.ms": str(SESSION_MS)},
    ),
    "signed": ("SASL_PLAINTEXT", "", {"sasl.enabled.mechanisms": "OAUTHBEARER"}),
}
#: What the listener "signed" asks of a token beside the signature of `SecuredKafka.signer`.
AUDIENCE, ISSUER = "kafka", "https://login.example"
TOPICS = ("open", "locked", "hidden")
_MODULES = "org.apache.kafka.common.security"
_ALLOW, _LITERAL = 3, 3
_TOPIC, _GROUP = 2, 3
_READ, _WRITE, _DESCRIBE = 3, 4, 8


class Secured(Protocol):
    """A server with all of these listeners; `addresses` has the address of each."""

    port: int
    addresses: dict[str, str]
    signer: TokenSigner


def listener_settings(certificates: Certificates, keys: Path) -> dict[str, str]:
    """The settings of a broker for these listeners; `keys`: of those who sign tokens."""
    settings: dict[str, str] = {}
    for name, (protocol, certificate, others) in LISTENERS.items():
        start = f"listener.name.{name}."
        more = dict(others)
        if "SSL" in protocol:
            more |= _tls_settings(certificates, certificate)
        if "SASL" in protocol:
            more |= _login_settings(others["sasl.enabled.mechanisms"])
        if name == "signed":
            more |= _signed_settings(keys)
        settings |= {start + key: value for key, value in more.items()}
    return settings


def listed(addresses: dict[str, str]) -> str:
    """The listeners, as `listeners` has them."""
    return ",".join(f"{name.upper()}://{each}" for name, each in addresses.items())


def protocols() -> str:
    """The protocol of each, as `listener.security.protocol.map` has it."""
    return ",".join(f"{name.upper()}:{each[0]}" for name, each in LISTENERS.items())


def make_topics(port: int) -> None:
    """The topics, and the rights of users on them."""
    with RawClient(port) as client:
        topics = [
            {
                "name": name,
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
            for name in TOPICS
        ]
        client.ask("create_topics", 5, topics=topics, timeout=10_000, validate_only=False)
        rights = [(_TOPIC, "open", "User:*", each) for each in (_READ, _WRITE, _DESCRIBE)]
        rights.append((_TOPIC, "locked", "User:alice", _DESCRIBE))
        rights.append((_GROUP, "readers", "User:alice", _READ))
        creations = [
            {
                "resource_type": kind,
                "resource_name": name,
                "resource_pattern_type": _LITERAL,
                "principal": who,
                "host": "*",
                "operation": right,
                "permission_type": _ALLOW,
            }
            for kind, name, who, right in rights
        ]
        answer = client.ask("create_acls", 3, creations=creations)
        assert all(each.error_code == 0 for each in answer.results), answer
    with drumlin.connect(f"127.0.0.1:{port}") as administrator:
        for topic in TOPICS:
            administrator.append(pa.table({"value": ["one", "two"]}), topic)


def _tls_settings(certificates: Certificates, name: str) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.path(f"{name}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.path("ca.crt"),
    }


def _signed_settings(keys: Path) -> dict[str, str]:
    """Kafka's own validator of tokens, which takes those that a provider has signed for it."""
    handler = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return {
        "oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": handler,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


def _login_settings(mechanisms: str) -> dict[str, str]:
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    modules = {
        "PLAIN": f"{_MODULES}.plain.PlainLoginModule required "
        f'user_alice="{escaped}" user_bob="bob";',
        "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule required;",
        # Takes tokens without a signature: what is tested is how they get there.
        "OAUTHBEARER": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    return {
        # A properties file has escapes of its own.
        f"{mechanism.lower()}.sasl.jaas.config": modules[mechanism].replace("\\", "\\\\")
        for mechanism in mechanisms.split(",")
    }
