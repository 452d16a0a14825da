"""Claims of tokens that are no sense: they are refused, and nothing else happens."""

from __future__ import annotations

import asyncio
import base64

import pytest

from drumlin.broker.login.mechanisms.oauthbearer import TokenRefused
from drumlin.broker.login.tokens import TokenRules, UnsecuredTokens
from rig.servers.token_signer import encoded

_HEADER = encoded(b'{"alg":"none"}')


def _validate(header: str, claims: str) -> str:
    token = f"{header}.{encoded(claims.encode())}."
    return asyncio.run(UnsecuredTokens(TokenRules()).validate(token)).name


def test_what_is_taken() -> None:
    assert _validate(_HEADER, '{"sub":"alice","exp":32503680000}') == "alice"


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", ["1e999", "1e308", "NaN", "-1e999", '"x"', "[]", "{}", "null"])
def test_times(name: str, value: str) -> None:
    others = '"sub":"alice"' + ("" if name == "exp" else ',"exp":32503680000')
    if (name, value) in {("nbf", "null"), ("iat", "null")}:
        return
    with pytest.raises(TokenRefused):
        _validate(_HEADER, f'{{{others},"{name}":{value}}}')


@pytest.mark.parametrize(
    "claims", ["[]", '"x"', "1", "[" * 9000, '{"a":' * 9000 + "1" + "}" * 9000, "{}", ""]
)
def test_shapes(claims: str) -> None:
    with pytest.raises(TokenRefused):
        _validate(_HEADER, claims)


@pytest.mark.parametrize("header", ["[]", "1", "[" * 9000 + "]" * 9000, '{"alg":[]}', "\xff"])
def test_headers(header: str) -> None:
    with pytest.raises(TokenRefused):
        _validate(base64.urlsafe_b64encode(header.encode("latin-1")).decode().rstrip("="), "{}")
