"""Requests and answers that a peer might send, and what becomes of them when they are damaged."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from drumlin.wire.messages import encode_request, encode_response
from rig.data.arbitrary_messages import Case, arbitrary_value, cases
from rig.data.batches import CODECS, Batch, Rec

#: Names that mean something together, so that more than the parser is reached.
_NAMES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("topic", ("t", "compacted", "new", "__consumer_offsets", "")),
    ("transactional_id", ("tx", "tx2", "")),
    ("member", ("", "m")),
    ("group", ("g", "shared", "tx", "")),
    ("coordinator_keys", ("g", "tx", "shared:AAAAAAAAAAAAAAAAAAAAAA:0")),
    ("key", ("g", "tx", "k")),
    ("resource_name", ("t", "compacted", "1", "g", "")),
    ("assignor", ("uniform", "range", "x")),
    ("regex", ("t.*", "(", "[a-z]+", r"\pL")),
    ("pattern", ("t.*", "(", r"\pL\pL")),
    ("protocol", ("range", "consumer", "share")),
    ("config", ("cleanup.policy", "retention.ms", "segment.bytes", "compression.type")),
    ("value", ("compact", "delete", "-1", "1000000", "x", "")),
    ("name", ("t", "compacted", "range", "cleanup.policy", "")),
)
_OTHER_NAMES: Final = ("", "a", "t", "g", "топик", "../..", "x" * 300)
_NUMBERS: Final = (0, 0, 0, 1, 1, 2, 3, -1, -2, 100, 127, 1000)
_LIMITS: Final = (2**31 - 1, -(2**31), 2**15 - 1, 2**63 - 1, -(2**63))
_BITS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}

#: Lengths and counts in both forms that announce more than any machine has.
_ANNOUNCED: Final = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x01",
    b"\x7f\xff\xff\xff",
    b"\x00\x98\x96\x80",
    b"\x80\x00\x00\x00",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x80\x80\x80\x80\x80\x80",
    b"\x00",
)


def plausible(kafka_type: str, name: str, rng: random.Random) -> Any:
    """A value for a field of this name: mostly one that a handler does something with."""
    if kafka_type == "string":
        for part, names in _NAMES:
            if part in name and rng.random() < 0.9:
                return rng.choice(names)
        return rng.choice(_OTHER_NAMES)
    if kafka_type in _BITS:
        limit = 2 ** _BITS[kafka_type]
        number = rng.choice(_NUMBERS if rng.random() < 0.95 else _LIMITS)
        if "num_partitions" in name or name == "count":
            number = rng.choice((1, 2, 3, -1, 0))
        return max(-limit, min(limit - 1, number))
    if kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=rng.choice((0, 1, 5, 50, 1000)))
    if kafka_type == "datetime_i64":
        return datetime.fromtimestamp(rng.choice((0, 1, 1_700_000_000)), UTC)
    if kafka_type == "uuid":
        return UUID(int=rng.choice((1, 2, rng.getrandbits(128) | 1)))
    if kafka_type in ("records", "bytes"):
        return _records(rng) if kafka_type == "records" or rng.random() < 0.2 else rng.randbytes(9)
    return arbitrary_value(kafka_type, name, rng)


def _records(rng: random.Random) -> bytes:
    """A record batch: right, or one whose header lies under a right CRC, or damaged."""
    values = (rng.randbytes(rng.choice((0, 1, 100))) for _ in range(rng.choice((1, 3, 20))))
    records = tuple(Rec(value, b"k" if rng.random() < 0.7 else None) for value in values)
    lies: dict[str, Any] = {}
    if rng.random() < 0.3:
        lies["record_count"] = rng.choice((0, 1, -1, 1000, 2**31 - 1))
    if rng.random() < 0.3:
        lies["last_offset_delta"] = rng.choice((0, -1, 1000, 2**31 - 1))
    made = Batch(records=records, codec=rng.choice(list(CODECS)), **lies).encode()
    return damaged(made, rng) if rng.random() < 0.3 else made


@cache
def _cases(api_name: str) -> dict[tuple[int, str], Case]:
    return {(each.version, each.kind): each for each in cases(api_name)}


def _message(api_name: str, version: int, kind: str, rng: random.Random) -> Any:
    case = _cases(api_name)[version, kind]
    message, _ = case.decode(case.arbitrary(rng, plausible)[1])
    return message


def request_frame(api_name: str, version: int, correlation_id: int, rng: random.Random) -> bytes:
    """A request, well-formed but for what its records are."""
    message = _message(api_name, version, "request", rng)
    return b"".join(encode_request(api_name, version, correlation_id, "fuzz", message))[4:]


def response_frame(api_name: str, version: int, correlation_id: int, rng: random.Random) -> bytes:
    """An answer, well-formed but for what its records are."""
    message = _message(api_name, version, "response", rng)
    return b"".join(encode_response(api_name, version, correlation_id, message))[4:]


def damaged(frame: Sequence[int], rng: random.Random, keep: int = 0) -> bytes:
    """The frame with something wrong after its first `keep` bytes."""
    data = bytearray(frame)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(min(keep, len(data)), len(data) + 1)
        match rng.randrange(7):
            case 0 | 1:
                lie = rng.choice(_ANNOUNCED)
                data[at : at + len(lie)] = lie
            case 2:
                data[at : at + 1] = bytes([rng.getrandbits(8)])
            case 3:
                del data[at:]
            case 4:
                del data[at : at + rng.choice((1, 2, 4, 20))]
            case 5:
                data[at:at] = rng.randbytes(rng.choice((1, 4, 100)))
            case 6:
                data[at:at] = data[at : at + rng.choice((4, 8, 50))] * rng.choice((1, 5, 50))
    return bytes(data)
