"""`drumlin server --secure`: makes all files at the first start; later starts use them.

After a crash at any point, the next start completes what is missing: the administrator's password
is in its file before the user is created, and one commit to the metadata creates the user and
notes that this was done.
"""

from __future__ import annotations

import os
import secrets
import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drumlin.broker.login.mechanisms.plain import MECHANISM as PLAIN
from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.config.keys import broker_keys
from drumlin.config.listeners import Listener, parse_listeners, parse_protocol_map
from drumlin.metadata.embedded.database import put_value
from drumlin.peer.security.secret import Secret
from drumlin.securing import client_files
from drumlin.securing.authority import can_be_in_a_certificate, read_pem
from drumlin.securing.client_files import Connection, read_connection, with_address
from drumlin.securing.issuing import BROKER, certify
from drumlin.securing.private_files import make_private_folder
from drumlin.securing.stored_users import put_user, stopped_metadata

PROTOCOL: Final = "SASL_SSL"

ADMIN: Final = "admin"
PASSWORD_BYTES: Final = 24
#: The key in the metadata which notes that the administrator was created.
_HAS_ADMIN: Final = "administrator_made"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
#: Keys that --secure sets, and keys that would make it less secure; those of a single listener
#: may be set.
TAKEN: Final = (
    "authorizer.class.name",
    "inter.broker.listener.name",
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "security.inter.broker.protocol",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "zookeeper.connect",
)


@dataclass(frozen=True)
class SecuredServer:
    """A server's configuration, and a text for the operator once it is ready."""

    properties: Mapping[str, str]
    told: str


def secured_server(properties: Mapping[str, str], brokers: int) -> SecuredServer:
    """Make the missing files in the first log dir. Blocks; all files that this process and its
    children make from now on are private.

    Raises:
        ConfigError: the configuration contradicts --secure.
        StartFailed: another broker runs, or the metadata cannot be used.
        OSError: the files cannot be written.
    """
    for key in TAKEN:
        if properties.get(key, "").strip():
            raise ConfigError(key, properties[key], _why_not(key))
    given = {"listeners": f"{PROTOCOL}://:9092", **properties}
    _check_listeners(given)
    folder = Path(BrokerConfig.load(_plain(given), brokers).log_dirs[0]).absolute()
    own = _settings(given, folder)
    config = BrokerConfig.load(own, brokers)
    own |= _logins(config)
    os.umask(0o077)
    make_private_folder(folder, key="log.dirs")
    certify(folder, {folder / BROKER: hosts_told(config)})
    connection = _administrator(folder, config)
    return SecuredServer(own, "" if connection is None else how_to_connect(folder))


def _why_not(key: str) -> str:
    if key == "zookeeper.connect":
        return (
            "must not be set with --secure, which secures one machine and no cluster with ZooKeeper"
        )
    return "must not be set with --secure, which sets it; listener.name.sasl_ssl.… may be"


def _plain(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that locate the data, without those that depend on the others."""
    return {name: properties[name] for name in ("log.dir", "log.dirs") if name in properties}


def _settings(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    super_users = filter(None, [given.get("super.users", "").strip(), f"User:{ADMIN}"])
    return {
        **given,
        "authorizer.class.name": AUTHORIZER,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        "security.inter.broker.protocol": PROTOCOL,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / BROKER),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / client_files.CA),
        "super.users": ";".join(super_users),
    }


def _check_listeners(given: Mapping[str, str]) -> None:
    key = "listener.security.protocol.map"
    protocols = parse_protocol_map(key, given.get(key) or str(broker_keys()[key].default))
    listed = tuple(filter(None, (each.strip() for each in given["listeners"].split(","))))
    for each in parse_listeners("listeners", listed):
        protocol = protocols.get(each.name, "unknown")
        shown = f"{each.name}://{each.host}:{each.port}"
        if protocol != PROTOCOL:
            allowed = f"must be {PROTOCOL}://HOST:PORT with --secure, as {each.name} is {protocol}"
            raise ConfigError("listeners", shown, allowed)
        if not each.port:
            allowed = "needs a port with --secure: the files for clients name it"
            raise ConfigError("listeners", shown, allowed)


def _logins(config: BrokerConfig) -> dict[str, str]:
    """A login for other brokers, which the configuration requires, but no broker accepts.

    The only brokers are those of one machine, which authenticate each other by another secret.
    """
    login = f'{_MODULE} required username="nobody" password="{secrets.token_urlsafe()}";'
    listeners = (each.name.lower() for each in config.listeners)
    return {f"listener.name.{each}.plain.sasl.jaas.config": login for each in listeners}


# -- hosts ---------------------------------------------------------------------------------------


def hosts_told(config: BrokerConfig) -> list[str]:
    """The hosts that this broker advertises to clients, and those that it listens on."""
    told = [_host(each) for each in config.advertised_listeners]
    own = [each.host for each in config.listeners if each.host not in ("", "::", "0.0.0.0")]  # noqa: S104
    return [each for each in dict.fromkeys([*told, *own]) if can_be_in_a_certificate(each)]


def _host(listener: Listener) -> str:
    return listener.host or socket.getfqdn()


# -- the administrator ---------------------------------------------------------------------------


def _administrator(folder: Path, config: BrokerConfig) -> Connection | None:
    """Make the administrator, and keep its connection files up to date.

    None if the files no longer exist, or were edited.
    """
    bootstrap = _bootstrap(config)
    ca = read_pem(folder / client_files.CA)
    known = read_connection(folder)
    with stopped_metadata(config) as opened:
        if opened.value(_HAS_ADMIN) is None:
            if known is None or known.user != ADMIN:
                password = Secret(secrets.token_urlsafe(PASSWORD_BYTES))
                known = Connection(bootstrap, ADMIN, password, ca)
                known.write(folder)
            made = put_user(ADMIN, known.password)
            opened.execute_durably([*made, put_value(_HAS_ADMIN, 1)])
    if known is not None and (known.bootstrap, known.ca) != (bootstrap, ca):
        known = with_address(known, bootstrap, ca)
        known.write(folder)
    return known


def _bootstrap(config: BrokerConfig) -> str:
    first = config.advertised_listeners[0]
    return Listener(first.name, _host(first), first.port).address


def how_to_connect(folder: Path) -> str:
    """The lines that tell the operator how the administrator connects."""
    properties, kcat = (
        shlex.quote(str(folder / each)) for each in (client_files.PROPERTIES, client_files.KCAT)
    )
    return f"connect: drumlin topics list --config {properties}\n     or: kcat -F {kcat} -L"
