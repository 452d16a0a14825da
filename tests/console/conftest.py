"""A broker with users and rights, and a console for those without and for those with a login."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.console_process import ConsoleProcess, Visitor
from drumlin.securing.authority import Authority
from rig.brokers.old_records import KEPT
from rig.brokers.secured_drumlin import SecuredDrumlin, running_secured_drumlin
from rig.servers.schema_registry import RegistryRig, running_registry

_UNSIGNED = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)


@contextlib.contextmanager
def running_console(directory: Path, *arguments: str) -> Iterator[ConsoleProcess]:
    """One that runs meanwhile, ends cleanly, and shows no traceback."""
    console = ConsoleProcess(directory, *arguments)
    try:
        console.start()
        yield console
        assert console.terminate() == 0
    finally:
        console.close()
    assert "Traceback" not in console.said(), console.said()


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredDrumlin]:
    settings = KEPT | {"group.initial.rebalance.delay.ms": "0", "message.max.bytes": "110000000"}
    settings |= {  # tokens that nobody has signed: what is tested is how they get there
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "listener.name.login.oauthbearer.sasl.jaas.config": _UNSIGNED,
    }
    with running_secured_drumlin(tmp_path_factory.mktemp("broker"), settings) as server:
        yield server


@pytest.fixture(scope="package")
def registry() -> Iterator[RegistryRig]:
    """The schema registry of `open_console`."""
    with running_registry() as registry:
        yield registry


@pytest.fixture(scope="package")
def open_console(
    broker: SecuredDrumlin, registry: RegistryRig, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console of the listener without logins, with a way to ask the operator's questions."""
    arguments = ("--bootstrap", broker.address, "--data", str(broker.data))
    arguments += ("--registry", registry.url)
    with running_console(tmp_path_factory.mktemp("open"), *arguments) as console:
        yield console


@pytest.fixture(scope="package")
def login_console(
    broker: SecuredDrumlin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    """A console by TLS, of the listener where users log in."""
    directory = tmp_path_factory.mktemp("login")
    arguments = ("--bootstrap", f"127.0.0.1:{broker.login_port}", "--login", "plain")
    arguments += ("--editor", "root", "--editor", "alice")
    arguments += ("--data", str(broker.data), "--allow-host", "console.example")
    certificate = directory / "console.pem"
    certificate.write_text(Authority.make("tests").issue("console", ["console.example"]))
    arguments += ("--tls-certificate", str(certificate))
    with running_console(directory, *arguments) as console:
        yield console


@pytest.fixture
def visitor(open_console: ConsoleProcess) -> Visitor:
    """Someone who is in."""
    visitor = Visitor(open_console)
    assert visitor.login().status == 200
    return visitor
