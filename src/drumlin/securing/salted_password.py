"""The salted hash of a new password, which is all that a broker gets."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final, NamedTuple

from drumlin.broker.login.mechanisms.scram import HASHES
from drumlin.peer.security.secret import Secret

#: The number of iterations: twice Kafka's minimum. A client computes them at each login.
_ITERATIONS: Final = 8192
_SALT_BYTES: Final = 24


class SaltedPassword(NamedTuple):
    """The salted and iterated hash of a password, which does not reveal the password."""

    salt: bytes
    salted: bytes
    iterations: int


def salted_password(mechanism: str, password: Secret) -> SaltedPassword:
    """Hash a password with a new salt, for one mechanism. Slow by design."""
    salt = secrets.token_bytes(_SALT_BYTES)
    content = password.reveal().encode()
    salted = hashlib.pbkdf2_hmac(HASHES[mechanism], content, salt, _ITERATIONS)
    return SaltedPassword(salt, salted, _ITERATIONS)
