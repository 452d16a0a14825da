"""Certificates exchanged while a broker runs; and whom it lets in by theirs, before and after."""

from __future__ import annotations

import os
import re
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from rig.brokers.drumlin_server import DrumlinServer
from rig.data.authority import Authority, Issued
from rig.data.raw import RawClient
from rig.ports import free_ports
from rig.waiting import wait_until

_BROKER, _SET, _INVALID_REQUEST = 4, 0, 42
_PASSWORD = "open sesame"
_PADDED = 8192
_REFUSED = re.compile("alert|reset|closed|EOF")


class Renewed(DrumlinServer):
    """A server with TLS: "tls" for anybody, "mutual" for brokers, and clients with a certificate.

    Another authority has signed the certificates of clients.
    """

    def __init__(self, folder: Path) -> None:
        file = folder / "server.properties"
        super().__init__(folder, properties_file=file)
        self.folder = folder
        self.servers, self.clients = Authority("servers"), Authority("clients")
        self.ports = dict(zip(("tls", "mutual"), free_ports(2), strict=True))
        self.write("clients.crt", self.servers.pem + self.clients.pem)
        for name in self.ports:
            self.show(name, self.servers.issue("broker"))
        listed = f"PLAINTEXT://127.0.0.1:{self.port}," + ",".join(
            f"{name.upper()}://localhost:{port}" for name, port in self.ports.items()
        )
        properties = {
            "listeners": listed,
            "advertised.listeners": listed,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL",
            "inter.broker.listener.name": "MUTUAL",
            "listener.name.tls.ssl.keystore.location": f"{folder / 'tls.pem'}",
            "listener.name.mutual.ssl.keystore.location": f"{folder / 'mutual.pem'}",
            "listener.name.mutual.ssl.truststore.location": f"{folder / 'clients.crt'}",
            "listener.name.mutual.ssl.client.auth": "required",
        }
        file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def show(self, listener: str, issued: Issued) -> int:
        """Write a certificate to a listener's file; returns its number."""
        self.write(f"{listener}.pem", issued.pem)
        return issued.serial

    def context(self, shown: Issued | None = None) -> ssl.SSLContext:
        """Of a client that shows a certificate."""
        context = ssl.create_default_context(cadata=self.servers.pem)
        context.check_hostname = False
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # a refusal comes in the handshake
        if shown is not None:
            file = self.write("client.pem", shown.pem)
            context.load_cert_chain(file)
        return context

    def connect_tls(
        self,
        listener: str,
        shown: Issued | None = None,
        name: str | None = None,
        resumed: ssl.SSLSocket | None = None,
    ) -> ssl.SSLSocket:
        """
        resumed: a connection whose TLS session is continued, with its certificate.

        Raises:
            OSError: it is not let in.
        """
        context = self.context(shown) if resumed is None else resumed.context
        sock = socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=20)
        session = None if resumed is None else resumed.session
        return context.wrap_socket(sock, server_hostname=name, session=session)

    def serial(self, listener: str, name: str | None = None) -> int:
        """The number of the certificate that a new connection is shown."""
        shown = None if listener == "tls" else self.clients.issue("alice")
        with self.connect_tls(listener, shown, name) as sock:
            return _serial(sock)

    def await_serial(self, listener: str, serial: int) -> None:
        wait_until(lambda: self.serial(listener) == serial, "the new certificate")

    def alter(self, configs: Mapping[str, str], *, only_check: bool = False) -> tuple[int, str]:
        """The error of a change of this broker's configuration."""
        changes = [
            {"name": name, "config_operation": _SET, "value": value}
            for name, value in configs.items()
        ]
        with self.connect() as client:
            answer = client.ask(
                "incremental_alter_configs",
                1,
                resources=[{"resource_type": _BROKER, "resource_name": "1", "configs": changes}],
                validate_only=only_check,
            )
        return answer.responses[0].error_code, answer.responses[0].error_message or ""

    def changed(self) -> set[str]:
        """The keys that were changed at run time."""
        with self.connect() as client:
            answer = client.ask(
                "describe_configs",
                4,
                resources=[
                    {"resource_type": _BROKER, "resource_name": "1", "configuration_keys": None}
                ],
                include_synonyms=False,
                include_documentation=False,
            )
        dynamic = 2
        entries = answer.results[0].configs
        assert not any(each.value and "PRIVATE" in each.value for each in entries)
        return {each.name for each in entries if each.config_source == dynamic}


