"""Records of TLS as strangers might send them: first messages with anything, real ones altered."""

from __future__ import annotations

import random
import struct
from typing import Final

_HANDSHAKE, _ALERT, _CHANGE, _DATA = 0x16, 0x15, 0x14, 0x17
_HEADER_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = (1 << 14) - 1
_SUITES: Final = (0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC00A, 0x00FF, 0x5600, 0x0005, 0x0A0A)
_GROUPS: Final = (0x001D, 0x0017, 0x0018, 0x0100, 0xFFFF)
_SCHEMES: Final = (0x0403, 0x0804, 0x0401, 0x0201, 0xFFFF)
_NAME, _GROUP, _POINT, _SCHEME, _STATUS = 0, 10, 11, 13, 5
_PROTOCOLS, _PADDING, _TICKET, _SHARE, _EARLY, _VERSION, _COOKIE = 16, 21, 35, 51, 42, 43, 44
_KEY_MODES, _SHARED_KEY, _RENEGOTIATION = 45, 41, 0xFF01
_ANY_SIZES: Final = (0, 0, 1, 2, 30, 300, 20_000)

#: What is no TLS at all.
NOT_TLS: Final = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT localhost:1 HTTP/1.1\r\n\r\n",
    bytes.fromhex(
        "802e0100020015000000100700c0030080010080060040040080020080000004000005"
    ),  # SSL 2
    bytes.fromhex("0000000b00120000000000010001ff"),  # a request of Kafka
    b"SSH-2.0-x\r\n",
    b"\0" * 40,
    b"\xff" * 40,
)


def record(kind: int, body: bytes, version: int = 0x0303, size: int | None = None) -> bytes:
    """One record, which may lie about its size."""
    return struct.pack(">BHH", kind, version, len(body) if size is None else size) + body


def records_of(flight: bytes) -> list[bytes]:
    """The records that a real peer has made."""
    found, at = [], 0
    while at + _HEADER_BYTES <= len(flight):
        size = _HEADER_BYTES + int.from_bytes(flight[at + 3 : at + 5], "big")
        found.append(flight[at : at + size])
        at += size
    return found


