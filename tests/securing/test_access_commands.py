"""`drumlin users`, `acls` and `certificates`."""

from __future__ import annotations

import json
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from drumlin.peer.security.secret import Secret
from drumlin.securing.authority import read_certificate
from drumlin.securing.client_files import connection_in, read_connection
from rig.brokers.secure_server import SecureServer
from securing.conftest import Run

_PASSWORD = "al\"ice's, =\\pass"


def _topics_seen(server: SecureServer, user: str, password: str, timeout_s: float = 20) -> set[str]:
    settings = server.librdkafkas(sasl_username=user, sasl_password=password)
    return set(AdminClient(settings).list_topics(timeout=timeout_s).topics)


def _is_not_let_in(server: SecureServer, user: str, password: str) -> bool:
    try:
        _topics_seen(server, user, password, timeout_s=1)
    except KafkaException:
        return True
    return False


def test_a_user_with_rights(here: SecureServer, run: Run) -> None:
    assert run("topics", "create", "orders", "bills").code == 0
    done = run("users", "add", "alice", typed=_PASSWORD + "\n")
    assert (done.out, done.err) == ("alice: added\n", "")
    assert "alice\tSCRAM-SHA-256,SCRAM-SHA-512\n" in run("users", "list").out
    assert _topics_seen(here, "alice", _PASSWORD) == set()

    done = run("acls", "add", "-u", "alice", "-o", "write", "--topic", "ord", "--prefix")
    assert done.out == "added: allow User:alice write on topics that begin with 'ord'\n"
    assert _topics_seen(here, "alice", _PASSWORD) == {"orders"}
    producer = Producer(here.librdkafkas(sasl_username="alice", sasl_password=_PASSWORD))
    producer.produce("orders", b"one")
    assert producer.flush(20) == 0
    asked = "acls", "check", "-u", "alice", "-o", "write", "--topic"
    done = run(*asked, "orders")
    assert done.code == 0
    assert "allow User:alice write on topics that begin with 'ord'" in done.out
    assert run(*asked, "bills").code == 1

    run("acls", "add", "-u", "alice", "-o", "all", "--topic", "orders", "--deny")
    done = run(*asked, "orders", "--json")
    assert done.code == 1
    assert json.loads(done.out)[0]["acl"]["permission"] == "deny"
    listed = run("acls", "list", "--topic", "orders", "--json")
    assert len(json.loads(listed.out)) == 2
    assert run("acls", "remove", "-u", "alice").code == 2, "nobody to ask"
    assert run("acls", "remove", "-u", "alice", "--yes").out.count("removed: ") == 2
    assert run("acls", "list", "-u", "alice").out == ""
    assert run("acls", "check", "-u", "admin", "-o", "alter", "--cluster").code == 0


def test_passwords_change_and_users_go(here: SecureServer, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    assert run("users", "add", "bob", "--password-file", file).code == 0
    assert run("users", "add", "bob", "--password-file", file).code == 1
    _topics_seen(here, "bob", "first")
    assert run("users", "passwd", "bob", typed="second").out == "bob: changed\n"
    assert _is_not_let_in(here, "bob", "first")
    _topics_seen(here, "bob", "second")
    assert run("users", "remove", "bob", "nobody", "--yes").out == (
        "bob: removed\nnobody: is no user\n"
    )
    assert _is_not_let_in(here, "bob", "second")
    assert "there is no user bob" in run("users", "passwd", "bob", typed="x").err
    assert "no password" in run("users", "add", "bob").err
    assert "no mechanism" in run("users", "add", "bob", "--mechanism", "PLAIN").err


def _files_of(folder: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in folder.iterdir()}


def test_own_files_follow_a_password(here: SecureServer, run: Run, tmp_path: Path) -> None:
    administrators = read_connection(here.data)
    assert administrators
    assert run("users", "add", "dora", typed="first").code == 0
    assert run("acls", "add", "-u", "dora", "-o", "alter", "-o", "describe", "--cluster").code == 0
    first = replace(administrators, user="dora", password=Secret("first"))
    whole, edited, refused = (tmp_path / each for each in ("whole", "edited", "refused"))
    for each in (whole, edited, refused):
        each.mkdir()
        first.write(each)
    passwd = "users", "passwd", "dora", "--config"

    assert run(*passwd, whole / "client.properties", typed="second").out == "dora: changed\n"
    second = replace(first, password=Secret("second"))
    assert read_connection(whole) == second
    second.write(edited)
    kcat = (edited / "kcat.conf").read_text().replace(str(edited), str(whole))
    assert _files_of(whole) == _files_of(edited) | {"kcat.conf": kcat}
    assert {each.stat().st_mode & 0o777 for each in whole.iterdir()} == {0o600}
    _topics_seen(here, "dora", "second")

    others = json.loads((edited / "client.json").read_text()) | {"sasl.username": "alice"}
    (edited / "client.json").write_text(json.dumps(others))
    with (edited / "client.properties").open("a") as file:
        file.write("# of this machine\nclient.id=dora\n")
    done = run(*passwd, edited / "client.properties", typed="third")
    assert "client.json: was not changed: edit the password" in done.err
    assert json.loads((edited / "client.json").read_text()) == others
    third = replace(first, password=Secret("third"))
    assert read_connection(edited) == third
    assert "# of this machine\nclient.id=dora\n" in (edited / "client.properties").read_text()

    third.write(refused)
    assert run("acls", "remove", "-u", "dora", "-o", "alter", "--yes").code == 0
    done = run(*passwd, refused / "client.properties", typed="fourth")
    assert done.code == 1
    assert "client.properties.new: has the new password, which may not count" in done.err
    assert read_connection(refused) == third
    fourth = connection_in(refused / "client.properties.new")
    assert fourth == replace(first, password=Secret("fourth"))
    _topics_seen(here, "dora", "third")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-u", "a", "-o", "commit", "-t", "x"], "'commit' is no operation; there are all, read"),
        (["-u", "a", "-o", "create-tokens", "-t", "x"], "a topic has no operation create-tokens"),
        (["-o", "read", "-t", "x"], "say who"),
        (["-u", "a", "-o", "read"], "say on what"),
        (["--principal", "alice", "-o", "read", "-t", "x"], "'alice' is not TYPE:NAME"),
        (["-u", "", "-o", "read", "-t", "x"], "--user: a user must have a name"),
        (["-u", "User:a", "-o", "read", "-t", "x"], "--user takes the name alone, 'a' and not"),
        (["-u", "a", "-o", "read", "-t", "x", "--host", "b.example"], "'b.example' is no IP addr"),
        (["-u", "a", "-o", "read", "-t", "x", "--host", "10.0.0.0/8"], "ranges of addresses"),
    ],
)
def test_acls_that_make_no_sense(run: Run, arguments: list[str], why: str) -> None:
    done = run("acls", "add", *arguments)
    assert done.code == 2
    assert why in done.err


