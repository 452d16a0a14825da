"""Signs tokens as an identity provider does (RS256 of RFC 7518), and tells its public key (a JWKS).

The key is made from a fixed seed, in plain Python: it protects nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
from random import Random
from typing import Any

_PRIME_BITS = 1024
_EXPONENT = 65537
_SMALL_ODD_NUMBERS = math.prod(range(3, 2000, 2))
#: How PKCS #1 says that what follows is a SHA-256.
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")


def encoded(data: bytes) -> str:
    """Base 64 as tokens have it."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class TokenSigner:
    """One signing key of a provider."""

    def __init__(self, key_id: str, seed: int) -> None:
        random = Random(seed)
        first, second = _prime(random), _prime(random)
        self._key_id = key_id
        self._modulus = first * second
        self._private = pow(_EXPONENT, -1, (first - 1) * (second - 1))

    def jwks(self) -> str:
        """The public key, as brokers read it."""
        numbers = {"n": self._modulus, "e": _EXPONENT}
        key = {name: encoded(_octets(number)) for name, number in numbers.items()}
        return json.dumps(
            {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": self._key_id, **key}]}
        )

    def token(self, subject: str, lifetime_s: float = 3600, **claims: Any) -> str:
        """A token for a user of this name, issued an hour ago."""
        now = int(time.time())
        said = {"sub": subject, "iat": now - 3600, "exp": now + int(lifetime_s), **claims}
        return self.signed(json.dumps(self.header()), json.dumps(said))

    def header(self) -> dict[str, Any]:
        """What its tokens begin with."""
        return {"alg": "RS256", "typ": "JWT", "kid": self._key_id}

    def signed(self, header: str, claims: str) -> str:
        """A token with whatever is given, and a signature that is right."""
        text = f"{encoded(header.encode())}.{encoded(claims.encode())}"
        return f"{text}.{encoded(self._signature(text.encode()))}"

    def _signature(self, message: bytes) -> bytes:
        digest = _SHA256 + hashlib.sha256(message).digest()
        size = (self._modulus.bit_length() + 7) // 8
        padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
        number = pow(int.from_bytes(padded, "big"), self._private, self._modulus)
        return number.to_bytes(size, "big")


def _octets(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _prime(random: Random) -> int:
    while True:
        number = random.getrandbits(_PRIME_BITS) | 1 | 3 << (_PRIME_BITS - 2)
        if math.gcd(number, _SMALL_ODD_NUMBERS) != 1 or (number - 1) % _EXPONENT == 0:
            continue
        if all(_may_be_prime(number, base) for base in (2, 3, 5, 7)):
            return number


def _may_be_prime(number: int, base: int) -> bool:
    """The test of Miller and Rabin."""
    odd = number - 1
    twos = (odd & -odd).bit_length() - 1
    value = pow(base, odd >> twos, number)
    if value in (1, odd):
        return True
    for _ in range(twos - 1):
        value = value * value % number
        if value == odd:
            return True
    return False
