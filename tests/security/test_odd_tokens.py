"""Tokens that a provider has signed, and that are odd: whom they let in, as in Apache Kafka."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest

from rig.data.raw import Closed, RawClient
from rig.data.secured_listeners import AUDIENCE, ISSUER, Secured

pytestmark = pytest.mark.kafka

_FAR = 4_000_000_000


def _claims(**changed: Any) -> str:
    now = int(time.time())
    said = {"sub": "alice", "iat": now - 60, "exp": now + 3600, "aud": AUDIENCE, "iss": ISSUER}
    return json.dumps({name: value for name, value in (said | changed).items() if value != "LEFT"})


def _raw(name: str, text: str) -> str:
    return _claims(**{name: "HERE"}).replace('"HERE"', text)


#: Claims as they are written, by what is odd; and whether somebody is let in.
_CLAIMS = {
    "as it should be": (_claims(), True),
    "aud: one of several": (_claims(aud=["shop", AUDIENCE]), True),
    "aud: a list without it": (_claims(aud=["shop"]), False),
    "aud: an empty list": (_claims(aud=[]), False),
    "aud: none": (_claims(aud="LEFT"), False),
    "aud: null": (_claims(aud=None), False),
    "aud: a number beside it": (_claims(aud=[AUDIENCE, 5]), False),
    "aud: other letters": (_claims(aud=AUDIENCE.upper()), False),
    "iss: a list": (_claims(iss=[ISSUER]), False),
    "iss: none": (_claims(iss="LEFT"), False),
    "sub: none": (_claims(sub="LEFT"), False),
    "sub: empty": (_claims(sub=""), False),
    "sub: blank": (_claims(sub=" "), False),
    "sub: a number": (_claims(sub=5), False),
    "sub: twice": (_claims()[:-1] + ', "sub": "bob"}', False),
    "exp: none": (_claims(exp="LEFT"), False),
    "exp: a text": (_claims(exp=str(_FAR)), False),
    "exp: a fraction": (_claims(exp=_FAR + 0.5), True),
    "exp: true": (_claims(exp=True), False),
    "exp: NaN": (_raw("exp", "NaN"), False),
    "exp: 1e400": (_raw("exp", "1e400"), False),
    "exp: 1e10": (_raw("exp", "1e10"), True),
    "exp: after the year 9999": (_claims(exp=10**15), False),
    "exp: more than a long": (_claims(exp=10**30), False),
    "exp: twice": (_claims()[:-1] + f', "exp": {_FAR}}}', False),
    "iat: none": (_claims(iat="LEFT"), False),
    "iat: a text": (_claims(iat="5"), False),
    "iat: to come": (_claims(iat=_FAR), False),
    "iat: after exp": (_claims(iat=int(time.time()) + 20, exp=int(time.time()) + 10), False),
    "nbf: a text": (_claims(nbf="5"), False),
    "nbf: to come": (_claims(nbf=_FAR), False),
    "nbf: true": (_claims(nbf=True), False),
    "jti: a number": (_claims(jti=5), False),
    "scope: a text": (_claims(scope="a b"), True),
    "scope: a list of numbers": (_claims(scope=[5]), False),
    "scope: the same twice": (_claims(scope=["a", "a"]), False),
    "scope: a blank in a list": (_claims(scope=["a", ""]), False),
    "a list": (f"[{_claims()}]", False),
    "something after it": (_claims() + "x", False),
    "a single quote": (_claims().replace('"', "'"), False),
}
_HEADERS: dict[str, tuple[dict[str, Any], bool]] = {
    "without a kind": ({"typ": "LEFT"}, True),
    "another kind": ({"typ": "at+jwt"}, True),
    "a kind that is none": ({"typ": 5}, True),
    "no key, where there is one": ({"kid": "LEFT"}, True),
    "a number as key": ({"kid": 5}, False),
    "critical: unknown": ({"crit": ["x"], "x": 1}, False),
    "critical: exp": ({"crit": ["exp"], "exp": _FAR}, False),
    "not in base 64": ({"crit": ["b64"], "b64": False}, False),
    "compressed": ({"zip": "DEF"}, True),
    "a key of its own": ({"jwk": {"kty": "oct", "k": "AAAA"}}, True),
    "where keys are": ({"jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/"}, True),
}


#: What Apache Kafka takes, and Drumlin does not, as it makes no sense.
_REFUSED_HERE = {
    "nbf: null": ({}, {"nbf": None}),
    "scope: a number": ({}, {"scope": 5}),
    "sub: half a character": ({}, {"sub": "a\ud800"}),
    "critical: nothing": ({"crit": []}, {}),
    "critical: null": ({"crit": None}, {}),
}


def _is_taken(secured: Secured, token: str) -> bool:
    port = int(secured.addresses["signed"].rpartition(":")[2])
    with RawClient(port) as client, contextlib.suppress(Closed):
        client.ask("sasl_handshake", 1, mechanism="OAUTHBEARER")
        answer = client.ask(
            "sasl_authenticate", 2, auth_bytes=f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        )
        if answer.error_code == 0 and not answer.auth_bytes:
            return bool(client.ask("metadata", 12, topics=[]).cluster_id)
        assert token.rpartition(".")[2] not in str(answer)
    return False


def test_claims(secured: Secured) -> None:
    header = json.dumps(secured.signer.header())
    found = {
        name: _is_taken(secured, secured.signer.signed(header, said))
        for name, (said, _) in _CLAIMS.items()
    }
    assert found == {name: expected for name, (_, expected) in _CLAIMS.items()}


def test_headers(secured: Secured) -> None:
    found = {}
    for name, (changed, _) in _HEADERS.items():
        header = secured.signer.header() | changed
        text = json.dumps({key: value for key, value in header.items() if value != "LEFT"})
        found[name] = _is_taken(secured, secured.signer.signed(text, _claims()))
    assert found == {name: expected for name, (_, expected) in _HEADERS.items()}


def test_what_makes_no_sense_is_refused_here(
    request: pytest.FixtureRequest, secured: Secured
) -> None:
    is_taken = "kafka" in request.node.callspec.id
    for name, (changed, claims) in _REFUSED_HERE.items():
        header = json.dumps(secured.signer.header() | changed)
        token = secured.signer.signed(header, _claims(**claims))
        assert _is_taken(secured, token) == is_taken, name
