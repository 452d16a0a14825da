"""Authentication between brokers: a broker connects as a client to another's listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from drumlin.broker.login.certificates.server_tls import server_tls
from drumlin.broker.login.login_settings import jaas_of
from drumlin.broker.login.mechanisms import plain
from drumlin.broker.login.mechanisms.scram import HASHES
from drumlin.config.config_error import ConfigError
from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import Login, Plain, Scram, Tls

if TYPE_CHECKING:
    from collections.abc import Callable

    from drumlin.broker.login.certificates.server_tls import ServerTls
    from drumlin.broker.login.machine_secret import MachineSecret
    from drumlin.config.broker import BrokerConfig

_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"


def security_between_brokers(
    config: BrokerConfig, secret: MachineSecret | None
) -> Callable[[int], Security]:
    """The security of connections to another broker, by its id: that of the inter-broker listener.
    Reads files.

    `secret`: the machine's, if all brokers of the cluster are on one machine.

    Raises:
        ConfigError: the settings are not valid, or have no name and password for the login.
    """
    listener = config.inter_broker_listener_name
    protocol = config.listener_security_protocol_map[listener]
    tls = None
    if protocol.endswith("SSL"):
        tls = as_client(config, listener, server_tls(config, listener))
    if secret is not None and knows_machine(config, listener):
        return lambda node_id: Security(tls, secret.login_at(node_id))
    login = _login(config, listener) if protocol.startswith("SASL") else None
    security = Security(tls, login)
    return lambda _: security


def knows_machine(config: BrokerConfig, listener: str) -> bool:
    """Whether the brokers of one machine authenticate each other at this listener."""
    if listener != config.inter_broker_listener_name:
        return False
    has_rights = bool(str(config.value("authorizer.class.name") or "").strip())
    return has_rights or config.listener_security_protocol_map[listener].startswith("SASL")


def as_client(config: BrokerConfig, listener: str, tls: ServerTls) -> Tls:
    """The TLS of a broker as a client: it has the certificates and CAs of its listener."""
    return Tls(
        ca=tls.trusted,
        certificate=tls.shown,
        key_password=tls.key_password,
        check_host_name=bool(config.of_listener(listener, "ssl.endpoint.identification.algorithm")),
        versions=tls.versions,
    )


def _login(config: BrokerConfig, listener: str) -> Login:
    mechanism = str(config.of_listener(listener, _MECHANISM))
    if mechanism != plain.MECHANISM and mechanism not in HASHES:
        allowed = f"must be one of {plain.MECHANISM}, {', '.join(HASHES)}"
        raise ConfigError(_MECHANISM, mechanism, allowed)
    options = jaas_of(config, listener, mechanism)
    name, password = options.get("username"), options.get("password")
    if not name or not password:
        key = f"{mechanism.lower()}.sasl.jaas.config of listener {listener}"
        allowed = "needs username and password, by which brokers log in at each other"
        raise ConfigError(key, "...", allowed)
    if mechanism == plain.MECHANISM:
        return Plain(name, password)
    return Scram(name, password, mechanism)  # type: ignore[arg-type]  # one of the two