def test_certificates(here: SecureServer, run: Run, tmp_path: Path) -> None:
    def shown() -> dict[str, dict[str, object]]:
        done = run("certificates", "show", "--data", here.data, "--json")
        return {each["file"]: each for each in json.loads(done.out)}

    before = shown()
    assert before["ca.pem"]["subject"] == before["broker.pem"]["issuer"]
    assert {"localhost", "127.0.0.1", "::1"} <= set(before["broker.pem"]["hosts"])  # type: ignore[arg-type]
    done = run("certificates", "renew", "--data", here.data, "--host", "b.example")
    assert done.code == 0
    after = shown()
    assert after["ca.pem"] == before["ca.pem"]
    assert {*before["broker.pem"]["hosts"], "b.example"} == set(after["broker.pem"]["hosts"])  # type: ignore[misc, call-overload]
    for host in ("two words", "", "-a", "a..b", "ü.example", "a" * 64, "b." * 150):
        done = run("certificates", "renew", "--data", here.data, "--host", host)
        assert (done.code, "no host's name or address" in done.err) == (2, True), host
    out = tmp_path / "alice.pem"
    issued = "certificates", "issue", "alice", "--data", here.data, "--out", out
    assert run(*issued).code == 0
    assert out.stat().st_mode & 0o077 == 0
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=here.data / "ca.pem")
    context.load_cert_chain(out)
    assert read_certificate(out.read_text()).name == "CN=alice"
    assert run(*issued).err == f"drumlin: {out} exists\n"
    assert "authority.pem" in run("certificates", "renew", "--data", tmp_path).err


def test_a_profile(
    here: SecureServer, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DRUMLIN_COMMAND_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "drumlin"
    folder.mkdir()
    file = folder / "prod.properties"
    file.write_bytes(here.client_properties.read_bytes())
    file.chmod(0o640)
    assert f"chmod 600 {file}" in run("--profile", "prod", "topics", "list").err
    file.chmod(0o600)
    # The file says where the cluster is, too, unless the command line does.
    assert (
        run("--profile", "prod", "topics", "create", "by-profile", "-c", "retention.ms=1").code == 0
    )
    assert run("--config", file, "topics", "delete", "by-profile", "--yes").code == 0
    assert run("topics", "create", "by-file", "--config", "a=b", "--config", file).code == 1
    assert run("topics", "create", "by-file", "--config", file, "--config", file).code == 2
    assert run("topics", "create", "by-file", "--config", file).out == "by-file: created\n"
    assert run("topics", "list", "--config", file).code == 0
    assert run("topics", "list", "--config", file, "-b", "127.0.0.1:1").code == 1
    monkeypatch.setenv("DRUMLIN_BOOTSTRAP", "127.0.0.1:1")
    assert run("--profile", "prod", "topics", "list").code == 0
    assert "there are prod" in run("--profile", "test", "topics", "list").err
    assert run("--profile", "../x", "topics", "list").code == 2
    assert run("--profile", "prod", "--config", file, "topics", "list").code == 2