def altered(flight: bytes, rng: random.Random) -> bytes:
    """What becomes of a flight on its way, or by ill will."""
    records = records_of(flight) or [flight]
    at = rng.randrange(len(records))
    match rng.randrange(8):
        case 0:
            return flight[: rng.randrange(len(flight) + 1)]
        case 1:
            return b"".join(records + [records[at]] * rng.choice((1, 1, 50)))
        case 2:
            rng.shuffle(records)
            return b"".join(records)
        case 3:  # cut into records of a byte or two: allowed, and much work
            size, whole = rng.choice((1, 2, 100)), records[at]
            body = whole[_HEADER_BYTES:]
            records[at] = b"".join(
                record(whole[0], body[i : i + size]) for i in range(0, len(body), size)
            )
        case 4:
            lie = rng.choice((0, 1, _RECORD_BYTES_MAX, 0x4800, 0xFFFF))
            records[at] = record(records[at][0], records[at][_HEADER_BYTES:], size=lie)
        case 5:
            records.insert(at, _odd_record(rng))
        case _:
            data = bytearray(flight)
            for _ in range(rng.choice((1, 1, 3))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(data)
    return b"".join(records)


def _odd_record(rng: random.Random) -> bytes:
    """Records that come where nobody waits for them, and very many of them."""
    times = rng.choice((1, 1, 1000))
    return rng.choice(
        (
            record(_CHANGE, b"\x01") * times,
            record(_ALERT, b"\x01\x5a") * times,  # a warning
            record(_ALERT, b"\x02\x28"),
            record(_ALERT, b"\x01\x00"),  # the end
            record(_HANDSHAKE, b"") * times,
            record(_DATA, b"") * times,
            record(_DATA, rng.randbytes(100)),
            record(_HANDSHAKE, b"\0\0\0\0") * times,  # asks for another handshake
            record(_HANDSHAKE, b"\x18\0\0\x01\x01"),  # for other keys
            record(rng.randrange(256), rng.randbytes(rng.choice((0, 5, 300)))),
            record(24, b"\x01\xff\xff"),  # a heartbeat
        )
    )


def first_message(rng: random.Random) -> bytes:
    """A ClientHello with anything in it, in one record or more."""
    suites = [rng.choice(_SUITES) for _ in range(rng.choice((1, 5, 5, 200, 9000)))]
    extensions = b"".join(_extension(rng) for _ in range(rng.choice((0, 3, 8, 8, 300))))
    if rng.random() < 0.7:
        extensions = _good_extensions() + extensions
    session = rng.randbytes(rng.choice((0, 32, 32, 33, 255)))
    body = struct.pack(">H", rng.choice((0x0303, 0x0303, 0x0301, 0x0300, 0x0002, 0xFFFF)))
    body += rng.randbytes(32) + bytes([len(session)]) + session
    body += struct.pack(">H", 2 * len(suites) % 65536)
    body += b"".join(struct.pack(">H", each) for each in suites) + b"\x01\0"
    body += struct.pack(">H", len(extensions) % 65536) + extensions
    size = rng.choice((len(body),) * 8 + (0, len(body) - 1, (1 << 24) - 1, 131_000))
    message = b"\x01" + size.to_bytes(3, "big") + body
    return b"".join(
        record(_HANDSHAKE, message[at : at + _RECORD_BYTES_MAX], 0x0301)
        for at in range(0, len(message), _RECORD_BYTES_MAX)
    )


def _with_size(data: bytes) -> bytes:
    return struct.pack(">H", len(data) % 65536) + data


def _of_kind(kind: int, data: bytes) -> bytes:
    return struct.pack(">H", kind) + _with_size(data)


def _numbers(numbers: tuple[int, ...]) -> bytes:
    return _with_size(b"".join(struct.pack(">H", each) for each in numbers))


def _good_extensions() -> bytes:
    share = struct.pack(">HH", 0x001D, 32) + b"\x09" + b"\0" * 31
    return (
        _of_kind(_VERSION, b"\x04\x03\x04\x03\x03")
        + _of_kind(_GROUP, _numbers(_GROUPS[:3]))
        + _of_kind(_SCHEME, _numbers(_SCHEMES[:3]))
        + _of_kind(_SHARE, _with_size(share))
    )


def _extension(rng: random.Random) -> bytes:
    noise = rng.randbytes(rng.choice(_ANY_SIZES))
    name = rng.choice((b"localhost", b"\0", b"x" * 255, b"x" * 60_000, b"\xff\xfe", noise))
    share = struct.pack(">HH", rng.choice(_GROUPS), rng.choice((0, 1, 32, 65))) + noise[:65]
    made = {
        _NAME: _with_size(b"\0" + _with_size(name)),
        _PROTOCOLS: _with_size(bytes([len(name) % 256]) + name),
        _SHARE: _with_size(share),
        _EARLY: b"",
        _VERSION: b"\x02" + rng.choice((b"\x03\x04", b"\x03\x03", b"\x7f\x1c", b"\xff\xff")),
        _SHARED_KEY: _with_size(_with_size(noise) + b"\0\0\0\0") + _with_size(b"\x20" + b"\0" * 32),
        _KEY_MODES: rng.choice((b"\x01\x01", b"\x01\x00", b"\0", noise[:200])),
        _GROUP: _numbers(_GROUPS * rng.choice((1, 100))),
        _SCHEME: _numbers(_SCHEMES * rng.choice((1, 100))),
        _RENEGOTIATION: rng.choice((b"\0", b"\x0c" + b"x" * 12, noise[:200])),
    }
    others = (_POINT, _STATUS, _PADDING, _TICKET, _COOKIE, 0x0A0A, 17513, rng.randrange(65536))
    kind = rng.choice((*made, *others))
    return _of_kind(kind, made.get(kind, noise) if rng.random() < 0.8 else noise)
