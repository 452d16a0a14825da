"""`drumlin certificates rotate`, killed at any of its writes: then a server starts, clients trust
what brokers show, and the step, done again, makes a whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from drumlin.broker.login.doors import tls_of
from drumlin.config.broker import BrokerConfig
from drumlin.peer.security.secret import Secret
from drumlin.securing import rotation
from drumlin.securing.authority import split_certificates, was_issued_by
from drumlin.securing.client_files import Connection, read_connection
from drumlin.securing.issuing import brokers_in, certify
from drumlin.securing.rotation import RotationRefused
from drumlin.securing.secured_server import secured_server
from rig.fault_injection.injector import CHANGES, Call
from rig.ports import free_ports
from securing.killed_commands import killed_commands

_STEPS = {"trust": rotation.trust, "issue": rotation.issue, "drop": rotation.drop}


def _starts(folder: Path, copy: Path) -> None:
    """A server starts with a copy of the files, and what it shows is trusted by all."""
    shutil.copytree(folder, copy)
    known = read_connection(folder)
    assert known is not None
    own = {"log.dirs": str(copy), "listeners": f"SASL_SSL://{known.bootstrap}"}
    umask = os.umask(0o077)
    try:
        config = BrokerConfig.load(secured_server(own, 1).properties, 1)
        tls_of(config, "SASL_SSL")
    finally:
        os.umask(umask)
        shutil.rmtree(copy)
    options = json.loads((folder / "client.json").read_text())
    for broker in brokers_in(folder):
        for ca in ((folder / "ca.pem").read_text(), known.ca, options["ssl.ca.pem"]):
            assert was_issued_by(broker.read_text(), split_certificates(ca))


def _is_whole(folder: Path) -> None:
    """One authority is left, and all files are of it."""
    ca = (folder / "ca.pem").read_text()
    known = read_connection(folder)
    assert known is not None
    assert len(split_certificates(ca)) == 1
    assert known.ca == ca == json.loads((folder / "client.json").read_text())["ssl.ca.pem"]
    assert ca in (folder / "authority.pem").read_text()
    assert was_issued_by((folder / "broker.pem").read_text(), [ca])
    assert not [each for each in folder.iterdir() if "next" in each.name or "tmp" in each.name]


@contextmanager
def _told_if_nothing_is_left(folder: Path, after: Sequence[str]) -> Iterator[None]:
    """The step is refused only if all of it was done before, and names the next one."""
    try:
        yield
    except RotationRefused as refusal:
        if after:
            assert f"'{after[0]}' is next" in str(refusal)
        else:
            assert "there is no former one" in str(refusal)
            _is_whole(folder)


@pytest.mark.parametrize(
    "calls",
    [{Call.RENAME}, pytest.param(CHANGES, marks=pytest.mark.deep)],
    ids=["replacements", "all"],
)
@pytest.mark.parametrize("step", _STEPS)
def test_a_step_killed_at_any_write(tmp_path: Path, step: str, calls: frozenset[Call]) -> None:
    first = tmp_path / "first"
    first.mkdir()
    certify(first, {first / "broker.pem": ["127.0.0.1"]})
    ca = (first / "ca.pem").read_text()
    Connection(f"127.0.0.1:{free_ports(1)[0]}", "admin", Secret("secret"), ca).write(first)
    before = list(_STEPS)[: list(_STEPS).index(step)]
    after = list(_STEPS)[len(before) + 1 :]
    for each in before:
        _STEPS[each](first)

    folder = tmp_path / "cut-short"
    shutil.copytree(first, folder)
    with killed_commands(folder, calls) as commands:
        for _ in commands.each_kill("certificates", "rotate", step, "--data", folder):
            _starts(folder, tmp_path / "copy")
            with _told_if_nothing_is_left(folder, after):
                _STEPS[step](folder)
            _starts(folder, tmp_path / "copy")
            for each in after:
                _STEPS[each](folder)
            _is_whole(folder)
            shutil.rmtree(folder)
            shutil.copytree(first, folder)


def test_the_files_of_clients_are_of_the_step_before(tmp_path: Path) -> None:
    """`issue` is refused if `trust` was cut short before the administrator's file was written."""
    certify(tmp_path, {tmp_path / "broker.pem": ["127.0.0.1"]})
    ca = (tmp_path / "ca.pem").read_text()
    Connection("127.0.0.1:1", "admin", Secret("secret"), ca).write(tmp_path)
    properties = (tmp_path / "client.properties").read_bytes()
    rotation.trust(tmp_path)
    (tmp_path / "client.properties").write_bytes(properties)
    with pytest.raises(RotationRefused, match=r"client\.properties does not have the other"):
        rotation.issue(tmp_path)
    rotation.trust(tmp_path)
    rotation.issue(tmp_path)


def test_drop_looks_at_all_brokers_of_the_machine(tmp_path: Path) -> None:
    certify(tmp_path, {tmp_path / "broker.pem": ["127.0.0.1"]})
    ca = (tmp_path / "ca.pem").read_text()
    (tmp_path / ".brokers" / "2").mkdir(parents=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "broker.pem")
    with socket.create_server(("127.0.0.1", 0)) as second:
        port = second.getsockname()[1]

        def show() -> None:
            for _ in range(2):
                peer, _ = second.accept()
                with contextlib.suppress(OSError), context.wrap_socket(peer, server_side=True):
                    pass

        shower = threading.Thread(target=show)
        shower.start()
        Connection(f"127.0.0.1:{port - 1}", "admin", Secret("secret"), ca).write(tmp_path)
        rotation.trust(tmp_path)
        rotation.issue(tmp_path)
        with pytest.raises(RotationRefused, match=f"127.0.0.1:{port} shows no certificate"):
            rotation.drop(tmp_path)
        context.load_cert_chain(tmp_path / "broker.pem")
        rotation.drop(tmp_path)
        shower.join(10)
        assert not shower.is_alive()