def _serial(sock: ssl.SSLSocket) -> int:
    der = sock.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).serial_number


def _is_served(sock: ssl.SSLSocket) -> bool:
    client = RawClient.__new__(RawClient)
    client.client_id, client.socket, client._correlation_id = "raw", sock, 0
    return bool(client.ask("metadata", 12, topics=[]).cluster_id)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Renewed]:
    server = Renewed(tmp_path_factory.mktemp("renewed"))
    try:
        server.start()
        yield server
    finally:
        server.close()
    server.check_output()


def test_a_file_that_changes_is_for_new_connections(server: Renewed) -> None:
    with server.connect_tls("tls") as old:
        former = _serial(old)
        issued = server.servers.issue("broker", ("localhost", "elsewhere.example"))
        server.await_serial("tls", server.show("tls", issued))
        assert _serial(old) == former
        assert _is_served(old)
    assert server.serial("tls", "other.example") == issued.serial, "the name asked for is no matter"


def test_a_hangup_reads_files_again(server: Renewed) -> None:
    """Also where nobody could see that they have changed."""
    path = server.folder / "tls.pem"
    issued = [server.servers.issue("broker", ("localhost", "elsewhere.example")) for _ in "12"]
    server.write("tls.pem", issued[0].pem.ljust(_PADDED))
    server.await_serial("tls", issued[0].serial)
    mark = path.stat()
    server.write("tls.pem", issued[1].pem.ljust(_PADDED))
    os.utime(path, ns=(mark.st_atime_ns, mark.st_mtime_ns))
    os.kill(server.pid, signal.SIGHUP)
    server.await_serial("tls", issued[1].serial)


def _bad_file(server: Renewed) -> dict[str, str]:
    return {"listener.name.tls.ssl.keystore.location": str(server.folder / "nowhere.pem")}


def _bad_password(server: Renewed) -> dict[str, str]:
    store = server.folder / "locked.p12"
    store.write_bytes(server.servers.issue("broker").pkcs12(_PASSWORD))
    return {
        "listener.name.tls.ssl.keystore.location": str(store),
        "listener.name.tls.ssl.keystore.password": "close sesame",
    }


def _at(listener: str, make: Callable[[Renewed], Issued]) -> Callable[[Renewed], dict[str, str]]:
    def configs(server: Renewed) -> dict[str, str]:
        path = server.write("wanted.pem", make(server).pem)
        return {f"listener.name.{listener}.ssl.keystore.location": path}

    return configs


def _other_users(_: Renewed) -> dict[str, str]:
    return {"listener.name.tls.plain.sasl.jaas.config": 'P required user_eve="eve";'}


def _no_trust(server: Renewed) -> dict[str, str]:
    path = server.write("wanted.crt", server.clients.pem)
    return {"listener.name.mutual.ssl.truststore.location": path}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_bad_file, "nowhere.pem: No such file or directory"),
        (_bad_password, "is its password right?"),
        (_at("tls", lambda server: server.servers.issue("another")), "is for CN=another"),
        (_at("tls", lambda server: server.servers.issue("broker", ())), "no longer for DNSName"),
        (
            _at("tls", lambda server: server.servers.issue("broker", days=-1)),
            "not valid now",
        ),
        (
            _at("mutual", lambda _: Authority("strangers").issue("broker")),
            "brokers would not trust",
        ),
        (_no_trust, "brokers would not trust"),
        (
            lambda _: {"listener.name.tls.ssl.truststore.location": "x"},
            "x: No such file or directory",
        ),
        (
            lambda server: {
                "listener.name.tls.ssl.truststore.location": str(server.folder / "clients.crt")
            },
            "not be added or removed",
        ),
        (_other_users, "cannot be changed while the broker runs"),
    ],
    ids=[
        "no file",
        "wrong password",
        "another name",
        "fewer hosts",
        "expired",
        "another authority",
        "no trust",
        "no truststore",
        "a new truststore",
        "users of PLAIN",
    ],
)
def test_what_is_not_good_is_refused_and_not_kept(
    server: Renewed, make: Callable[[Renewed], dict[str, str]], why: str
) -> None:
    configs = make(server)
    listener = next(iter(configs)).split(".")[2]
    serial, before = server.serial(listener), server.changed()
    for only_check in (True, False):
        code, message = server.alter(configs, only_check=only_check)
        assert code == _INVALID_REQUEST
        assert why in message
        assert "sesame" not in message
    assert server.serial(listener) == serial
    assert server.changed() == before


