"""Java's clients: each login over TLS, sessions that end under load, and delegation tokens."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificates

from ecosystem.installed import compiled
from ecosystem.secured.conftest import SecuredForPrograms, allow
from rig.brokers.drumlin_with_listeners import DrumlinWithListeners
from rig.data.secured_listeners import AUDIENCE, ISSUER, PASSWORD, SCRAM_PASSWORD
from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.jvm.kafka_connect import write
from rig.servers.certificates import Certificates
from rig.servers.running import skipped_where_unavailable
from security.test_tokens import Endpoint

_KAFKA = "4.3.0"
_WAIT_S = 300.0
_MODULES = "org.apache.kafka.common.security"
_TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


def run(
    folder: Path,
    settings: Mapping[str, str],
    *told: object,
    is_refused: bool = False,
    jvm: str = "",
) -> str:
    """What `SecuredClients` prints; where it is to be refused, what it says of that."""
    with skipped_where_unavailable():
        jars = jar_folder("kafka-jars")
        classes = compiled("SecuredClients", f"{jars}/*")
    file = write(folder / "client.properties", settings)
    command = [java(), *SHORT_LIVED_JVM.split(), *jvm.split(), "-cp", f"{classes}:{jars}/*"]
    done = subprocess.run(
        [*command, "SecuredClients", str(file), *map(str, told)],
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    assert bool(done.returncode) == is_refused, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stderr if is_refused else done.stdout


def escaped(text: str) -> str:
    """As a value in a JAAS configuration, in a properties file."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")


def _locked_store(certificates: Certificates, path: Path) -> Path:
    key = load_pem_private_key(certificates.text("client.key").encode(), None)
    certificate, *chain = load_pem_x509_certificates(certificates.text("client.crt").encode())
    locked = BestAvailableEncryption(b"password")
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(b"client", key, certificate, chain, locked)  # type: ignore[arg-type]
    )
    return path


@pytest.mark.program("kafka-clients", _KAFKA, "Java's clients with each login, over TLS")
def test_logins(
    listeners: DrumlinWithListeners, certificates: Certificates, tmp_path: Path
) -> None:
    tls = {
        "bootstrap.servers": listeners.addresses["tlslogin"],
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.path("ca.crt"),
    }
    bearer = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required"
    modules = {
        "PLAIN": f'{_MODULES}.plain.PlainLoginModule required username="alice" '
        f'password="{escaped(PASSWORD)}";',
        "SCRAM-SHA-256": f'{_MODULES}.scram.ScramLoginModule required username="alice" '
        f'password="{SCRAM_PASSWORD}";',
        "OAUTHBEARER": f'{bearer} unsecuredLoginStringClaim_sub="alice";',
    }
    modules["SCRAM-SHA-512"] = modules["SCRAM-SHA-256"]
    for mechanism, module in modules.items():
        login = tls | {"sasl.mechanism": mechanism, "sasl.jaas.config": module}
        assert run(tmp_path, login, "round", "open", "readers", 500) == (
            "read 500 seen [locked, open]\n"
        ), mechanism
    mallory = tls | {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": modules["PLAIN"].replace("alice", "mallory"),
    }
    said = run(tmp_path, mallory, "round", "open", "readers", 1, is_refused=True)
    assert "SaslAuthenticationException" in said
    assert "mallory" not in said


