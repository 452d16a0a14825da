"""Logins: the cluster's users, with their rights and no others."""

from __future__ import annotations

import pytest

import drumlin
from console.console_process import ConsoleProcess, Visitor
from drumlin.cli import app
from rig.brokers.secured_drumlin import SecuredDrumlin

_READ, _DESCRIBE = 3, 8


@pytest.fixture(scope="module")
def topics(broker: SecuredDrumlin) -> None:
    """Topics of which alice may read one and see another."""
    with drumlin.connect(broker.address) as client:
        for name in ("read-by-alice", "seen-by-alice", "hidden"):
            client.create_topic(name, 1, configs={"cleanup.policy": "compact"})
            with client.writer(name) as writer:
                writer.send(b"a value", key=b"a key")
    creations = [
        {
            "resource_type": 2,
            "resource_name": name,
            "resource_pattern_type": 3,
            "principal": "User:alice",
            "host": "*",
            "operation": operation,
            "permission_type": 3,
        }
        for name, operation in (("read-by-alice", _READ), ("seen-by-alice", _DESCRIBE))
    ]
    with broker.connect() as client:
        answer = client.ask("create_acls", 3, creations=creations)
        assert all(each.error_code == 0 for each in answer.results), answer


def _logged_in(console: ConsoleProcess, user: str) -> Visitor:
    visitor = Visitor(console)
    answer = visitor.login(user=user, password=user)
    assert answer.status == 200, answer
    return visitor


@pytest.mark.usefixtures("topics")
def test_each_user_sees_what_they_may(login_console: ConsoleProcess) -> None:
    alice, bob, root = (_logged_in(login_console, each) for each in ("alice", "bob", "root"))

    def names(visitor: Visitor) -> set[str]:
        return {each["name"] for each in visitor.get("topics").json["topics"]}

    assert names(alice) & {"read-by-alice", "seen-by-alice", "hidden"} == {
        "read-by-alice",
        "seen-by-alice",
    }
    assert not names(bob)
    assert "hidden" in names(root)
    read = alice.get("records", topic="read-by-alice", partition=0)
    assert len(read.json["records"]) == 1
    refused = alice.get("records", topic="seen-by-alice", partition=0)
    assert (refused.status, "READ on the topic" in refused.error) == (403, True)
    for path in ("topic", "configs", "compaction"):
        answer = bob.get(path, topic="hidden")
        assert answer.status in (403, 404), (path, answer)
    for path in ("configs", "compaction"):  # reading takes no right to see the configuration
        assert alice.get(path, topic="read-by-alice").status == 403
    assert bob.post("simulation", {"topic": "hidden", "partition": 0}).status == 403
    assert root.get("compaction", topic="hidden").status == 200
    assert "error" in bob.get("access").json["acls"]
    assert bob.get("access").json["acls"]["error"]
    assert root.get("access").json["acls"]["rows"]


def test_a_wrong_password_is_refused(login_console: ConsoleProcess) -> None:
    visitor = Visitor(login_console)
    answer = visitor.login(user="alice", password="bob's")
    assert answer.status == 401
    assert "'alice'" in answer.error
    assert "bob's" not in answer.error
    assert "set-cookie" not in answer.headers
    assert visitor.login().status == 400  # no user is not the console itself
    assert visitor.login(user="a\0b", password="x").status == 400
    assert visitor.get("topics").status == 401
    assert visitor.ask("GET", "/api/about").json == {"login": "PLAIN"}


def test_by_tls_the_cookie_is_for_tls_alone(login_console: ConsoleProcess) -> None:
    answer = Visitor(login_console).login(user="alice", password="alice")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(f"__host-drumlin-console-{login_console.port}=")
    assert "; secure" in cookie


def test_another_login_is_another_session(login_console: ConsoleProcess) -> None:
    """A cookie that someone else has put into the browser is not taken over."""
    visitor, before = Visitor(login_console), Visitor(login_console)
    visitor.cookie = before.cookie = "__Host-drumlin-console-0=made; other=x"
    assert visitor.login(user="alice", password="alice").status == 200
    before.cookie, before.token = visitor.cookie, visitor.token
    assert visitor.login(user="bob", password="bob").status == 200
    assert visitor.cookie != before.cookie
    assert visitor.token != before.token
    assert before.get("topics").status == 401, "the session that was replaced is over"
    assert visitor.get("topics").status == 200


def test_logging_out_ends_the_session(login_console: ConsoleProcess) -> None:
    alice, again = (_logged_in(login_console, "alice") for _ in range(2))
    assert alice.post("logout", {}).status == 200
    assert alice.get("topics").status == 401
    assert again.get("topics").status == 200
    mixed = Visitor(login_console)
    mixed.cookie, mixed.token = again.cookie, alice.token
    assert mixed.get("topics").status == 401


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--listen", "0.0.0.0:0"), "TLS (--tls-certificate) and a login (--login)"),
        (("--listen", "[::]:0", "--login", "plain"), "this takes TLS (--tls-certificate), or"),
        (("--listen", "console.example:0"), "can be reached from other machines"),
        (("--login", "kerberos"), "--login kerberos: there are plain, scram-sha-256"),
        (("--listen", "8404"), "expected HOST:PORT"),
        (("--listen", "127.0.0.1:70000"), "ports end at 65535"),
        (("--data", "/nowhere"), "/nowhere: no such directory"),
        (("--http", "nowhere"), "is no address"),
    ],
)
def test_what_is_not_safe_does_not_start(
    arguments: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["console", *arguments]) != 0
    assert why in capsys.readouterr().err


def test_the_console_has_no_login_itself(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "mutual.properties"
    config.write_text(
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=/some/where.pem\n"
    )
    assert app.main(["console", "--config", str(config)]) == 2
    assert "everyone would act with the rights of the console's certificate" in (
        capsys.readouterr().err
    )
