"""Logins by a token that a user pastes, and consoles that act with an identity of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.conftest import running_console
from console.console_process import ConsoleProcess, Visitor
from console.tokens import unsigned_token
from drumlin.cli import app
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.data.secured_listeners import AUDIENCE, ISSUER, PASSWORD, Secured
from rig.servers.certificates import Certificates
from rig.waiting import wait_until


@pytest.fixture(scope="module")
def token_console(
    broker: SecuredDrumlin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    where = ("--bootstrap", f"127.0.0.1:{broker.login_port}")
    directory = tmp_path_factory.mktemp("tokens")
    roles = ("--editor", "root")
    with running_console(directory, *where, "--login", "oauthbearer", *roles) as console:
        yield console


def test_a_token_lets_its_user_in(token_console: ConsoleProcess) -> None:
    root, carol = Visitor(token_console), Visitor(token_console)
    answer = root.login(token=unsigned_token("root"))
    assert (answer.status, answer.json["user"]) == (200, "root"), answer
    assert root.get("access").json["acls"]["error"] is None
    assert carol.login(token=unsigned_token("carol")).status == 200
    assert carol.get("topics").json["topics"] == []
    assert answer.json["only_looks"] is None
    assert root.post("reset", {}).status == 400, "it is for the console to look at it"
    refused = carol.post("reset", {})
    assert (refused.status, "'carol' may only look" in refused.error) == (403, True)
    assert "error" in carol.get("access").json["acls"]


def test_a_token_that_is_not_taken(token_console: ConsoleProcess) -> None:
    visitor = Visitor(token_console)
    assert visitor.ask("GET", "/api/about").json["login"] == "OAUTHBEARER"
    forged = unsigned_token("root", header='{"alg":"RS256"}') + "AAAA"
    for token, status, why in (
        (unsigned_token("root", -30), 401, "this token has expired"),
        (forged, 401, "do not let 'root' in"),
        ("two words", 401, "no bearer token"),
        ("x\0y", 401, "no bearer token"),
        ("opaque", 401, "do not let"),
        ("x" * 12_001, 400, "'token': expected a text of at most 12000 characters"),
        ("", 400, "'token'"),
    ):
        answer = visitor.login(token=token)
        assert (answer.status, why in answer.error) == (status, True), (token, answer)
        assert len(token) < 5 or token not in answer.error
    assert visitor.login(user="root", password="root").status == 400
    assert visitor.login().status == 400
    assert visitor.get("topics").status == 401


@pytest.mark.deep
def test_a_session_ends_with_its_token(token_console: ConsoleProcess) -> None:
    visitor = Visitor(token_console)
    assert visitor.login(token=unsigned_token("root", 3)).status == 200
    assert visitor.get("topics").status == 200
    wait_until(lambda: visitor.get("topics").status == 401, "the session to end")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--single-user", "--listen", "0.0.0.0:0"), "0.0.0.0 is not"),
        (("--single-user", "--login", "plain"), "nobody logs in"),
    ],
)
def test_a_console_for_one_user_is_for_this_machine(
    arguments: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["console", *arguments]) == 2
    assert why in capsys.readouterr().err


def _key(console: ConsoleProcess) -> str:
    found = re.search(r"/#key=(\S+)", console.said())
    assert found is not None
    return found[1]


@pytest.mark.deep
def test_a_console_with_a_certificate_is_for_who_has_its_key(
    secured: Secured, certificates: Certificates, tmp_path: Path
) -> None:
    """A person's certificate cannot travel through a console: only its own is shown to brokers."""
    config = tmp_path / "mine.properties"
    config.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.path('ca.crt')}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={certificates.path('client.pem')}\n"
    )
    arguments = ("--bootstrap", secured.addresses["mutual"], "--config", str(config))
    with running_console(tmp_path, *arguments, "--single-user") as console:
        visitor = Visitor(console)
        assert visitor.ask("GET", "/api/about").json["login"] == "KEY"
        assert visitor.login().status == 400
        assert visitor.login(key="x" * 43).status == 401
        assert visitor.get("topics").status == 401
        assert visitor.login(key=_key(console)).status == 200
        names = {each["name"] for each in visitor.get("topics").json["topics"]}
        assert "open" in names


@pytest.mark.deep
def test_a_console_with_a_login_of_its_own(secured: Secured, tmp_path: Path) -> None:
    config = tmp_path / "mine.properties"
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="{escaped}";'
    ).replace("\\", "\\\\")
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
    )
    arguments = ("--bootstrap", secured.addresses["login"], "--config", str(config))
    with running_console(tmp_path, *arguments, "--single-user") as console:
        visitor = Visitor(console)
        assert visitor.login(key=_key(console)).status == 200
        names = {each["name"] for each in visitor.get("topics").json["topics"]}
        assert names >= {"open", "locked"}
        assert "hidden" not in names


@pytest.mark.deep
def test_signed_tokens(secured: Secured, tmp_path: Path) -> None:
    arguments = ("--bootstrap", secured.addresses["signed"], "--login", "oauthbearer")
    with running_console(tmp_path, *arguments) as console:
        alice = Visitor(console)
        token = secured.signer.token("alice", aud=AUDIENCE, iss=ISSUER)
        assert alice.login(token=token).status == 200
        names = {each["name"] for each in alice.get("topics").json["topics"]}
        assert names == {"open", "locked"}
        other = alice.login(token=secured.signer.token("alice", aud="shop", iss=ISSUER))
        assert other.status == 401
        assert "audience 'shop'" in other.error
        assert token not in other.error
