"""Validation of tokens for OAUTHBEARER: JWTs whose signatures are checked with a provider's keys.

Unsecured tokens, without a signature, are for tests only: a listener accepts them only if its login
module says so.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt
from jwt.utils import base64url_decode

from drumlin.broker.login.mechanisms.oauthbearer import Bearer, TokenRefused
from drumlin.broker.login.provider_keys import FAMILIES, UNREADABLE, ProviderKeys

#: The end of the year 9999: no real token lives longer.
_LAST_S: Final = 253_402_300_799
_TIMES: Final = ("exp", "iat", "nbf")


@dataclass(frozen=True)
class TokenRules:
    """A listener's requirements of a token, besides the signature."""

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_s: int = 30
    name_claim: str = "sub"
    scope_claim: str = "scope"


def bearer_of(claims: Mapping[str, Any], rules: TokenRules) -> Bearer:
    """The name and lifetime in the claims of a valid token.

    Raises:
        TokenRefused: a claim is missing, or has another type.
    """
    name, ends_at_s = claims.get(rules.name_claim), claims.get("exp")
    if not isinstance(name, str) or not name.strip() or not _is_unicode(name):
        raise TokenRefused(f"the claim {rules.name_claim} has no name")
    for claim in _TIMES:
        # The library also accepts a number as a string, and true as 1.
        if not isinstance(claims.get(claim, 0), int | float) or isinstance(claims.get(claim), bool):
            raise TokenRefused(f"the claim {claim} has no time")
    if ends_at_s is None or not 0 <= ends_at_s <= _LAST_S:
        raise TokenRefused("the claim exp has no time")
    if not _are_scopes(claims.get(rules.scope_claim, [])):
        raise TokenRefused(f"the claim {rules.scope_claim} has no scopes")
    return Bearer(name, int((ends_at_s - time.time()) * 1000))


def _is_unicode(text: str) -> bool:
    """Whether others can be told the text: JSON also has halves of characters ("\\ud800")."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _are_scopes(scopes: Any) -> bool:
    """Whether the claim is a string, or a list of different strings."""
    return isinstance(scopes, str) or (
        isinstance(scopes, list)
        and all(isinstance(each, str) and each.strip() for each in scopes)
        and len(set(scopes)) == len(scopes)
    )


def _check_names(token: str) -> None:
    """Check that no name occurs twice: other readers may use the other one (RFC 8725, 3.10).

    Raises:
        ValueError: a name is given twice, or this is not a token.
    """
    for part in token.split(".")[:2]:
        json.loads(base64url_decode(part), object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Refuse tokens that the library cannot read; not all errors are the library's own.

    Raises:
        TokenRefused: the token is not valid.
    """
    try:
        yield
    except UNREADABLE as error:
        raise TokenRefused(str(error)) from None


class UnsecuredTokens:
    """Accepts tokens without a signature, from anybody."""

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
            _check_names(token)
        return bearer_of(claims, self._rules)


@dataclass(frozen=True)
class SignedTokens:
    """Accepts tokens that were signed with one of a provider's keys."""

    keys: ProviderKeys
    rules: TokenRules

    async def validate(self, token: str) -> Bearer:
        """
        Raises:
            TokenRefused: the token is not valid, or there are no keys yet.
        """
        with _refusing():
            key_id = jwt.get_unverified_header(token).get("kid")
        key = await self.keys.find(key_id) if isinstance(key_id, str | None) else None
        if key is None:
            raise TokenRefused("it was signed by a key that is not known")
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
            _check_names(token)
        return bearer_of(claims, self.rules)


def _algorithms(key: jwt.PyJWK) -> list[str]:
    """The algorithms for a key: never one that would use the public key as a shared secret."""
    family = FAMILIES[str(key.key_type)]
    return [each for each in family if key.algorithm_name == each or key.key_type == "RSA"]
