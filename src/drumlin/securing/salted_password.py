"""What a broker is told of a new password."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, NamedTuple

from drumlin.broker.login.mechanisms.scram import HASHES
from drumlin.peer.security.secret import Secret

#: Twice Kafka's least. A client computes them at each login.
_ITERATIONS: Final = 8192
_SALT_BYTES: Final = 24


class SaltedPassword(NamedTuple):
    """The result of many hashes, from which the password can only be guessed."""

    salt: bytes
    salted: bytes
    iterations: int


def salted_password(mechanism: str, password: Secret) -> SaltedPassword:
    """A password with a new salt, for one mechanism. Takes a while."""
    salt = secrets.token_bytes(_SALT_BYTES)
    content = password.reveal().encode()
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], content, salt, _ITERATIONS)
    return SaltedPassword(salt, salted, _ITERATIONS)
