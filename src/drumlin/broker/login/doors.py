"""The doors of a broker: each authenticates the connections of one listener.

A door makes the channel of a connection. Once that is open, the door either lets the peer in or
begins a login. When certificates change, a door takes a new TLS context; open connections keep the
old one (`renewal.py`).
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Final

from drumlin.broker.login.between_brokers import knows_machine
from drumlin.broker.login.certificates.mapping_rules import MappingRules, NoRule
from drumlin.broker.login.certificates.names import distinguished_name
from drumlin.broker.login.certificates.server_tls import ServerTls, context_of, server_tls
from drumlin.broker.login.dispatcher import LoginDispatcher, LoginSettings
from drumlin.broker.login.login_settings import login_settings, settings_of_machine
from drumlin.broker.login.mechanisms.scram import Credentials
from drumlin.broker.login.unasked import UnaskedDispatcher
from drumlin.broker.net.channel import Channel, NotLetIn, PlainChannel
from drumlin.broker.net.tls_channel import TlsChannel
from drumlin.broker.net.tls_records import RECEIVED_BYTES
from drumlin.broker.rights.session import ANONYMOUS, Session
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.config.config_error import ConfigError
from drumlin.peer.security.settings import SecurityOptionError

if TYPE_CHECKING:
    from drumlin.broker.login.machine_secret import MachineSecret
    from drumlin.broker.net.connection import Connection
    from drumlin.config.broker import BrokerConfig

#: Characters of a certificate's name that are logged.
_SHOWN_MAX: Final = 200


class Door:
    """The authentication of one listener's connections."""

    def __init__(
        self,
        listener: str,
        protocol: str,
        config: BrokerConfig,
        credentials: Credentials,
        secret: MachineSecret | None,
    ) -> None:
        """
        Raises:
            ConfigError: the listener's settings are not valid.
        """
        self.listener, self.counts = listener, ListenerCounts()
        self._login: LoginSettings | None = None
        #: The login of brokers of this machine, if other peers need none.
        self._brokers_login: LoginSettings | None = None
        knows = secret if knows_machine(config, listener) else None
        if protocol.startswith("SASL"):
            self._login = login_settings(config, listener, credentials, knows)
        elif knows is not None:
            self._brokers_login = settings_of_machine(config, listener, knows)
        self._context: ssl.SSLContext | None = None
        self._rules = _rules(config, listener)
        #: The listener's certificate and trusted CAs; None without TLS.
        self.tls: ServerTls | None = None
        self._received = bytearray()  # memory that the channels share
        if protocol.endswith("SSL"):
            self._received = bytearray(RECEIVED_BYTES)
            self.take(*tls_of(config, listener))

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection to a listener with TLS."""
        assert self._context is not None
        return self._context

    def take(self, tls: ServerTls, context: ssl.SSLContext) -> None:
        """Use these from the next connection on."""
        self.tls, self._context = tls, context

    def channel(self, sock: socket.socket, scratch: bytearray) -> Channel:
        """The channel of an accepted connection.

        Raises:
            OSError: the peer has gone.
        """
        if self._context is None:
            return PlainChannel(sock)
        return TlsChannel(sock, self._context, scratch=scratch, received=self._received)

    def greet(self, connection: Connection, channel: Channel) -> None:
        """Let the peer of an open channel in, or begin its login.

        Raises:
            NotLetIn: no mapping rule matches the peer's certificate.
        """
        if self._login is not None:
            connection.router = LoginDispatcher(self._login, connection.router)
            return
        certificate = channel.certificate()
        principal = ANONYMOUS if certificate is None else self._principal(certificate)
        if self._brokers_login is not None:
            connection.router = UnaskedDispatcher(self._brokers_login, connection.router)
        connection.let_in(Session(principal, channel.peer_host, self.listener))

    def _principal(self, certificate: bytes) -> str:
        name = distinguished_name(certificate)
        try:
            return f"User:{self._rules.name(name)}"
        except NoRule:
            message = f"no rule in ssl.principal.mapping.rules matches {name[:_SHOWN_MAX]!r}"
            raise NotLetIn(message) from None


def doors_of(
    config: BrokerConfig, credentials: Credentials, secret: MachineSecret | None
) -> dict[str, Door]:
    """The doors of all listeners, by their names. Reads files.

    credentials: those of users and tokens, for SCRAM.
    secret: the machine's, if all brokers of the cluster are on one machine.

    Raises:
        ConfigError: a listener's settings are not valid.
    """
    return {
        each.name: Door(
            each.name,
            config.listener_security_protocol_map[each.name],
            config,
            credentials,
            secret,
        )
        for each in config.listeners
    }


def _rules(config: BrokerConfig, listener: str) -> MappingRules:
    key = "ssl.principal.mapping.rules"
    text = str(config.of_listener(listener, key))
    try:
        return MappingRules(text)
    except ValueError as error:
        raise ConfigError(f"{key} of listener {listener}", text, str(error)) from None


def tls_of(config: BrokerConfig, listener: str) -> tuple[ServerTls, ssl.SSLContext]:
    """TLS of a listener, as its settings and files are now. Reads files.

    Raises:
        ConfigError: they are not valid.
    """
    tls = server_tls(config, listener)
    try:
        return tls, context_of(tls)
    except SecurityOptionError as error:
        raise ConfigError(f"ssl.keystore of listener {listener}", "...", str(error)) from None
