"""TLS of a listener: the settings as Kafka names them, and OpenSSL's context for them.

Settings that cannot be followed are refused: a listener is never less safe than they say.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.login.certificates.cipher_suites import openssl_names
from drumlin.config.config_error import ConfigError
from drumlin.peer.security.pem import pem_of
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import SecurityOptionError, is_pem
from drumlin.peer.security.tls import show, trust

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


#: Modification time, inode and size, by which a changed file is detected; None if it is missing.
Mark = tuple[int, int, int] | None


@dataclass(frozen=True)
class ServerTls:
    """A listener's certificate, trusted CAs, versions and ciphers. Holds PEM, not paths."""

    #: Certificate, chain and key.
    shown: Secret
    key_password: Secret | None
    #: The trusted CAs of clients; None: those that the system trusts.
    trusted: str | None
    client_auth: str
    versions: tuple[str, ...]
    #: OpenSSL's names of ciphers; empty: its defaults.
    ciphers: tuple[str, ...]
    #: The marks of the files from which this was read, at that time.
    files: Mapping[str, Mark] = field(compare=False)


def server_tls(config: BrokerConfig, listener: str) -> ServerTls:
    """The settings of a listener, with the contents of the files that they name. Reads files.

    Raises:
        ConfigError: a setting or a file is not valid.
    """
    settings = _Settings(config, listener)
    versions = tuple(settings.value("ssl.enabled.protocols"))
    if not versions or not set(versions) <= set(_VERSIONS):
        raise settings.refused("ssl.enabled.protocols", f"must be some of {', '.join(_VERSIONS)}")
    try:
        ciphers, versions = openssl_names(tuple(settings.value("ssl.cipher.suites")), versions)
    except ValueError as error:
        raise settings.refused("ssl.cipher.suites", str(error)) from None
    files = marks_of(files_of(config, listener))
    return ServerTls(
        shown=Secret(settings.shown()),
        key_password=settings.secret("ssl.key.password"),
        trusted=settings.trusted(),
        client_auth=str(settings.value("ssl.client.auth")),
        versions=versions,
        ciphers=ciphers,
        files=files,
    )


def files_of(config: BrokerConfig, listener: str) -> frozenset[str]:
    """The files that a listener's settings name."""
    settings = _Settings(config, listener)
    stores = {"ssl.keystore": "certificate.chain", "ssl.truststore": "certificates"}
    locations = {
        settings.value(f"{store}.location")
        for store, inline in stores.items()
        if settings.value(f"{store}.{inline}") is None
    }
    return frozenset(locations - {None})


def marks_of(files: Iterable[str]) -> dict[str, Mark]:
    """The marks of files as they are now. Blocks."""
    return {each: _mark_of(each) for each in files}


def _mark_of(file: str) -> Mark:
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def context_of(tls: ServerTls) -> ssl.SSLContext:
    """The context for new connections. It is never changed: new settings get a new one.

    Raises:
        SecurityOptionError: certificate and key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = min(_VERSIONS[each] for each in tls.versions)
    context.maximum_version = max(_VERSIONS[each] for each in tls.versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if tls.ciphers:
        context.set_ciphers(":".join(tls.ciphers))
    password = None if tls.key_password is None else tls.key_password.reveal()
    show(context, tls.shown.reveal(), password, "the broker's")
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    if tls.client_auth != "none":
        if tls.trusted is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            trust(context, tls.trusted)
    return context


class _Settings:
    """A listener's keys: its own, or else the broker's."""

    def __init__(self, config: BrokerConfig, listener: str) -> None:
        self._config, self._listener = config, listener

    def value(self, name: str) -> Any:
        return self._config.of_listener(self._listener, name)

    def secret(self, name: str) -> Secret | None:
        text = self.value(name)
        return None if text is None else Secret(text)

    def refused(self, name: str, allowed: str) -> ConfigError:
        # The value is left out, as it may be a secret.
        return ConfigError(f"{name} of listener {self._listener}", "...", allowed)

    def shown(self) -> str:
        """Certificate, chain and key, as PEM."""
        chain, key = self.value("ssl.keystore.certificate.chain"), self.value("ssl.keystore.key")
        if (chain is None) != (key is None):
            missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
            raise self.refused(missing, "is missing: certificate and key belong together")
        if chain is not None:
            return self._text(chain, "ssl.keystore.certificate.chain") + self._text(
                key, "ssl.keystore.key", holds_key=True
            )
        location = self.value("ssl.keystore.location")
        if location is None:
            raise self.refused("ssl.keystore.location", "is missing: TLS needs a certificate")
        return self._of_file(location, "ssl.keystore", holds_key=True)

    def trusted(self) -> str | None:
        """The certificates to trust, as PEM; None: those of the system."""
        inline = self.value("ssl.truststore.certificates")
        if inline is not None:
            return self._text(inline, "ssl.truststore.certificates")
        location = self.value("ssl.truststore.location")
        return None if location is None else self._of_file(location, "ssl.truststore")

    def _text(self, pem: str, name: str, *, holds_key: bool = False) -> str:
        if not is_pem(pem):
            raise self.refused(name, "must be PEM")
        try:
            return pem_of(pem, name, holds_key=holds_key)
        except SecurityOptionError as error:
            raise self.refused(name, str(error)) from None

    def _of_file(self, location: str, names: str, *, holds_key: bool = False) -> str:
        name = f"{names}.location"
        try:
            return pem_of(
                location, name, holds_key=holds_key, password=self.value(f"{names}.password")
            )
        except SecurityOptionError as error:
            raise self.refused(name, str(error)) from None
