"""Checks of what clients connect to: addresses, certificates, protection."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Final

from drumlin.cli.doctor.facts import Address, Certificate, Configuration
from drumlin.cli.doctor.finding import Finding, Severity, some_of
from drumlin.config.config_error import ConfigError
from drumlin.config.listeners import Listener, parse_listeners, parse_protocol_map

_ENDS_SOON: Final = timedelta(days=30)
_ENDS_NOW: Final = timedelta(days=7)
_ANONYMOUS: Final = "User:ANONYMOUS"
_OPEN_PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")


def resolves(addresses: Iterable[Address]) -> Iterator[Finding]:
    """Whether the names that brokers tell their clients mean something here."""
    for each in addresses:
        if each.resolve_error:
            yield Finding(
                Severity.ERROR if each.is_ours else Severity.NOTE,
                "advertised-unresolved",
                _broker(each),
                f"{each.listener} is advertised as {each.host}, which does not resolve here: "
                f"{each.resolve_error}",
                "clients find the bootstrap broker, and then fail to connect to this one",
                f"advertised.listeners={each.listener}://NAME:{each.port} with a name that clients "
                "resolve, or an entry in DNS or /etc/hosts",
            )


def reachable(addresses: Iterable[Address]) -> Iterator[Finding]:
    """Whether the addresses that brokers tell their clients can be connected to."""
    for each in addresses:
        if each.is_ours and each.connect_error:
            yield Finding(
                Severity.ERROR,
                "advertised-unreachable",
                _broker(each),
                f"{each.host}:{each.port} cannot be connected to from here: {each.connect_error}",
                "clients fail for every partition that this broker leads",
                "start the broker, open the firewall for the port, or change advertised.listeners",
            )


def loopback(
    addresses: Iterable[Address], configurations: Iterable[Configuration]
) -> Iterator[Finding]:
    """Whether a broker listens openly, but sends its clients to their own machines."""
    bound = {
        (configuration.broker, each.name): each
        for configuration in configurations
        for each in _listeners(configuration)
    }
    for each in addresses:
        listener = bound.get((each.broker, each.listener))
        is_open = listener is not None and not is_loopback(listener.host)
        if is_open and each.resolved and all(map(is_loopback, each.resolved)):
            yield Finding(
                Severity.WARNING,
                "advertised-loopback",
                _broker(each),
                f"{each.listener} listens for other machines, but is advertised as {each.host}, "
                "which is every client's own machine",
                "clients on other machines reach the bootstrap address, and then nothing",
                f"advertised.listeners={each.listener}://NAME:{each.port} with this machine's name",
            )


def certificate_covers(addresses: Iterable[Address]) -> Iterator[Finding]:
    """Whether certificates are for the hosts that clients are told."""
    for each in addresses:
        known = each.certificate
        if known is not None and not _covers(known.hosts, each.host):
            yield Finding(
                Severity.ERROR,
                "certificate-host",
                _broker(each),
                f"{each.host} is not in the certificate of {each.listener}, which is for "
                f"{some_of(known.hosts) or 'no host'}",
                "clients refuse the connection: hostname mismatch",
                f"drumlin certificates renew --data DIR --host {each.host}, or another "
                "advertised.listeners",
            )


def certificate_ends(certificates: Iterable[Certificate], now: datetime) -> Iterator[Finding]:
    """Whether certificates end soon."""
    for each in certificates:
        left = each.ends - now
        if each.begins > now:
            what, severity = f"begins on {each.begins:%Y-%m-%d}", Severity.ERROR
        elif left <= timedelta(0):
            what, severity = f"has ended on {each.ends:%Y-%m-%d}", Severity.ERROR
        elif left < _ENDS_SOON:
            severity = Severity.ERROR if left < _ENDS_NOW else Severity.WARNING
            what = f"ends on {each.ends:%Y-%m-%d}, in {left.days} days"
        else:
            continue
        yield Finding(
            severity,
            "certificate-end",
            each.where,
            f"the certificate {each.name} {what}",
            "no client trusts it before its first or after its last day, and nothing warns of it",
            "drumlin certificates renew --data DIR, or replace the file: brokers read it again",
        )


def protection(configurations: Iterable[Configuration]) -> Iterator[Finding]:
    """Whether a listener that other machines reach lets everybody do everything."""
    for configuration in configurations:
        for each in _listeners(configuration):
            if not is_loopback(each.host):
                yield from _protection_of(configuration, each)


def _protection_of(configuration: Configuration, listener: Listener) -> Iterator[Finding]:
    protocol = _protocols(configuration).get(listener.name)
    client_auth = configuration.values.get("ssl.client.auth", "").strip().lower()
    own = f"listener.name.{listener.name.lower()}.ssl.client.auth"
    client_auth = configuration.values.get(own, client_auth)
    asks = protocol in ("SASL_PLAINTEXT", "SASL_SSL") or (
        protocol == "SSL" and client_auth == "required"
    )
    where = f"{listener.name}://{listener.address}"
    if protocol is not None and not asks and _lets_anyone(configuration):
        yield Finding(
            Severity.WARNING,
            "open-listener",
            configuration.where,
            f"{where} asks no client who it is",
            "whoever reaches it can read, write and delete everything",
            "drumlin server --secure, or listeners on 127.0.0.1 or a private network only",
        )
    elif protocol == "SASL_PLAINTEXT":
        yield Finding(
            Severity.WARNING,
            "login-in-the-clear",
            configuration.where,
            f"{where} takes logins without TLS",
            "whoever sees the network's packets reads records, and with PLAIN the passwords",
            "SASL_SSL for that listener",
        )
    elif protocol is not None and not configuration.values.get("authorizer.class.name", "").strip():
        yield Finding(
            Severity.NOTE,
            "no-authorizer",
            configuration.where,
            f"{where} asks for a login, but there are no ACLs",
            "every user may read, write and delete everything",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer, "
            "super.users, and drumlin acls add",
        )


def _lets_anyone(configuration: Configuration) -> bool:
    if not configuration.values.get("authorizer.class.name", "").strip():
        return True
    supers = configuration.values.get("super.users", "").split(";")
    return _ANONYMOUS in (each.strip() for each in supers)


def _listeners(configuration: Configuration) -> tuple[Listener, ...]:
    entries = configuration.values.get("listeners", "").split(",")
    controllers = configuration.values.get("controller.listener.names", "").upper().split(",")
    try:
        found = parse_listeners("listeners", tuple(filter(None, (e.strip() for e in entries))))
    except ConfigError:
        return ()  # a broker does not start with it
    return tuple(each for each in found if each.name not in controllers)


def _protocols(configuration: Configuration) -> dict[str, str]:
    given = configuration.values.get("listener.security.protocol.map", "")
    named = {each: each for each in _OPEN_PROTOCOLS}
    try:
        return named | parse_protocol_map("listener.security.protocol.map", given)
    except ConfigError:
        return named


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host; an empty one is every interface."""
    if host.lower() in ("localhost", "localhost.localdomain"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _covers(names: Iterable[str], host: str) -> bool:
    """Whether a certificate's names have a host; `*` stands for one label."""
    host = host.lower().rstrip(".")
    return any(
        fnmatchcase(host, name.lower())
        and (host.count(".") == name.count(".") or ":" in host or "*" not in name)
        for name in names
    )


def _broker(address: Address) -> str:
    where = f"{address.host}:{address.port}"
    return f"broker {address.broker} ({where})" if address.broker is not None else where


def today(now_ms: int) -> datetime:
    """The moment as certificates tell theirs."""
    return datetime.fromtimestamp(now_ms / 1000, UTC)
