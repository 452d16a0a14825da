"""A user's security settings: the brokers to trust, and the identity to use.

Plain values that can be compared, pickled and printed, as their secrets are `Secret`s. No file is
read and no server contacted here. With `tls` a connection is always encrypted, with `login` it is
always authenticated: neither is ever optional.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from drumlin.peer.security.secret import Secret

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
SCRAM_MECHANISMS: Final[tuple[ScramMechanism, ...]] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_PEM: Final = "-----BEGIN"
_PATH_SIZE_MAX: Final = 255
_KEY_LIKE: Final = re.compile(r"[A-Za-z0-9+/=\\ ]{40,}")
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
_DOTTED: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_FUNCTION: Final = re.compile(f"{_DOTTED}:{_DOTTED}")


class SecurityOptionError(ValueError):
    """An invalid security option; the message names it."""


def is_pem(text: str) -> bool:
    """Whether `text` is PEM; otherwise it is the path of a file."""
    return _PEM in text


def may_be_key(path: str) -> bool:
    """Whether a supposed path may be a key without its first line, which must not be shown."""
    has_path_size = len(path) <= _PATH_SIZE_MAX and path.isprintable()
    return not has_path_size or "-----" in path or _KEY_LIKE.fullmatch(path) is not None


@dataclass(frozen=True)
class Tls:
    """TLS for a connection. Certificates and keys are given as paths of files, or as PEM text.

    A file is PEM, or a PKCS12 store. `ca` has the CA certificates to trust, by default the
    system's; `ca_password` is the password if `ca` is a store. `certificate` is the client's
    certificate with its chain, and may include the key, as a store does. `key_password` is the
    password of the key or of the store.
    """

    ca: str | None = None
    certificate: str | Secret | None = None
    key: str | Secret | None = None
    key_password: str | Secret | None = None
    check_host_name: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS
    ca_password: str | Secret | None = None

    def __post_init__(self) -> None:
        for name in ("certificate", "key", "key_password", "ca_password"):
            _conceal(self, name)
        unknown = [each for each in self.versions if each not in TLS_VERSIONS]
        if unknown or not self.versions:
            allowed = " and ".join(TLS_VERSIONS)
            raise SecurityOptionError(f"TLS versions {self.versions}: there are {allowed}")
        if self.key is not None and self.certificate is None:
            raise SecurityOptionError("a key without a certificate: both are needed, or neither")
        if self.key_password is not None and self.certificate is None:
            raise SecurityOptionError("a password for a key, and no key")
        if self.ca_password is not None and (self.ca is None or is_pem(self.ca)):
            raise SecurityOptionError("a password for a store of CA certificates, and no store")


@dataclass(frozen=True)
class Plain:
    """SASL PLAIN, which sends the password to the broker."""

    username: str
    password: str | Secret

    def __post_init__(self) -> None:
        _check_text(self, "username")
        _conceal(self, "password")
        if "\0" in self.username + revealed(self.password):
            raise SecurityOptionError("PLAIN: a user name or password cannot have a NUL in it")


@dataclass(frozen=True)
class Scram:
    """SASL SCRAM, in which both sides prove that they know the password, and neither sends it.

    `shown_as`: the mechanism's name in the handshake, if it differs from SCRAM's.
    """

    username: str
    password: str | Secret
    mechanism: ScramMechanism = "SCRAM-SHA-512"
    shown_as: str | None = None

    def __post_init__(self) -> None:
        _check_text(self, "username")
        _conceal(self, "password")
        if self.mechanism not in SCRAM_MECHANISMS:
            raise SecurityOptionError(
                f"mechanism {self.mechanism!r}: expected one of {', '.join(SCRAM_MECHANISMS)}"
            )


@dataclass(frozen=True)
class OAuthBearer:
    """SASL OAUTHBEARER, with a token from a function or an OAuth endpoint.

    `token` is a function, or its importable name, "module:function". It is called in a thread with
    `token_arguments` whenever a token is needed; an awaitable result is awaited in the client's
    event loop. The result is the token, or a pair of the token and the time when it expires, in
    seconds or milliseconds since 1970; a JWT contains that time itself. If the function raises
    ConnectionError or TimeoutError, or any error once it has returned a token, it is called again,
    just as an unreachable broker is retried.

    Without `token`, `token_endpoint` grants tokens for the client credentials, over TLS with
    `token_tls`, which by default trusts the system's certificates.
    """

    token: Callable[..., Any] | str | None = field(default=None, repr=False)
    token_endpoint: str | None = None
    client_id: str | None = None
    client_secret: str | Secret | None = None
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    token_tls: Tls = field(default_factory=Tls)
    token_arguments: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        _conceal(self, "client_secret")
        self._check_provider()
        if (self.token is None) == (self.token_endpoint is None):
            raise SecurityOptionError("OAUTHBEARER: either a function gives tokens or an endpoint")
        if self.token_endpoint is None:
            if self.client_id is not None or self.client_secret is not None:
                raise SecurityOptionError("OAUTHBEARER: client credentials, and no token endpoint")
        elif self.client_id is None or self.client_secret is None:
            raise SecurityOptionError(
                "OAUTHBEARER: the token endpoint wants a client id and a client secret"
            )
        elif "@" in self.token_endpoint.partition("//")[2].partition("/")[0]:
            # A password in the URL would be shown with it.
            raise SecurityOptionError("OAUTHBEARER: the URL of the token endpoint has a user in it")
        for each in ("client_id", "scope"):
            if getattr(self, each) is not None:
                _check_text(self, each)
        for name, value in self.extensions:
            is_name = name.isascii() and name.isalpha() and name != "auth"
            if not is_name or "\x01" in value or _NO_TEXT.search(value):
                raise SecurityOptionError(f"OAUTHBEARER: an extension {name!r} cannot be")

    def _check_provider(self) -> None:
        token = self.token
        if token is not None and not isinstance(token, str) and not callable(token):
            raise TypeError("token: expected a function, or the name of one")
        if isinstance(token, str) and not _FUNCTION.fullmatch(token):
            # A token itself may have been given, which must not be shown.
            expected = "'module:function', the name of a function that can be imported"
            raise SecurityOptionError(f"OAUTHBEARER: expected {expected}")
        if self.token_arguments and token is None:
            raise SecurityOptionError("OAUTHBEARER: arguments of a token provider, and none is")
        for name, _ in self.token_arguments:
            if not name.isidentifier():
                raise SecurityOptionError(f"OAUTHBEARER: no function has an argument {name!r}")


Login = Plain | Scram | OAuthBearer


def revealed(text: str | Secret) -> str:
    """The text of a value, secret or not."""
    return text.reveal() if isinstance(text, Secret) else text


def _conceal(settings: object, name: str) -> None:
    """Replace a field's text by a `Secret`; called only during construction."""
    given = getattr(settings, name)
    if given is None or isinstance(given, Secret):
        return
    _check_text(settings, name)
    # The path of a certificate may be shown, but its text may include the key.
    if name != "certificate" or is_pem(given) or may_be_key(given):
        object.__setattr__(settings, name, Secret(given))


def _check_text(settings: object, name: str) -> None:
    """Check that a value can be encoded, as an error in the middle of a login would show it."""
    given = getattr(settings, name)
    if not isinstance(given, str):
        raise TypeError(f"{name}: expected a string")
    if _NO_TEXT.search(given):
        raise SecurityOptionError(f"{name}: it has half a character, a surrogate, in it")