def test_a_file_that_is_not_good_is_left(server: Renewed) -> None:
    serial, said_before = server.serial("mutual"), len(server.said())
    good = (server.folder / "mutual.pem").read_text()
    server.show("mutual", server.servers.issue("another"))
    wait_until(
        lambda: "MUTUAL keeps its certificate" in server.said()[said_before:], "the complaint"
    )
    assert "CN=another" in server.said()[said_before:]
    assert server.serial("mutual") == serial
    server.write("mutual.pem", good)


def test_whoever_has_no_good_certificate_is_not_let_in(server: Renewed) -> None:
    for shown in (
        None,
        server.clients.issue("alice", days=-1),
        server.clients.issue("alice", valid_in_days=1),
        Authority("clients").issue("alice"),
        Authority("alice").own,
        server.clients.issue("alice", use=ExtendedKeyUsageOID.SERVER_AUTH),
        server.clients.issue("alice", use=ExtendedKeyUsageOID.CODE_SIGNING),
        server.clients.issue("alice", tuple(f"{n}.example" for n in range(8000))),
    ):
        with pytest.raises(OSError, match=_REFUSED):
            server.connect_tls("mutual", shown).close()
    server.connect_tls(
        "mutual", server.clients.issue("alice", use=ExtendedKeyUsageOID.CLIENT_AUTH)
    ).close()


def test_a_change_of_the_configuration_is_for_new_connections_and_stays(server: Renewed) -> None:
    issued = server.servers.issue("broker", ("localhost", "elsewhere.example"))
    store = server.folder / "new.p12"
    store.write_bytes(issued.pkcs12(_PASSWORD))
    former = server.serial("tls")
    configs = {
        "listener.name.tls.ssl.keystore.location": str(store),
        "listener.name.tls.ssl.keystore.password": _PASSWORD,
    }
    assert server.alter(configs, only_check=True) == (0, "")
    assert server.serial("tls") == former
    assert server.alter(configs) == (0, "")
    assert server.serial("tls") == issued.serial
    assert set(configs) <= server.changed()
    server.restart()
    assert server.serial("tls") == issued.serial
    # As Apache Kafka's operators do it: the same path, for a file that has changed.
    again = server.servers.issue("broker", ("localhost", "elsewhere.example"))
    store.write_bytes(again.pkcs12(_PASSWORD))
    assert server.alter(configs) == (0, "")
    assert server.serial("tls") == again.serial


def test_an_authority_that_is_no_longer_trusted(server: Renewed) -> None:
    """The truststore is exchanged: whoever is in stays, and nobody else of it comes in, nor does
    he again by the session of TLS that he has.
    """
    alice = server.clients.issue("alice")
    others = Authority("others")
    with server.connect_tls("mutual", alice) as inside:
        with server.connect_tls("mutual", resumed=inside) as again:
            assert again.session_reused
        path = server.write("others.crt", server.servers.pem + others.pem)
        configs = {"listener.name.mutual.ssl.truststore.location": path}
        assert server.alter(configs) == (0, "")
        with pytest.raises(OSError, match=_REFUSED):
            server.connect_tls("mutual", alice).close()
        with pytest.raises(OSError, match=_REFUSED):
            server.connect_tls("mutual", resumed=inside).close()
        server.connect_tls("mutual", others.issue("bob")).close()
        assert _is_served(inside)
