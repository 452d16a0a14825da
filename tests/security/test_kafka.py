"""A secured Apache Kafka: every way in, and a sentence for every way that leads nowhere."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import drumlin
from drumlin.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    MembershipEnded,
    NotAuthorized,
)
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from drumlin.security import OAuthBearer, Plain, Scram, Security, SecurityOptionError, Tls
from rig.data.secured_listeners import PASSWORD, SCRAM_PASSWORD, SESSION_MS, Secured
from rig.jvm.jars import java
from rig.servers.certificates import KEY_PASSWORD, Certificates
from rig.waiting import wait_until
from security.test_tokens import Endpoint, jwt, login

pytestmark = pytest.mark.kafka

ALICE = Plain("alice", PASSWORD)


def alices_token() -> str:
    return jwt(3600, subject="alice")


LOGINS: list[Plain | Scram | OAuthBearer] = [
    ALICE,
    Scram("alice", SCRAM_PASSWORD, "SCRAM-SHA-256"),
    Scram("alice", SCRAM_PASSWORD, "SCRAM-SHA-512"),
    OAuthBearer(alices_token),
]


@pytest.fixture(scope="session")
def tls(certificates: Certificates) -> Tls:
    return Tls(ca=certificates.path("ca.crt"))


def refusal(address: str, security: Security) -> str:
    """Why no client gets in: at once, however patient the client is."""
    started = time.monotonic()
    with pytest.raises(AuthenticationFailed) as caught:
        drumlin.connect(address, security=security, request_timeout_ms=600_000)
    assert time.monotonic() - started < 120
    message = str(caught.value)
    assert address in message
    assert "\n" not in message
    for secret in (PASSWORD, SCRAM_PASSWORD, "hunter2"):
        assert secret not in message
    return message


@pytest.mark.parametrize("listener", ["login", "tlslogin"])
@pytest.mark.parametrize("who", LOGINS, ids=lambda each: getattr(each, "mechanism", str(each)[:5]))
def test_every_mechanism_writes_and_reads(
    secured: Secured, tls: Tls, listener: str, who: Plain | Scram | OAuthBearer
) -> None:
    security = Security(tls if listener == "tlslogin" else None, who)
    with drumlin.connect(secured.addresses[listener], security=security) as client:
        report = client.append(pa.table({"value": ["three"]}), "open")
        (written,) = report.partitions.values()
        found = client.read("open", start={0: written.first_offset}, end={0: written.end_offset})
        assert found.column("value").to_pylist() == [b"three"]
        assert client.list_topics() == ["locked", "open"], "it is alice: hidden is not to be seen"


def test_records_that_nobody_acknowledges_leave_before_the_client(
    secured: Secured, tls: Tls
) -> None:
    """With acks=0 a record counts when the system has it: TLS keeps some back before."""
    table = pa.table({"value": [bytes(10_000)] * 2_000})
    address, security = secured.addresses["tlslogin"], Security(tls, ALICE)
    with drumlin.connect(address, security=security) as client:
        before = client.offsets("open")[0]
        client.append(table, "open", acks=0)
    with drumlin.connect(address, security=security) as client:
        wait_until(lambda: client.offsets("open")[0] == before + 2_000, "all records", 60)


def test_an_endpoints_token_is_good_for_all_connections(secured: Secured) -> None:
    with Endpoint((200, {"access_token": alices_token(), "expires_in": 3600})) as endpoint:
        security = Security(None, login(endpoint.url))
        with drumlin.connect(secured.addresses["login"], security=security) as client:
            assert client.read("open").num_rows > 0
            assert client.consumer("open").poll(timeout_ms=20_000) is not None
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    "versions",
    [
        pytest.param(("TLSv1.2",), marks=pytest.mark.deep),
        ("TLSv1.3",),
        pytest.param(("TLSv1.2", "TLSv1.3"), marks=pytest.mark.deep),
    ],
)
def test_tls_with_pem_files_and_pem_text(
    secured: Secured, certificates: Certificates, versions: tuple[str, ...]
) -> None:
    text = certificates.text("ca.crt")
    one_line = (text.replace("\n", each) for each in (" ", "\\n", "\\r\\n"))
    for ca in (certificates.path("ca.crt"), *one_line):
        security = Security(Tls(ca=ca, versions=versions))
        with drumlin.connect(secured.addresses["tls"], security=security) as client:
            assert client.read("open").num_rows > 0


@pytest.mark.parametrize(
    "own",
    [
        lambda made: {"certificate": made.path("client.pem")},
        lambda made: {"certificate": made.text("client.crt"), "key": made.text("client.key")},
        lambda made: {
            "certificate": made.path("client.crt"),
            "key": made.path("client-locked.key"),
            "key_password": KEY_PASSWORD,
        },
        lambda made: {"certificate": made.pkcs12("client"), "key_password": KEY_PASSWORD},
    ],
    ids=["one file", "texts", "an encrypted key", "a PKCS12 store"],
)
def test_a_client_certificate_opens_a_mutual_listener(
    secured: Secured,
    certificates: Certificates,
    own: Callable[[Certificates], dict[str, str]],
) -> None:
    tls = Tls(ca=certificates.path("ca.crt"), **own(certificates))  # type: ignore[arg-type]
    address = secured.addresses["mutual"]
    with drumlin.connect(address, security=Security(tls)) as client:
        assert client.list_topics() == ["open"], "it is CN=client, and no administrator"


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"certificate": "client.crt", "key": "client-locked.key"}, "encrypted, and no password"),
        (
            {"certificate": "client.crt", "key": "client-locked.key", "key_password": "hunter2"},
            "is its password right",
        ),
        ({"certificate": "client.crt", "key": "server.key"}, "does not belong to the certificate"),
        ({"certificate": "client.crt"}, "the private key is missing"),
        ({"certificate": "nowhere.crt"}, "No such file"),
        ({"ca": "client.key"}, "CA certificates"),
    ],
)
def test_a_certificate_or_key_that_is_no_good(
    certificates: Certificates, own: dict[str, str], why: str
) -> None:
    files = {
        name: value if name == "key_password" else certificates.path(value)
        for name, value in own.items()
    }
    with pytest.raises(SecurityOptionError, match=why) as caught:
        drumlin.connect("127.0.0.1:1", security=Security(Tls(**files)))  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


def test_a_broker_that_cannot_be_trusted(
    secured: Secured, certificates: Certificates, tls: Tls
) -> None:
    where = secured.addresses
    unknown = "not signed by a CA that is trusted here"
    assert unknown in refusal(where["tls"], Security(Tls()))
    stranger = Tls(ca=certificates.path("stranger.crt"))
    assert unknown in refusal(where["tls"], Security(stranger, None))
    assert unknown in refusal(where["tlslogin"], Security(stranger, ALICE))
    assert "its certificate has expired" in refusal(where["expired"], Security(tls))
    assert "is for another host name" in refusal(where["elsewhere"], Security(tls))
    unchecked = Tls(ca=certificates.path("ca.crt"), check_host_name=False)
    with drumlin.connect(where["elsewhere"], security=Security(unchecked)) as client:
        assert client.read("open").num_rows > 0
    by_number = where["elsewhere"].replace("localhost", "127.0.0.1")
    assert "is for another host name" in refusal(by_number, Security(tls))


def test_a_client_that_is_not_trusted(
    secured: Secured, certificates: Certificates, tls: Tls
) -> None:
    where = secured.addresses
    assert "does it want a client certificate" in refusal(where["mutual"], Security(tls))
    foreign = Tls(ca=tls.ca, certificate=certificates.path("foreign.pem"))
    assert "refused the TLS connection" in refusal(where["mutual"], Security(foreign))
    wrong = [Plain("alice", "hunter2"), Scram("alice", "hunter2"), Scram("nobody", "hunter2")]
    for who in wrong:
        for listener, wrapping in (("login", None), ("tlslogin", tls)):
            message = refusal(where[listener], Security(wrapping, who))
            assert f"user {who.username!r} cannot log in with" in message
    old = OAuthBearer(lambda: jwt(-60, subject="alice"))
    why = refusal(where["login"], Security(None, old))
    assert re.search(r"\(expired 6\d s ago\) of the token provider .* cannot log in", why)


def test_another_kind_of_listener_than_expected(secured: Secured, tls: Tls) -> None:
    where = secured.addresses | {"plain": f"127.0.0.1:{secured.port}"}
    assert "it speaks TLS there" in refusal(where["tls"], Security())
    assert "it speaks TLS there" in refusal(where["tlslogin"], Security(None, ALICE))
    assert "it has no login" in refusal(where["plain"], Security(None, ALICE))
    assert "it has no login" in refusal(where["tls"], Security(tls, ALICE))
    message = refusal(where["scramonly"], Security(None, ALICE))
    assert "does not offer PLAIN, but SCRAM-SHA-256" in message
    # These end the connection and say nothing, as a broker that stops does too.
    for security, listener, hint in (
        (Security(tls), "plain", "is it a plain listener"),
        (Security(tls, ALICE), "login", "is it a plain listener"),
        (Security(), "login", "does it want a login"),
        (Security(tls), "tlslogin", "does it want a login"),
    ):
        with pytest.raises(BrokerUnreachable, match=hint):
            drumlin.connect(where[listener], security=security)


def test_what_a_user_has_no_right_to(secured: Secured) -> None:
    security = Security(None, ALICE)
    with drumlin.connect(secured.addresses["login"], security=security) as client:
        for what in (lambda: client.describe_topics(["hidden"]), lambda: client.read("hidden")):
            with pytest.raises(NotAuthorized, match="topic 'hidden': this user has no right to it"):
                what()
        assert client.partitions("locked") == [0]
        with pytest.raises(NotAuthorized, match="topic 'locked' partition 0: this user has no"):
            client.read("locked")
        with pytest.raises(PermissionError):
            client.delete_topic("locked")


@pytest.mark.deep
def test_sessions_are_prolonged_before_they_end(secured: Secured) -> None:
    """Requests never stop, over three sessions, and all go over the first connection."""
    address = parse_bootstrap(secured.addresses["short"])
    until = time.monotonic() + 3 * SESSION_MS / 1000

    async def go_on(who: Plain | Scram | OAuthBearer) -> bool:
        connections = BrokerConnections(address, PeerOptions(security=Security(None, who)))
        first = await connections.any()
        while time.monotonic() < until:
            await asyncio.gather(*(connections.refresh(("open",)) for _ in range(3)))
        try:
            return first.is_open and await connections.any() is first
        finally:
            await connections.close()

    async def all_of(logins: list[Plain | Scram | OAuthBearer]) -> list[bool]:
        return await asyncio.gather(*map(go_on, logins))

    brief = OAuthBearer(lambda: jwt(SESSION_MS / 1000, subject="alice"))
    assert asyncio.run(all_of([*LOGINS[:2], brief])) == [True, True, True]


def test_the_command_that_converts_a_java_store_converts_it(
    secured: Secured, certificates: Certificates
) -> None:
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.location": certificates.path("trust.jks"),
        "ssl.truststore.password": "password",
    }
    with pytest.raises(SecurityOptionError, match="is a JKS store") as caught:
        drumlin.connect(secured.addresses["tls"], security=given)
    command = str(caught.value).partition("convert it with: ")[2]
    command = command.replace("keytool", shlex.quote(str(Path(java()).with_name("keytool"))), 1)
    converted = certificates.path("trust.p12")
    Path(converted).unlink(missing_ok=True)
    # It asks for the new password, once more, and for that of the JKS store.
    answers = "password\n" * 3
    subprocess.run(command, shell=True, input=answers, text=True, check=True, timeout=60)
    given["ssl.truststore.location"] = converted
    with drumlin.connect(secured.addresses["tls"], security=given) as client:
        assert client.read("open").num_rows > 0


def test_properties_as_kafkas_clients_have_them(
    secured: Secured, certificates: Certificates
) -> None:
    quoted = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{module} required username="alice" password="{quoted}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates.text("ca.crt"),
    }
    with drumlin.connect(secured.addresses["tlslogin"], security=given) as client:
        assert client.read("open").num_rows > 0
        assert PASSWORD not in repr(client.options)


def test_a_group_goes_over_secured_connections(secured: Secured, tls: Tls) -> None:
    """Coordinators and members have connections of their own: siblings, with the same access."""
    security = Security(tls, ALICE)
    with drumlin.connect(secured.addresses["tlslogin"], security=security) as client:
        with client.consumer("open", group="readers") as consumer:
            assert consumer.poll(timeout_ms=60_000) is not None
            consumer.commit()
        with (
            pytest.raises(MembershipEnded, match="group_authorization_failed"),
            client.consumer("open", group="others") as consumer,
        ):
            consumer.poll(timeout_ms=60_000)
