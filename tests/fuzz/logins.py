"""Logins as a stranger might try them: states skipped or doubled, messages that are no good."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import random
from typing import Any, Final, Protocol

from drumlin.broker.apis.served import SERVED
from drumlin.wire.messages import encode_request, parse_response
from fuzz.doors import PASSWORD, USER, Doors
from fuzz.frames import damaged, request_frame
from fuzz.hostile_tokens import claims, hostile_token
from rig.data.messages import build

#: What no broker takes; like the right one it must show nowhere.
WRONG: Final = "sesame-st4ys-shut"
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_MECHANISMS: Final = ("PLAIN", "OAUTHBEARER", "OAUTHBEARER", *_HASHES, *_HASHES)
_OTHERS: Final = ("api_versions", "sasl_handshake", "sasl_authenticate", "metadata", "produce")
_VERSIONS: Final = [(api, v) for api in _OTHERS for v in range(SERVED[api][0], SERVED[api][1] + 1)]
_SIZES: Final = (100, 5000, 400_000)
_NAMES: Final = (
    *(USER,) * 6,
    *("bob", "", "=", "=2c", "=2C", "=3D", "a,b", "\0", "al\u00adice", "\uff41lice", "\u2168"),
    *("alice ", "ALICE", "alice\n", "\u0627\u0041", "User:alice", "*", "%s", "\ud7ff", "x" * 5000),
)
_BINDINGS: Final = (
    *("n",) * 9,
    *("y", "p=tls-unique", "p=tls-server-end-point", "p=tls-exporter", "p=", "", "x", "N"),
)
_EXTENSIONS: Final = ("", "", "", ",m=x", ",tokenauth=true", ",tokenauth=TRUE", ",x=" + "y" * 9000)
_CHANNELS: Final = ("eSws", "", "cD10bHMtdW5pcXVlLCw=", "*", "A" * 9000, "bixhPWJvYiw=")
_ITERATIONS: Final = 4096


class Stream(Protocol):
    """A connection to a broker, however it is protected."""

    async def send(self, data: bytes) -> None:
        """
        Raises:
            ConnectionError: it is closed.
        """

    async def receive_exactly(self, size: int) -> bytes:
        """
        Raises:
            EOFError, ConnectionError: it is closed.
        """


class Login:
    """One peer's attempt, or several over one connection."""

    def __init__(self, stream: Stream, doors: Doors, rng: random.Random) -> None:
        self._stream, self._doors, self._rng = stream, doors, rng
        self._number = 0
        #: Whether what was sent may be a login that is right.
        self.may_be_right = False
        #: After a frame that is no good, answers cannot be told apart.
        self._is_in_step = True
        self._ends_early = rng.random() < 0.1
        #: A first one that is right all through shows that these attempts would be.
        self._is_tame = rng.random() < 0.05

    def _chance(self, share: float) -> bool:
        return not self._is_tame and self._rng.random() < share

    async def run(self) -> None:
        """Try. The connection may be closed at any time.

        Raises:
            EOFError, ConnectionError: it was.
        """
        if self._chance(0.5):
            await self._say(
                "api_versions", 3, client_software_name="f", client_software_version="1"
            )
        is_bare = self._chance(0.2)
        mechanism = self._rng.choice(_MECHANISMS)
        if not self._chance(0.05):
            named = self._rng.choice(("", "x" * 30_000, "\0")) if self._chance(0.05) else mechanism
            await self._say("sasl_handshake", 0 if is_bare else 1, mechanism=named)
        if mechanism in _HASHES:
            await self._scram(mechanism, is_bare)
        elif mechanism == "PLAIN":
            await self._token(self._plain(), is_bare)
        else:
            await self._token(self._bearer(), is_bare)
            if self._chance(0.5):
                await self._token(b"\x01", is_bare)

    # -- frames ------------------------------------------------------------------------

    async def _say(self, api: str, version: int, **fields: Any) -> bytes | None:
        """Send a request, or something like it; the answer, if it is of use."""
        self._number += 1
        parts = encode_request(api, version, self._number, "fuzz", build(api, version, fields))
        answer = await self._frame(b"".join(parts)[4:])
        if answer is None or api != "sasl_authenticate":
            return None
        with contextlib.suppress(Exception):  # it may be the answer to something else
            return bytes(parse_response(api, version, answer)[1].auth_bytes)
        return None

    async def _frame(self, frame: bytes) -> bytes | None:
        if self._chance(0.12):
            frame = damaged(frame, self._rng, keep=self._rng.choice((0, 2, 4, 8)))
            self._is_in_step = False
        sent = len(frame).to_bytes(4, "big") + frame
        if self._chance(0.02):
            sent = self._rng.choice((b"\x7f\xff\xff\xff", b"\xff" * 4, b"\0" * 4)) + frame
            self._is_in_step = False
        if self._chance(0.05):
            sent += sent
            self._is_in_step = False
        if self._chance(0.05):
            other = request_frame(*self._rng.choice(_VERSIONS), 7, self._rng)
            sent += len(other).to_bytes(4, "big") + other
            self._is_in_step = False
        await self._stream.send(sent)
        if not self._is_in_step or self._ends_early:
            return None
        size = int.from_bytes(await self._stream.receive_exactly(4), "big")
        return await self._stream.receive_exactly(size)

    async def _token(self, token: bytes, is_bare: bool) -> bytes | None:
        if self._chance(0.1):
            token = damaged(token, self._rng)
        if is_bare:
            return await self._frame(token)
        version = 2 if self._is_tame else self._rng.choice((0, 1, 2))
        return await self._say("sasl_authenticate", version, auth_bytes=token)

    # -- messages of mechanisms --------------------------------------------------------

    def _password(self) -> str:
        is_right = self._is_tame or self._rng.random() < 0.3
        self.may_be_right = self.may_be_right or is_right
        return PASSWORD if is_right else WRONG

    def _name(self) -> str:
        return self._rng.choice(_NAMES) if self._chance(0.5) else USER

    def _plain(self) -> bytes:
        parts = [self._name() if self._chance(0.3) else "", self._name(), self._password()]
        if self._chance(0.1):
            parts = self._rng.choice((parts[1:], parts * 2, parts * 20_000, parts[::-1]))
        joined = "\0".join(parts).encode()
        return joined + b"\xff\xfe" if self._chance(0.05) else joined

    def _bearer(self) -> bytes:
        if self._is_tame or self._rng.random() < 0.2:
            self.may_be_right = True
            token = self._doors.signer.token(USER, **claims())
        else:
            token = hostile_token(self._doors.signer, self._rng)
        pairs = [f"auth={self._rng.choice(('Bearer', 'bearer'))} {token}"]
        if self._chance(0.2):
            pairs += self._rng.choice((pairs, ["x=y"] * 1000, ["=" * 1000], ["auth="], ["x"]))
        header = (
            self._rng.choice(("n,,", f"n,a={self._name()},", "y,,")) if self._chance(0.2) else "n,,"
        )
        return (header + "\x01" + "".join(f"{each}\x01" for each in pairs) + "\x01").encode()

    async def _scram(self, mechanism: str, is_bare: bool) -> None:
        binding = self._rng.choice(_BINDINGS) if self._chance(0.5) else "n"
        other = self._rng.choice(("", "", f"a={self._name()}")) if self._chance(0.3) else ""
        header = f"{binding},{other},"
        nonce = f"{self._rng.getrandbits(128):x}"
        if self._chance(0.1):
            nonce = self._rng.choice(("", "\u00e4", "a,b", " ", "x" * self._rng.choice(_SIZES)))
        attributes = [f"n={self._name()}", f"r={nonce}"]
        if self._chance(0.1):
            attributes = self._rng.choice(
                (
                    attributes[::-1],
                    attributes * 2,
                    attributes[:1],
                    attributes[1:],
                    ["m=x", *attributes],
                )
            )
        bare = ",".join(attributes) + (self._rng.choice(_EXTENSIONS) if self._chance(0.3) else "")
        challenge = await self._token((header + bare).encode("utf-8"), is_bare)
        final = self._final(mechanism, header, bare, (challenge or b"").decode("latin-1"))
        await self._token(final, is_bare)

    def _final(self, mechanism: str, header: str, bare: str, challenge: str) -> bytes:
        """The last message; with a proof that is right only by the right password."""
        found = dict(each.partition("=")[::2] for each in challenge.split(","))
        nonce, salt = found.get("r", "x"), found.get("s", "AAAA")
        if self._chance(0.1):
            nonce = self._rng.choice(("", nonce[:-1], nonce + "x", nonce.swapcase(), "x" * 4000))
        channel = base64.b64encode(header.encode()).decode()
        if self._chance(0.1):
            channel = self._rng.choice(_CHANNELS)
        unproved = (
            f"c={channel},r={nonce}{self._rng.choice(_EXTENSIONS) if self._chance(0.1) else ''}"
        )
        proof = _proof(mechanism, self._password(), salt, f"{bare},{challenge},{unproved}")
        if self._chance(0.1):
            proof = self._rng.choice(
                ("", "A", "AAAA", "=" * 9, "A" * 400_000, proof + "A", proof[4:])
            )
        parts = [unproved, f"p={proof}"]
        if self._chance(0.1):
            parts = self._rng.choice(
                (parts[::-1], parts * 2, parts[:1], parts[1:], [*parts, "x=y"])
            )
        return ",".join(parts).encode()


def _proof(mechanism: str, password: str, salt: str, message: str) -> str:
    name = _HASHES[mechanism]
    try:
        salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(salt), _ITERATIONS)
    except ValueError:
        return ""
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), message.encode(), name)
    return base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
