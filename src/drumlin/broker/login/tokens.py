"""Validation of tokens for OAUTHBEARER: JWTs that a provider has signed, by its public keys.

The keys are read from a URL or a file, again after a while, and when a token names one that is not
there: but not more often than once a second, whatever strangers send. While they cannot be read,
those that were read last count. Unsecured tokens, without a signature, are for tests alone: a
listener takes them only if its login module says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt

from drumlin.broker.login.mechanisms.oauthbearer import Bearer, TokenRefused

_log = logging.getLogger(__name__)

_FETCH_TIMEOUT_S: Final = 10
_KEYS_BYTES_MAX: Final = 1 << 20
#: The end of the year 9999: later times are not meant.
_LAST_S: Final = 253_402_300_799
#: What comes of tokens and keys that make no sense: not all of them are the library's own errors.
_UNREADABLE: Final = (
    jwt.PyJWTError,
    AttributeError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
#: Between two attempts to read keys.
_PAUSE_S: Final = 1.0
_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}


@dataclass(frozen=True)
class TokenRules:
    """What a listener asks of a token beside the signature."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_s: int = 30
    name_claim: str = "sub"
    scope_claim: str = "scope"


def bearer_of(claims: Mapping[str, Any], rules: TokenRules) -> Bearer:
    """What the claims of a valid token say.

    Raises:
        TokenRefused: a claim is missing, or has another type.
    """
    name, ends_at_s = claims.get(rules.name_claim), claims.get("exp")
    if not isinstance(name, str) or not name.strip():
        raise TokenRefused(f"the claim {rules.name_claim} has no name")
    if not isinstance(ends_at_s, int | float) or not 0 <= ends_at_s <= _LAST_S:
        raise TokenRefused("the claim exp has no time")
    scopes = claims.get(rules.scope_claim, [])
    if isinstance(scopes, str):
        scopes = scopes.split()
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        raise TokenRefused(f"the claim {rules.scope_claim} has no scopes")
    return Bearer(name, int((ends_at_s - time.time()) * 1000))


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Refuse what the library cannot read: infinite times and deep nesting are not its errors.

    Raises:
        TokenRefused: the token is not valid.
    """
    try:
        yield
    except _UNREADABLE as error:
        raise TokenRefused(str(error)) from None


class UnsecuredTokens:
    """Takes tokens without a signature, from anybody."""

    def __init__(self, rules: TokenRules) -> None:
        self._rules = rules

    async def validate(self, token: str) -> Bearer:
        """
        Raises:
            TokenRefused: the token is not valid.
        """
        with _refusing():
            if jwt.get_unverified_header(token).get("alg") != "none":
                raise TokenRefused("it is signed, and there is no key to look at that")
            claims = jwt.decode(
                token,
                options={
                    "verify_signature": False,
                    "verify_exp": True,
                    "verify_iat": True,
                    "verify_nbf": True,
                    "verify_aud": False,
                },
                leeway=self._rules.skew_s,
            )
        return bearer_of(claims, self._rules)


@dataclass
class SignedTokens:
    """Takes tokens that were signed by one of a provider's keys."""

    #: http, https or file.
    url: str
    rules: TokenRules
    refresh_s: float
    _keys: dict[str | None, jwt.PyJWK] = field(default_factory=dict)
    _tried_at_s: float = float("-inf")
    _read_at_s: float = float("-inf")
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def validate(self, token: str) -> Bearer:
        """
        Raises:
            TokenRefused: the token is not valid, or there are no keys yet.
        """
        with _refusing():
            key_id = jwt.get_unverified_header(token).get("kid")
        key = await self._key(key_id)
        with _refusing():
            claims = jwt.decode(
                token,
                key=key,
                algorithms=_algorithms(key),
                audience=list(self.rules.audiences) or None,
                issuer=self.rules.issuer,
                leeway=self.rules.skew_s,
                options={"require": ["exp", "iat"]},
            )
        return bearer_of(claims, self.rules)

    async def _key(self, key_id: object) -> jwt.PyJWK:
        if key_id not in self._keys or self._is_old():
            async with self._reading:
                if key_id not in self._keys or self._is_old():
                    await self._read()
        key = self._keys.get(key_id) if isinstance(key_id, str | None) else None
        if key is None and key_id is None and len(self._keys) == 1:
            (key,) = self._keys.values()
        if key is None:
            raise TokenRefused("it was signed by a key that is not known")
        return key

    def _is_old(self) -> bool:
        return time.monotonic() - self._read_at_s > self.refresh_s

    async def _read(self) -> None:
        """Read the keys, unless that was tried just now."""
        if time.monotonic() - self._tried_at_s < _PAUSE_S:
            return
        self._tried_at_s = time.monotonic()
        try:
            self._keys = await asyncio.to_thread(read_keys, self.url)
            self._read_at_s = time.monotonic()
        except (OSError, *_UNREADABLE) as error:
            _log.error("the keys of tokens cannot be read from %s: %s", self.url, error)


def read_keys(url: str) -> dict[str | None, jwt.PyJWK]:
    """The keys for signatures at a URL, by their ids. Blocks.

    Raises:
        OSError, or one of `_UNREADABLE`: they cannot be read.
    """
    with urllib.request.urlopen(url, timeout=_FETCH_TIMEOUT_S) as answer:  # noqa: S310  an operator's
        text = answer.read(_KEYS_BYTES_MAX + 1)
    if len(text) > _KEYS_BYTES_MAX:
        raise ValueError("too much for a set of keys")
    found: dict[str | None, jwt.PyJWK] = {}
    for each in jwt.PyJWKSet.from_dict(json.loads(text)).keys:
        if each.public_key_use in (None, "sig") and each.key_type in _FAMILIES:
            found[each.key_id] = each
    return found


def _algorithms(key: jwt.PyJWK) -> list[str]:
    """The algorithms that fit a key: never one that would take its public part for a secret."""
    family = _FAMILIES[str(key.key_type)]
    return [each for each in family if key.algorithm_name == each or key.key_type == "RSA"]
