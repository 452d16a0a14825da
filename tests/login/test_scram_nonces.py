"""The nonce that a client has to repeat in its last message of SCRAM."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from drumlin.broker.login.mechanisms.exchange import Accepted, LoginRefused
from drumlin.broker.login.mechanisms.scram import Credentials, ScramCredential, ScramExchange

_SALTED, _HEADER = b"salted password", "n,,"
_CREDENTIAL = ScramCredential.of_salted("SCRAM-SHA-256", b"salt", _SALTED, 4096)
_KNOWN = Credentials(of_user=lambda *_: _CREDENTIAL, of_token=lambda *_: None)


def _log_in(repeated: str) -> object:
    """What comes of a login by the right password; {0} is the whole nonce, {1} the client's."""
    exchange = ScramExchange("SCRAM-SHA-256", _KNOWN)
    answer = exchange.take(f"{_HEADER}n=alice,r=mine".encode())
    assert isinstance(answer, bytes)
    nonce = answer.decode().split(",")[0].removeprefix("r=")
    channel = base64.b64encode(_HEADER.encode()).decode()
    unproved = f"c={channel},r={repeated.format(nonce, 'mine')}"
    message = f"n=alice,r=mine,{answer.decode()},{unproved}".encode()
    key = hmac.digest(_SALTED, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return exchange.take(f"{unproved},p={base64.b64encode(proof).decode()}".encode())


@pytest.mark.parametrize("repeated", ["{0}", "{1}{0}"], ids=["as it is", "librdkafka before 2.6.1"])
def test_a_nonce_that_is_taken(repeated: str) -> None:
    assert isinstance(_log_in(repeated), Accepted)


@pytest.mark.parametrize("repeated", ["{1}", "x{0}", "{0}x", "{1}{1}{0}", "{0}{0}"])
def test_a_nonce_that_is_not(repeated: str) -> None:
    with pytest.raises(LoginRefused):
        _log_in(repeated)
