"""SCRAM: the examples of the RFCs, a broker's side written from them, and brokers that cheat."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.peer.peer_error import AuthenticationFailed
from drumlin.peer.security.scram import ScramExchange
from drumlin.peer.security.settings import SCRAM_MECHANISMS, Scram, ScramMechanism
from records.strategies import QUICK

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="


def begun() -> ScramExchange:
    exchange = ScramExchange(Scram("user", "pencil", "SCRAM-SHA-256"), NONCE)
    exchange.first()
    return exchange


class ScramServer:
    """The broker's side, as RFC 5802 has it: it knows the password in the clear, for shortness."""

    def __init__(self, mechanism: str, password: str, iterations: int = 4096) -> None:
        self.hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self.salt = b"0123456789abcdef"
        self.iterations = iterations
        self.salted = hashlib.pbkdf2_hmac(self.hash, password.encode(), self.salt, iterations)
        self.first_bare = ""
        self.server_first = ""

    def first(self, message: bytes) -> bytes:
        text = message.decode()
        assert text.startswith("n,,")
        self.first_bare = text[3:]
        nonce = self.first_bare.partition(",r=")[2] + "server"
        salt = base64.b64encode(self.salt).decode()
        self.server_first = f"r={nonce},s={salt},i={self.iterations}"
        return self.server_first.encode()

    def final(self, message: bytes) -> bytes | None:
        """None: the client does not know the password."""
        unproved, _, proof = message.decode().partition(",p=")
        auth_message = f"{self.first_bare},{self.server_first},{unproved}".encode()
        client_key = hmac.digest(self.salted, b"Client Key", self.hash)
        stored = hashlib.new(self.hash, client_key).digest()
        signature = hmac.digest(stored, auth_message, self.hash)
        proved = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.hash, proved).digest() != stored:
            return None
        server_key = hmac.digest(self.salted, b"Server Key", self.hash)
        return b"v=" + base64.b64encode(hmac.digest(server_key, auth_message, self.hash))


def test_the_example_of_rfc_7677() -> None:
    exchange = ScramExchange(Scram("user", "pencil", "SCRAM-SHA-256"), NONCE)
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    answer = exchange.answer(f"r={SERVER_NONCE},s={SALT},i=4096".encode())
    assert answer == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@QUICK
@given(
    mechanism=st.sampled_from(SCRAM_MECHANISMS),
    user=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    password=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    other=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
)
def test_both_sides_agree_exactly_if_they_know_the_same_password(
    mechanism: ScramMechanism, user: str, password: str, other: str
) -> None:
    server = ScramServer(mechanism, password)
    exchange = ScramExchange(Scram(user, other, mechanism))
    begin = exchange.first()
    assert b"," not in begin.partition(b"n=")[2].rpartition(b",r=")[0], "a name is one word"
    proof = exchange.answer(server.first(begin))
    assert proof is not None
    final = server.final(proof)
    # HMAC fills short keys up with zeros, so that passwords differ without those.
    assert (final is not None) == (other.rstrip("\0") == password.rstrip("\0"))
    if final is not None:
        assert exchange.answer(final) is None


@pytest.mark.parametrize("iterations", [0, 1, 4095, 2**31, 2**31 - 1, 9_999_999_999])
def test_a_broker_cannot_choose_any_number_of_iterations(iterations: int) -> None:
    exchange = begun()
    spent = time.process_time()
    with pytest.raises(AuthenticationFailed, match="iterations"):
        exchange.answer(f"r={SERVER_NONCE},s={SALT},i={iterations}".encode())
    assert time.process_time() - spent < 60, "it would be minutes if they were computed"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe", id="no text"),
        pytest.param(f"r={NONCE},s={SALT},i=4096".encode(), id="only our own nonce"),
        pytest.param(f"r=another,s={SALT},i=4096".encode(), id="another nonce"),
        pytest.param(f"m=x,r={SERVER_NONCE},s={SALT},i=4096".encode(), id="an extension"),
        pytest.param(f"r={SERVER_NONCE},s=a=b,i=4096".encode(), id="broken base64"),
        pytest.param(f"r={SERVER_NONCE},i=4096,s={SALT}".encode(), id="another order"),
        pytest.param(f"r={SERVER_NONCE},s={SALT},i=-4096".encode(), id="a negative number"),
        pytest.param(b"e=other-error", id="an error"),
        pytest.param(b"v=" + SALT.encode(), id="the end at the beginning"),
        pytest.param(b"r=" + NONCE.encode() + b"x" * 5000, id="too long"),
    ],
)
def test_a_first_message_that_is_none_ends_it(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        begun().answer(message)


@pytest.mark.parametrize(
    "message", [b"", b"v=", b"v=AAAA", b"v=!", b"e=invalid-proof", b"x" * 99999]
)
def test_a_broker_that_does_not_prove_itself_is_not_trusted(message: bytes) -> None:
    exchange = begun()
    exchange.answer(f"r={SERVER_NONCE},s={SALT},i=4096".encode())
    with pytest.raises(AuthenticationFailed):
        exchange.answer(message)
    with pytest.raises(AuthenticationFailed):
        exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_every_login_has_a_nonce_of_its_own() -> None:
    login = Scram("user", "pencil")
    assert len({ScramExchange(login).first() for _ in range(100)}) == 100
