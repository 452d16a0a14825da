"""Bytes of `pgoutput` as PostgreSQL 15 has sent them, and whatever else may come."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drumlin.capture.messages import runs as messages_runs
from drumlin.capture.messages.frames import (
    EPOCH_US,
    Keepalive,
    Malformed,
    parse_frame,
    status_update,
)
from drumlin.capture.messages.lsn import lsn_text, parse_lsn
from drumlin.capture.messages.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    Origin,
    Relation,
    Row,
    Truncate,
    Type,
    Update,
    decode,
)
from rig.depth import so_many

_RELATION = (
    "5200004005730074006400030169640000000017ffffffff006d0000004002ffffffff"
    "006269670000000019ffffffff"
)
_GOLDEN = [
    (
        "42000000000153442000030465494e6552000002db",
        Begin(parse_lsn("0/1534420"), 0x0003_0465_494E_6552 + EPOCH_US, 731),
    ),
    (
        "43000000000001534420000000000153445000030465494e6552",
        Commit(0x1534420, 0x1534450, 0x0003_0465_494E_6552 + EPOCH_US),
    ),
    ("59000040027075626c6963006d6f6f6400", Type(16386, "public", "mood")),
    (
        _RELATION,
        Relation(
            16389,
            "s",
            "t",
            "d",
            (
                Column("id", 23, -1, True),
                Column("m", 16386, -1, False),
                Column("big", 25, -1, False),
            ),
        ),
    ),
    (
        "520000400c7075626c69630066006600020169640000000017ffffffff016e00000006a4ffffffff",
        Relation(
            16396,
            "public",
            "f",
            "f",
            (Column("id", 23, -1, True), Column("n", 1700, -1, True)),
        ),
    ),
    ("490000400c4e00027400000001317400000004312e3530", Insert(16396, ["1", "1.50"])),
    ("55000040054e00037400000001316e75", Update(16389, None, ["1", None, UNCHANGED])),
    (
        "55000040054b00037400000001316e6e4e00037400000001326e75",
        Update(16389, ["1", None, None], ["2", None, UNCHANGED]),
    ),
    (
        "550000400c4f00027400000001317400000004312e35304e0002740000000131740000000132",
        Update(16396, ["1", "1.50"], ["1", "2"]),
    ),
    ("44000040054b00037400000001326e6e", Delete(16389, ["2", None, None])),
    ("440000400c4f0002740000000131740000000132", Delete(16396, ["1", "2"])),
    ("540000000203000040050000400c", Truncate((16389, 16396))),
    ("4f0000000000000010737562736372697074696f6e00", Origin(16, "subscription")),
]


@pytest.mark.parametrize(("told", "message"), _GOLDEN)
def test_as_postgresql_has_sent_it(told: str, message: object) -> None:
    payload = bytes.fromhex(told)
    assert decode(payload) == message
    for end in range(len(payload)):
        with pytest.raises(Malformed):
            decode(payload[:end])
    with pytest.raises(Malformed, match="longer"):
        decode(payload + b"\0")


def _row(row: Row) -> bytes:
    parts = [struct.pack(">H", len(row))]
    for value in row:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">i", len(value.encode())) + value.encode())
    return b"".join(parts)


_ROWS = st.lists(st.one_of(st.none(), st.just(UNCHANGED), st.text()), max_size=20)


@settings(max_examples=so_many(25, 500))
@given(st.integers(0, 2**32 - 1), _ROWS, st.one_of(st.none(), _ROWS))
def test_rows_of_any_text(oid: int, new: Row, old: Row | None) -> None:
    head = struct.pack(">I", oid)
    before = b"" if old is None else b"O" + _row(old)
    assert decode(b"U" + head + before + b"N" + _row(new)) == Update(oid, old, new)
    assert decode(b"I" + head + b"N" + _row(new)) == Insert(oid, new)
    assert decode(b"D" + head + b"K" + _row(new)) == Delete(oid, new)


@given(st.one_of(st.binary(), st.binary().map(lambda rest: b"U" + rest)))
@example(b"T\xff\xff\xff\xff\0")
@example(b"I\0\0\0\1N\xff\xff")
@example(b"I\0\0\0\1N\0\1t\xff\xff\xff\xff")
def test_anything_else_is_malformed(payload: bytes) -> None:
    try:
        decode(payload)
    except Malformed as error:
        assert str(error)


def test_text_that_is_not_utf8_is_said() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        decode(b"I\0\0\0\1N\0\1t\0\0\0\1\xff")


def test_binary_values_were_not_asked_for() -> None:
    with pytest.raises(Malformed, match="'b'"):
        decode(b"I\0\0\0\1N\0\1b\0\0\0\1\xff")


def test_frames() -> None:
    data = b"w" + struct.pack(">qqq", 1, 2, 3) + b"payload"
    assert parse_frame(memoryview(data)) == b"payload"
    keepalive = bytes.fromhex("6b000000000152860800030464d4177b0a01")
    assert parse_frame(memoryview(keepalive)) == Keepalive(0x1528608, True)
    for frame in (b"", b"w", b"x" + data, keepalive[:-1]):
        with pytest.raises(Malformed):
            parse_frame(memoryview(frame))
    update = status_update(7, 9, EPOCH_US + 5)
    assert update == b"r" + struct.pack(">qqqqB", 9, 9, 9, 5, 0)


@given(st.integers(0, 2**64 - 1))
def test_lsns(lsn: int) -> None:
    assert parse_lsn(lsn_text(lsn)) == lsn


@pytest.mark.parametrize("text", ["", "/", "1", "1/", "/1", "123456789/1", "1/g"])
def test_no_lsns(text: str) -> None:
    with pytest.raises(ValueError, match=r"LSN|base 16"):
        parse_lsn(text)


@given(st.lists(st.sampled_from([b"B", b"C", b"I" * 9, b"U", b"D", b"R", b"S", b""])))
def test_runs(payloads: list[bytes]) -> None:
    """They are all messages in their order, and a message of another kind is alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages_runs, "RUN_MESSAGES", 4)
        patch.setattr(messages_runs, "RUN_BYTES", 20)
        found = list(messages_runs.runs(payloads))
    assert [each for run in found for each in run] == payloads
    for run, following in pairwise([*found, [b"R"]]):
        kinds = {each[:1] for each in run}
        assert len(run) == 1 or kinds <= {b"B", b"C", b"I", b"U", b"D"}
        assert len(run) <= 4 and sum(map(len, run[:-1])) < 20
        is_full = len(run) == 4 or sum(map(len, run)) >= 20
        assert is_full or {run[-1][:1], following[0][:1]} & {b"R", b"S", b""}