@pytest.mark.program("kafka-clients", _KAFKA, "tokens that a provider has signed")
def test_tokens(listeners: DrumlinWithListeners, tmp_path: Path) -> None:
    token = listeners.signer.token("alice", aud=AUDIENCE, iss=ISSUER)
    file = tmp_path / "token"
    file.write_text(token)
    login = {
        "bootstrap.servers": listeners.addresses["signed"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": (
            f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="hunter2";',
    }
    with Endpoint((200, {"access_token": token, "expires_in": 3600})) as endpoint:
        for url in (endpoint.url, file.as_uri()):
            allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
            if url == file.as_uri():
                allowed += f" -Dorg.apache.kafka.sasl.oauthbearer.allowed.files={file}"
            given = login | {"sasl.oauthbearer.token.endpoint.url": url}
            assert run(tmp_path, given, "round", "open", "readers", 100, jvm=allowed) == (
                "read 100 seen [locked, open]\n"
            ), url
    assert endpoint.asked


@pytest.mark.program("kafka-clients", _KAFKA, "certificates of clients, PEM and PKCS12")
def test_certificates(
    listeners: DrumlinWithListeners, certificates: Certificates, tmp_path: Path
) -> None:
    administrator = AdminClient({"bootstrap.servers": listeners.address})
    allow(administrator, "CN=client", "GROUP", "readers", "READ")
    trusts = {
        "bootstrap.servers": listeners.addresses["mutual"],
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.path("ca.crt"),
    }
    store = _locked_store(certificates, tmp_path / "client.p12")
    ways = {
        "PEM": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificates.path("client.pem"),
        },
        "PKCS12": {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": "password",
            "ssl.key.password": "password",
        },
    }
    for kind, own in ways.items():
        said = run(tmp_path, trusts | own, "round", "open", "readers", 100)
        assert said == "read 100 seen [open]\n", kind
    said = run(tmp_path, trusts, "round", "open", "readers", 1, is_refused=True)
    assert "SslAuthenticationException" in said


@pytest.mark.program("kafka-clients", _KAFKA, "sessions of 10 s under load: nothing lost, no error")
def test_sessions(open_to_all: SecuredForPrograms, tmp_path: Path) -> None:
    open_to_all.add_user("writer")
    login = open_to_all.properties_of("writer")
    said = run(tmp_path, login, "load", "loaded", 35, 2000)
    written = int(said.split()[1])
    assert said == f"written {written} read {written} once true\n"
    assert written > 1000


@pytest.mark.program("kafka-clients", _KAFKA, "delegation tokens: by the client and by the tool")
def test_delegation_tokens(secured: SecuredForPrograms, tmp_path: Path) -> None:
    secured.add_user("owner")
    secured.allow("owner", "TOPIC", "copied", "CREATE", "READ", "WRITE")
    secured.allow("owner", "GROUP", "readers", "READ")
    by_client = run(tmp_path, secured.properties_of("owner"), "token").split()
    made = tool(secured, tmp_path, "--create", "--max-life-time-period", "-1")
    by_tool = made.splitlines()[-1].split()[:2]
    for token, hmac in (by_client, by_tool):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            login = secured.properties_of("owner", mechanism) | {
                "sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required "
                f'username="{token}" password="{hmac}" tokenauth="true";'
            }
            said = run(tmp_path, login, "round", "copied", "readers", 100)
            assert said == "read 100 seen [copied]\n"
        # Who has come by a token gets no other.
        said = run(tmp_path, login, "token", is_refused=True)
        assert "DelegationTokenDisabled" in said or "not allowed" in said, said
    assert by_tool[0] in tool(secured, tmp_path, "--describe", "--owner-principal", "User:owner")
    tool(secured, tmp_path, "--renew", "--renew-time-period", "-1", "--hmac", by_tool[1])
    tool(secured, tmp_path, "--expire", "--expiry-time-period", "-1", "--hmac", by_tool[1])
    run(tmp_path, secured.properties_of("owner"), "expire", by_client[1])
    said = run(tmp_path, login, "round", "copied", "readers", 1, is_refused=True)
    assert "SaslAuthenticationException" in said


def tool(secured: SecuredForPrograms, folder: Path, *told: str) -> str:
    """What `kafka-delegation-tokens.sh` prints."""
    file = write(folder / "tool.properties", secured.properties_of("owner"))
    jars = jar_folder("kafka-jars")
    command = [java(), *SHORT_LIVED_JVM.split(), "-cp", f"{jars}/*", _TOOL]
    at = ["--bootstrap-server", secured.address, "--command-config", str(file)]
    done = subprocess.run(
        [*command, *at, *told], capture_output=True, text=True, timeout=_WAIT_S, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.strip()
