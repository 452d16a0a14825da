"""SCRAM (RFC 5802, RFC 7677), the server's side: messages in, messages out.

A broker never sees a password, and never computes the iterated hash: it stores a `ScramCredential`.
It asks even a user that does not exist for a proof, with a salt derived from a secret and the name,
so that a peer cannot find out which users exist. Apache Kafka refuses such a user at once.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from drumlin.broker.login.mechanisms.exchange import Accepted, LoginRefused, refused_by

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
#: Messages of honest clients have a tenth of this.
_MESSAGE_BYTES_MAX: Final = 4096
_NAME: Final = r"(?:[^=,\0]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_FIRST: Final = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<other>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>(?:,[A-Za-z]+=[^\0,]+)*))"
)
_FINAL: Final = re.compile(
    rf"(?P<unproved>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>{_NONCE})(?:,[A-Za-z]+=[^\0,]+)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_MADE_UP: Final = secrets.token_bytes(32)


@dataclass(frozen=True)
class ScramCredential:
    """A user's password as stored. Whoever steals it can imitate the broker, but not the user."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_salted(
        cls, mechanism: str, salt: bytes, salted_password: bytes, iterations: int
    ) -> ScramCredential:
        """The credential of a password that was salted already, as clients send it."""
        hash_name = HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", hash_name)
        return cls(
            salt,
            hashlib.new(hash_name, client_key).digest(),
            hmac.digest(salted_password, b"Server Key", hash_name),
            iterations,
        )

    @classmethod
    def of_text(cls, text: str) -> ScramCredential:
        """The credential from its text, which has the form that Apache Kafka keeps in ZooKeeper.

        Raises:
            ValueError: the text is not a credential.
        """
        fields = dict(each.strip().split("=", 1) for each in text.split(","))
        try:
            salt, stored_key, server_key = (
                base64.b64decode(fields[name], validate=True)
                for name in ("salt", "stored_key", "server_key")
            )
            return cls(salt, stored_key, server_key, int(fields["iterations"]))
        except KeyError as missing:
            raise ValueError(f"a SCRAM credential without {missing}") from None

    def text(self) -> str:
        """The credential as text, for `of_text`."""
        salt, stored_key, server_key = (
            base64.b64encode(each).decode()
            for each in (self.salt, self.stored_key, self.server_key)
        )
        return (
            f"salt={salt},stored_key={stored_key},server_key={server_key},"
            f"iterations={self.iterations}"
        )


class TokenLogin(NamedTuple):
    """The data for a login by a delegation token (KIP-48)."""

    credential: ScramCredential
    #: The name of the user who owns the token.
    owner: str
    lifetime_ms: int


class Credentials(NamedTuple):
    """Functions that find credentials, by mechanism and the user's name or the token's id."""

    of_user: Callable[[str, str], ScramCredential | None]
    of_token: Callable[[str, str], TokenLogin | None]


class ScramExchange:
    """One login."""

    def __init__(self, mechanism: str, credentials: Credentials) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credentials = credentials
        self._name = self._header = self._first_messages = ""
        self._nonces: tuple[str, ...] = ()
        self._credential: ScramCredential | None = None
        self._accepted: Accepted | None = None

    def take(self, token: bytes) -> bytes | Accepted:
        try:
            text = token.decode() if len(token) <= _MESSAGE_BYTES_MAX else ""
        except UnicodeDecodeError:
            text = ""
        if self._credential is None:
            return self._begin(text)
        return self._end(text, self._credential)

    def _begin(self, text: str) -> bytes:
        matched = _FIRST.fullmatch(text)
        if matched is None:
            raise refused_by(self._mechanism)
        self._name = _unescaped(matched["name"])
        if matched["other"] and _unescaped(matched["other"]) != self._name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self._header = matched["header"]
        is_token = _extensions(matched["extensions"]).get("tokenauth", "").lower() == "true"
        found = self._token() if is_token else self._user()
        self._credential = found or self._made_up()
        nonce = matched["nonce"] + secrets.token_urlsafe(24)
        # librdkafka before 2.6.1 repeats its own part of the nonce, which Apache Kafka accepted
        # before 3.7.2. Either way the proof covers all that was sent, our nonce included.
        self._nonces = nonce, matched["nonce"] + nonce
        salt = base64.b64encode(self._credential.salt).decode()
        answer = f"r={nonce},s={salt},i={self._credential.iterations}"
        self._first_messages = f"{matched['bare']},{answer}"
        return answer.encode()

    def _end(self, text: str, credential: ScramCredential) -> Accepted:
        matched = _FINAL.fullmatch(text)
        if matched is None or matched["nonce"] not in self._nonces:
            raise refused_by(self._mechanism)
        if _from_base64(matched["channel"]) != self._header.encode():
            raise refused_by(self._mechanism)
        message = f"{self._first_messages},{matched['unproved']}".encode()
        signature = hmac.digest(credential.stored_key, message, self._hash)
        proof = _from_base64(matched["proof"])
        if len(proof) != len(signature):
            raise refused_by(self._mechanism)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        shown = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(shown, credential.stored_key) or self._accepted is None:
            raise refused_by(self._mechanism, self._accepted and self._accepted.name)
        proved = hmac.digest(credential.server_key, message, self._hash)
        return self._accepted._replace(token=b"v=" + base64.b64encode(proved))

    def _user(self) -> ScramCredential | None:
        found = self._credentials.of_user(self._mechanism, self._name)
        if found is not None:
            self._accepted = Accepted(b"", self._name)
        return found

    def _token(self) -> ScramCredential | None:
        found = self._credentials.of_token(self._mechanism, self._name)
        if found is None:
            return None
        self._accepted = Accepted(b"", found.owner, is_by_token=True, lifetime_ms=found.lifetime_ms)
        return found.credential

    def _made_up(self) -> ScramCredential:
        salt = hmac.digest(_MADE_UP, self._name.encode(), "sha256")[:24]
        return ScramCredential(salt, secrets.token_bytes(32), b"", ITERATIONS_MIN)


def _extensions(text: str) -> dict[str, str]:
    """The extensions of a first message, in which each is preceded by a comma."""
    pairs = (each.partition("=") for each in text.split(",")[1:])
    return {name: value for name, _, value in pairs}


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
