"""Tokens that nobody should take: not signed, signed by another, or signed and no sense."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import time
from collections.abc import Callable
from typing import Any, Final

from fuzz.doors import AUDIENCE, USER
from rig.servers.token_signer import TokenSigner, encoded

_FAR_S: Final = 4_000_000_000
_OTHER: Final = TokenSigner("fuzz", seed=4)
_HASHES: Final = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}
_KEY_IDS: Final = (None, "", "fuzz", "../../etc/passwd", "' OR 1=1", "x" * 5000, 5, [], {}, "\0")
#: In place of a time; those that are one are none of a token that is valid now.
_TIMES: Final = ('"x"', '"4000000000"', "NaN", "1e400", "-1e400", "-1", "0", "true", "null")
_TIMES_OF_OTHERS: Final = ("[]", "{}", "1" * 400, "1" * 5000, "[4000000000]")
_AUDIENCES: Final = ("other", [], ["other"], 5, {}, [5], [["fuzz"]], None, AUDIENCE.upper())


def claims(**changed: Any) -> dict[str, Any]:
    """Those of a token that would be taken, but for what is changed."""
    now = int(time.time())
    return {"sub": USER, "iat": now - 60, "exp": now + 3600, "aud": AUDIENCE, **changed}


def hostile_token(signer: TokenSigner, rng: random.Random) -> str:
    """A token that `signer` has not made, or whose claims are not valid."""
    kind: Callable[[TokenSigner, random.Random], str] = rng.choice(_KINDS)
    return kind(signer, rng)


def _joined(header: Any, said: Any, signature: str = "") -> str:
    return (
        f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(said).encode())}.{signature}"
    )


def _unsigned(signer: TokenSigner, rng: random.Random) -> str:
    name = rng.choice(("none", "None", "NONE", "nOnE", "", None, [], {}, 0, "none\0"))
    signature = rng.choice(("", "", "AAAA", signer.token(USER).rpartition(".")[2]))
    return _joined(signer.header() | {"alg": name}, claims(), signature)


def _of_another(signer: TokenSigner, rng: random.Random) -> str:
    header = signer.header() | {"kid": rng.choice(_KEY_IDS)}
    if rng.random() < 0.3:  # it brings its key, or says where to find it
        key = json.loads(_OTHER.jwks())["keys"][0]
        header |= {"jwk": key, "jku": "http://127.0.0.1:1/", "x5u": "file:///etc/passwd"}
    return _OTHER.signed(json.dumps(header), json.dumps(claims()))


def _public_key_as_secret(signer: TokenSigner, rng: random.Random) -> str:
    name = rng.choice(list(_HASHES))
    keys = signer.jwks()
    secret = rng.choice((keys, json.loads(keys)["keys"][0]["n"], "", "fuzz")).encode()
    text = _joined(signer.header() | {"alg": name}, claims())[:-1]
    return f"{text}.{encoded(hmac.digest(secret, text.encode(), _HASHES[name]))}"


def _other_algorithm(signer: TokenSigner, rng: random.Random) -> str:
    """Its signature is right, but not for what it says that it is."""
    name = rng.choice(("PS256", "RS512", "ES256", "EdDSA", "RS1", "dir", "A128KW", "rs256"))
    return signer.signed(json.dumps(signer.header() | {"alg": name}), json.dumps(claims()))


def _without_sense(signer: TokenSigner, rng: random.Random) -> str:
    deep = "[" * 9000 + "]" * 9000
    said = rng.choice(("[]", "1", '"x"', "{}", "", "null", deep, '{"a":' * 9000, "\0", "{" * 9))
    return signer.signed(json.dumps(signer.header()), said)


def _wrong_time(signer: TokenSigner, rng: random.Random) -> str:
    """`exp` is none, or over; `nbf` is none, or to come."""
    name = rng.choice(("exp", "nbf"))
    times = _TIMES_OF_OTHERS + (_TIMES if name == "exp" else ('"x"', "NaN", "1e400", str(_FAR_S)))
    marked = json.dumps(claims(**{name: "TIME"}))
    text = marked.replace('"TIME"', rng.choice(times))
    return signer.signed(json.dumps(signer.header()), text)


def _for_others(signer: TokenSigner, rng: random.Random) -> str:
    said = claims(aud=rng.choice(_AUDIENCES))
    return signer.signed(json.dumps(signer.header()), json.dumps(said))


def _nobodys(signer: TokenSigner, rng: random.Random) -> str:
    said = claims(sub=rng.choice((None, "", " ", 5, [], [USER], {}, True)))
    return signer.signed(json.dumps(signer.header()), json.dumps(said))


def _critical(signer: TokenSigner, rng: random.Random) -> str:
    marks = rng.choice((["exp"], ["x"], [], "x", None, 5, [5], ["b64"] * 100))
    header = signer.header() | {"crit": marks, "x": 1}
    return signer.signed(json.dumps(header), json.dumps(claims()))


def _huge(signer: TokenSigner, rng: random.Random) -> str:
    size = rng.choice((50_000, 100_000, 400_000))
    if rng.random() < 0.5:
        return _OTHER.signed(json.dumps(signer.header() | {"x": "y" * size}), json.dumps(claims()))
    return "." * size if rng.random() < 0.5 else f"{'A' * size}.{'A' * size}.A"


def _cut(signer: TokenSigner, rng: random.Random) -> str:
    """Without an end, or its end alone."""
    token = signer.signed(json.dumps(signer.header()), json.dumps(claims()))
    at = rng.randrange(len(token) - 10)
    return rng.choice((token[:at], token[at + 1 :], token.replace(".", "", 1), token + ".x"))


def _changed_after_signing(signer: TokenSigner, rng: random.Random) -> str:
    header, _, signature = signer.signed(json.dumps(signer.header()), json.dumps(claims())).split(
        "."
    )
    digest = hashlib.sha256(rng.randbytes(8)).hexdigest()
    return f"{header}.{encoded(json.dumps(claims(jti=digest)).encode())}.{signature}"


_KINDS: Final = (
    _unsigned,
    _of_another,
    _public_key_as_secret,
    _other_algorithm,
    _without_sense,
    _wrong_time,
    _for_others,
    _nobodys,
    _critical,
    _huge,
    _cut,
    _changed_after_signing,
)
