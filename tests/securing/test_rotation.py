"""`drumlin certificates rotate`: an authority exchanged while a server and its clients work."""

from __future__ import annotations

import json
import shutil
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

import drumlin
from drumlin.client.errors import AuthenticationFailed
from drumlin.config.properties import decode_properties, encode_properties
from drumlin.securing.authority import Authority, was_issued_by
from rig.brokers.secure_server import SecureServer
from rig.waiting import wait_until
from securing.conftest import Run


@contextmanager
def at_work(settings: dict[str, Any]) -> Iterator[None]:
    """A client that writes all the time, over new connections; no record may fail."""
    failures: list[Any] = []
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            producer = Producer(settings | {"error_cb": failures.append})
            producer.produce("busy", b"x", callback=lambda error, _: failures.append(error))
            if producer.flush(20):
                failures.append("not written")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert [each for each in failures if each is not None] == []


def is_let_in(settings: dict[str, Any]) -> bool:
    try:
        return bool(AdminClient(settings).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def wait_until_shown(server: SecureServer, authority: str) -> None:
    """Wait until the broker shows a certificate of this authority."""
    host, _, port = server.address.partition(":")

    def is_shown() -> bool:
        return was_issued_by(ssl.get_server_certificate((host, int(port))), [authority])

    wait_until(is_shown, "the certificate of the other authority", 20)


@pytest.mark.deep
def test_an_authority_is_exchanged_while_clients_work(tmp_path: Path, run: Run) -> None:
    server = SecureServer(tmp_path)
    try:
        server.start()

        def rotate(step: str) -> None:
            done = run("certificates", "rotate", step, "--data", server.data)
            assert done.code == 0, done.err

        first = (server.data / "ca.pem").read_text()
        late = server.librdkafkas()
        with at_work(late):
            rotate("trust")
            both = (server.data / "ca.pem").read_text()
            assert both.startswith(first)
            rotate("trust")  # again, as after a crash
            assert (server.data / "ca.pem").read_text() == both
        second = both.removeprefix(first)
        shown = run("certificates", "show", "--data", server.data, "--json").out
        assert [each["file"] for each in json.loads(shown)] == ["ca.pem", "ca.pem", "broker.pem"]
        current = server.librdkafkas()
        with at_work(current):
            rotate("issue")  # whether the broker has seen what was trusted or not
            refused = run("certificates", "rotate", "drop", "--data", server.data)
            assert "shows no certificate of the other authority yet" in refused.err
            wait_until_shown(server, second)
            assert not is_let_in(late), "it was not told of the other authority"
            rotate("drop")
            assert (server.data / "ca.pem").read_text() == second
            assert is_let_in(server.librdkafkas())
        for each in (server.data).iterdir():
            assert each.is_socket() or each.stat().st_mode & 0o077 == 0, each
        server.stop()
        server.start()  # uses what is there
        assert is_let_in(server.librdkafkas())
        server.check_output()
    finally:
        server.close()


@pytest.fixture
def folder(server: SecureServer, tmp_path: Path) -> Path:
    """A copy of a server's files."""
    made = tmp_path / "copy"
    made.mkdir()
    for each in server.data.glob("*.pem"):
        shutil.copy(each, made)
    return made


def test_steps_are_refused_out_of_order(folder: Path, run: Run) -> None:
    def rotate(step: str) -> str:
        return run("certificates", "rotate", step, "--data", folder).err

    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    assert "'trust' makes it" in rotate("issue")
    assert "there is no former one" in rotate("drop")
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
    assert rotate("trust") == ""
    assert "'issue' first" in rotate("drop")
    assert rotate("issue") == ""
    assert "'drop' first" in rotate("trust")
    assert "'drop' is next" in rotate("issue"), "as after a crash"
    assert rotate("drop") == ""
    assert rotate("trust") == ""


def test_the_files_of_clients_name_no_folder_from_which_it_was_done(
    server: SecureServer, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(server.client_properties, folder)
    monkeypatch.chdir(folder.parent)
    assert run("certificates", "rotate", "trust", "--data", folder.name).code == 0
    assert f"ssl.ca.location={folder}/ca.pem\n" in (folder / "kcat.conf").read_text()


def test_an_authority_that_is_kept_elsewhere_is_not_needed(folder: Path, run: Run) -> None:
    (folder / "authority.pem").unlink()
    for step in ("trust", "issue", "drop"):
        assert run("certificates", "rotate", step, "--data", folder).code == 0
    ca, broker = ((folder / each).read_text() for each in ("ca.pem", "broker.pem"))
    assert was_issued_by(broker, [ca])
    assert ca in (folder / "authority.pem").read_text()


def test_certificates_of_others_are_left(folder: Path, run: Run) -> None:
    (folder / "broker.pem").write_text(Authority.make("another").issue("own", ["localhost"]))
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    refused = run("certificates", "rotate", "trust", "--data", folder)
    assert (refused.code, "is of no authority in" in refused.err) == (1, True)
    (folder / "broker.pem").unlink()
    refused = run("certificates", "rotate", "trust", "--data", folder)
    assert (refused.code, "has no certificate of a broker" in refused.err) == (1, True)
    for damaged in (b"none", b"\xff\xfe\x00"):
        (folder / "broker.pem").write_bytes(damaged)
        for command in ("show", "renew", "rotate trust"):
            refused = run("certificates", *command.split(), "--data", folder)
            why = f"drumlin: {folder / 'broker.pem'}: it has no certificate that can be read"
            assert (refused.code, refused.err.strip()) == (1, why), command
    (folder / "broker.pem").unlink()
    (folder / "ca.pem").write_text("none")
    refused = run("certificates", "rotate", "trust", "--data", folder)
    assert (refused.code, f"{folder / 'ca.pem'}: it has no certificate" in refused.err) == (1, True)
    assert (folder / "authority.pem").read_bytes() == before["authority.pem"]


def test_passwords_change_while_sessions_stay(
    server: SecureServer, run: Run, tmp_path: Path
) -> None:
    """The administrator's too, in copies of the files."""
    properties = decode_properties(server.client_properties.read_bytes())
    login = "sasl.jaas.config"
    admins = server.librdkafkas()["sasl.password"]

    def as_user(name: str, password: str) -> dict[str, str]:
        module = properties[login].replace(admins, password)
        return properties | {login: module.replace("admin", name)}

    def command(*arguments: str, password: str, by: str = admins) -> None:
        config = tmp_path / f"{by}.properties"  # what a file says is remembered
        config.write_text(encode_properties(as_user("admin", by)))
        done = run("users", *arguments, "--config", config, typed=password)
        assert done.code == 0, done.err

    def connected(name: str, password: str) -> drumlin.Client:
        return drumlin.connect(server.address, security=as_user(name, password))

    def is_refused(name: str, password: str) -> bool:
        with pytest.raises(AuthenticationFailed), connected(name, password):
            pass
        return True

    command("add", "carol", password="first")
    with connected("carol", "first") as working:
        assert working.list_topics() == []
        command("passwd", "carol", password="second")
        assert working.list_topics() == [], "its session stays"
    assert is_refused("carol", "first")
    with connected("carol", "second"):
        pass
    command("passwd", "admin", password="another")
    try:
        assert is_refused("admin", admins)
    finally:  # for others
        command("passwd", "admin", password=admins, by="another")
    with connected("admin", admins):
        pass
