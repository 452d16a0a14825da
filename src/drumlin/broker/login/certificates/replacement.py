"""Checks of a certificate that replaces another in a running broker: Apache Kafka's rules.

By default the new one must have the same distinguished name, and all host names of the old one, so
that clients do not lose a listener because of a wrong file. Between brokers, the old and the new
certificate must trust each other, as not all brokers change at once.
"""

from __future__ import annotations

import datetime
import ssl
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.broker.login.certificates.names import name_text
from drumlin.peer.security.settings import SecurityOptionError

if TYPE_CHECKING:
    from cryptography import x509

#: Round trips of a handshake in memory; TLS 1.2 takes the most, three.
_TURNS_MAX: Final = 10


class Shown(NamedTuple):
    """The fields of a certificate that are compared."""

    name: str
    #: Kind and value of each subject alternative name.
    hosts: frozenset[str]
    begins_at: datetime.datetime
    ends_at: datetime.datetime

    @property
    def is_valid_now(self) -> bool:
        return self.begins_at <= datetime.datetime.now(datetime.UTC) <= self.ends_at


class Sides(NamedTuple):
    """A broker's contexts for TLS between brokers: as server and as client."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def shown_in(pem: str) -> Shown:
    """The first certificate in the PEM: the one that OpenSSL presents.

    Raises:
        SecurityOptionError: it cannot be read.
    """
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificates(pem.encode())[0]
        return Shown(
            name_text(certificate.subject),
            _hosts(certificate),
            certificate.not_valid_before_utc,
            certificate.not_valid_after_utc,
        )
    except ValueError as error:
        raise SecurityOptionError(f"the certificate cannot be read: {error}") from None


def _hosts(certificate: x509.Certificate) -> frozenset[str]:
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(
        f"{type(each).__name__} {getattr(each, 'value', each)}" for each in found.value
    )


def check_certificate(old: Shown, new: Shown, *, name_may: bool, hosts_may: bool) -> None:
    """Check that `new` may replace `old`. `name_may`, `hosts_may`: whether these may change.

    Raises:
        SecurityOptionError: it may not.
    """
    if not new.is_valid_now:
        period = f"{new.begins_at:%Y-%m-%d %H:%M} to {new.ends_at:%Y-%m-%d %H:%M} UTC"
        raise SecurityOptionError(f"the new certificate is not valid now, but from {period}")
    if new.name != old.name and not name_may:
        why = f"the new certificate is for {new.name}, the present one for {old.name}"
        raise SecurityOptionError(f"{why}, and ssl.allow.dn.changes is false")
    missing = sorted(old.hosts - new.hosts)
    if missing and not hosts_may:
        why = f"the new certificate is no longer for {', '.join(missing)}"
        raise SecurityOptionError(f"{why}, and ssl.allow.san.changes is false")


def check_trust(old: Sides, new: Sides, *, old_is_valid: bool) -> None:
    """Check that brokers with `new` trust each other, and brokers that still have `old`.

    Raises:
        SecurityOptionError: they do not.
    """
    pairs = {"the new by itself": (new.server, new.client)}
    if old_is_valid:
        pairs["the present one by the new"] = (old.server, new.client)
        pairs["the new by the present one"] = (new.server, old.client)
    for which, (server, client) in pairs.items():
        try:
            _shake_hands(server, client)
        except ssl.SSLError as error:
            why = (error.reason or str(error)).replace("_", " ").lower()
            raise SecurityOptionError(f"brokers would not trust {which}: {why}") from None


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """
    Raises:
        ssl.SSLError: one of them refuses the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_TURNS_MAX):
        for each in list(waiting):
            try:
                each.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(each)
        if not waiting:
            return
    raise ssl.SSLError("the handshake does not end")
