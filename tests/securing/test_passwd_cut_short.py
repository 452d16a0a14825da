"""`drumlin users passwd`, killed at any of its writes: each of the user's files, or the new one
beside it, has the password that counts; the command, done again, makes a whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import pytest

import drumlin
from drumlin.broker.login.mechanisms.scram import HASHES, ScramCredential
from drumlin.broker.login.users import user
from drumlin.client.errors import AuthenticationFailed
from drumlin.config.broker import BrokerConfig
from drumlin.config.properties import decode_properties
from drumlin.metadata.embedded.database import Database
from drumlin.peer.security.secret import Secret
from drumlin.securing.client_files import Connection, connection_in
from drumlin.securing.own_files import NEW
from drumlin.securing.stored_users import put_user, stopped_metadata
from rig.brokers.secure_server import SecureServer
from rig.fault_injection.injector import CHANGES, Call
from securing.killed_commands import killed_commands

_FORMER, _NEXT = "the former one", "the next one"
_FILES = ("client.json", "kcat.conf", "client.properties")


def _password_in(path: Path) -> str:
    if "json" in path.name:
        return str(json.loads(path.read_text())["sasl.password"])
    if "kcat" in path.name:
        return decode_properties(path.read_bytes())["sasl.password"]
    known = connection_in(path)
    assert known is not None
    return known.password.reveal()


def _told(folder: Path) -> list[set[str]]:
    """For each file, the passwords that it and the new one beside it have."""
    return [
        {_password_in(each) for each in (folder / name, folder / f"{name}{NEW}") if each.exists()}
        for name in _FILES
    ]


def _check_whole(folder: Path) -> None:
    assert _told(folder) == [{_NEXT}] * 3
    assert not [*folder.glob("*.new"), *folder.glob(".*.tmp")]
    for each in folder.glob("[!.]*"):
        assert each.stat().st_mode & 0o077 == 0, each


def _stored(data: Path) -> str:
    """The password that the metadata has."""
    with closing(Database(data / "drumlin-metadata.sqlite")) as opened:
        texts = opened.load("").configs(user("admin"))
    counting = [each for each in (_FORMER, _NEXT) if _are_of(each, texts)]
    assert len(counting) == 1
    return counting[0]


def _are_of(password: str, texts: dict[str, str]) -> bool:
    assert texts.keys() == HASHES.keys()
    return all(_is_of(password, mechanism, text) for mechanism, text in texts.items())


def _is_of(password: str, mechanism: str, text: str) -> bool:
    known = ScramCredential.of_text(text)
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), known.salt, known.iterations)
    return ScramCredential.of_salted(mechanism, known.salt, salted, known.iterations) == known


@pytest.mark.parametrize(
    "calls",
    [{Call.RENAME}, pytest.param(CHANGES, marks=pytest.mark.deep)],
    ids=["replacements", "all"],
)
def test_while_the_broker_does_not_run(tmp_path: Path, calls: Collection[Call]) -> None:
    first = tmp_path / "first"
    first.mkdir(mode=0o700)
    with stopped_metadata(BrokerConfig({"log.dirs": str(first)})) as opened:
        opened.execute_durably(put_user("admin", Secret(_FORMER)))
    Connection("127.0.0.1:1", "admin", Secret(_FORMER), "no certificate").write(first)
    data = tmp_path / "data"
    shutil.copytree(first, data)
    command = "users", "passwd", "admin", "--data", data
    with killed_commands(data, calls) as commands:
        for _ in commands.each_kill(*command, typed=_NEXT):
            counting = _stored(data)
            assert all(counting in each for each in _told(data))
            assert commands.run(*command, typed=_NEXT) == 0
            assert _stored(data) == _NEXT
            _check_whole(data)
            shutil.rmtree(data)
            shutil.copytree(first, data)


@pytest.mark.deep
def test_while_it_runs(server: SecureServer, tmp_path: Path) -> None:
    """Each file, or the one beside it, lets its user in."""
    admin = connection_in(server.client_properties)
    assert admin is not None
    first = tmp_path / "first"
    first.mkdir(mode=0o700)
    Connection(admin.bootstrap, "dora", Secret(_FORMER), admin.ca).write(first)
    folder = tmp_path / "dora"
    shutil.copytree(first, folder)
    login = decode_properties(server.client_properties.read_bytes())

    def is_let_in(password: str) -> bool:
        own = login["sasl.jaas.config"].replace(admin.password.reveal(), password)
        settings = login | {"sasl.jaas.config": own.replace('"admin"', '"dora"')}
        try:
            with drumlin.connect(admin.bootstrap, security=settings):
                return True
        except AuthenticationFailed:
            return False

    by = "--config", server.client_properties

    def run(what: str, password: str) -> None:
        assert commands.run("users", what, "dora", *by, typed=password) == 0

    with killed_commands(folder, CHANGES) as commands:
        run("add", _FORMER)
        rights = "-u", "dora", "-o", "alter", "-o", "describe", "--cluster"
        assert commands.run("acls", "add", *rights, *by) == 0
        own = "--config", folder / "client.properties"
        for _ in commands.each_kill("users", "passwd", "dora", *own, typed=_NEXT):
            counting = [each for each in (_FORMER, _NEXT) if is_let_in(each)]
            assert len(counting) == 1
            assert all(counting[0] in each for each in _told(folder))
            run("passwd", _FORMER)
            shutil.rmtree(folder)
            shutil.copytree(first, folder)
        assert commands.run("acls", "remove", *rights[:2], "--yes", *by) == 0
        assert commands.run("users", "remove", "dora", "--yes", *by) == 0
