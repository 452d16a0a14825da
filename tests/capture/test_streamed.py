"""Transactions that are sent before their commit: whole, in order, and without what was aborted."""

from __future__ import annotations

import contextlib
import errno
import io
import random
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from capture.captured import Captured
from drumlin.capture.database.streamed import StreamedTransactions
from drumlin.capture.errors import CaptureError
from drumlin.capture.messages.frames import EPOCH_US, Malformed
from drumlin.capture.messages.pgoutput import Begin, Commit, Delete, Message, decode
from rig.depth import seeds


def _block(xid: int, *changes: bytes) -> list[bytes]:
    return [b"S" + struct.pack(">IB", xid, 1), *changes, b"E"]


def _change(xid: int, number: int) -> bytes:
    """A delete, by the (sub)transaction `xid`, of the row with this number as its key."""
    text = str(number).encode()
    row = struct.pack(">Hci", 1, b"t", len(text)) + text
    return b"D" + struct.pack(">IIc", xid, 7, b"K") + row


def _commit(xid: int, lsn: int) -> bytes:
    return b"c" + struct.pack(">IBqqq", xid, 0, lsn, lsn + 8, 5)


def _abort(xid: int, subxid: int) -> bytes:
    return b"A" + struct.pack(">II", xid, subxid)


@pytest.fixture
def transactions() -> Iterator[StreamedTransactions]:
    with contextlib.closing(StreamedTransactions()) as found:
        yield found


def _taken(transactions: StreamedTransactions, payloads: list[bytes]) -> list[Message]:
    found: list[Message] = []
    for each in payloads:
        assert transactions.takes(each)
        found += map(decode, transactions.take(each))
    return found


def _whole(xid: int, lsn: int, numbers: list[int]) -> list[Message]:
    deletes = [Delete(7, [str(each)]) for each in numbers]
    return [Begin(lsn, 5 + EPOCH_US, xid), *deletes, Commit(lsn, lsn + 8, 5 + EPOCH_US)]


def test_blocks_of_several_transactions(transactions: StreamedTransactions) -> None:
    assert not transactions.takes(b"B...")
    payloads = _block(10, _change(10, 1), b"O" + bytes(8) + b"origin\0")
    payloads += _block(20, _change(20, 2)) + _block(10, _change(12, 3)) + _block(30, _change(30, 4))
    assert _taken(transactions, payloads) == []
    assert _taken(transactions, [_abort(30, 30), _commit(20, 100)]) == _whole(20, 100, [2])
    assert _taken(transactions, [_commit(10, 200)]) == _whole(10, 200, [1, 3])
    # Nothing that was to be sent of these; and one of which nothing is left.
    assert _taken(transactions, [_abort(40, 41), _commit(50, 300)]) == _whole(50, 300, [])


def test_what_does_not_belong_there(transactions: StreamedTransactions) -> None:
    for payload in (b"E", b"E ", b"S", b"c12", b"A123", _commit(1, 1)[:-1]):
        with pytest.raises(Malformed):
            _taken(transactions, [payload])
    _taken(transactions, _block(10)[:1])
    for payload in (b"I", b"D123", b"S" + bytes(5), _commit(10, 1), _abort(10, 10)):
        with pytest.raises(Malformed):
            _taken(transactions, [payload])


class _Model:
    """One transaction with subtransactions in one another, as a server has it and sends it."""

    def __init__(self, xid: int, source: random.Random) -> None:
        self.xid, self._source, self._next = xid, source, (xid + 1) % 2**32
        self._stack = [xid]
        self._numbers = [0]  # where in `alive` each of the stack begins
        self._released: list[list[int]] = [[]]  # below each of the stack, and committed
        self.alive: list[int] = []
        self._number = 0

    def step(self) -> list[bytes]:
        """The messages of a moment."""
        kind = self._source.random()
        if kind < 0.3 and len(self._stack) < 5:
            self._stack.append(self._next)
            self._next = (self._next + self._source.randrange(1, 3)) % 2**32
            self._numbers.append(len(self.alive))
            self._released.append([])
        elif kind < 0.45 and len(self._stack) > 1:
            released = self._released.pop()
            self._released[-1] += [*released, self._stack.pop()]
            self._numbers.pop()
        elif kind < 0.6 and len(self._stack) > 1:
            subxids = [*self._released.pop(), self._stack.pop()]
            del self.alive[self._numbers.pop() :]
            head, last = subxids[:-1], subxids[-1]
            self._source.shuffle(head)
            return [_abort(self.xid, each) for each in (*head, last)]
        else:
            self._number += 1
            self.alive.append(self._number)
            return _block(self.xid, _change(self._stack[-1], self._number))
        return []


@pytest.mark.parametrize("seed", seeds(40, 2000))
def test_subtransactions_in_every_order(transactions: StreamedTransactions, seed: int) -> None:
    source = random.Random(seed)
    models = [_Model(xid, source) for xid in (100, 2**32 - 5, 5000)]
    for _ in range(source.randrange(400)):
        assert _taken(transactions, source.choice(models).step()) == []
    for each in models:
        assert _taken(transactions, [_commit(each.xid, 9)]) == _whole(each.xid, 9, each.alive)


class _FullDisk(io.BytesIO):
    def write(self, _: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full(
    transactions: StreamedTransactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: _FullDisk())
    with pytest.raises(CaptureError, match=r"No space left on device.*set TMPDIR"):
        _taken(transactions, _block(10, _change(10, 1)))


def test_large_transactions_at_the_same_time(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE one (id int PRIMARY KEY, text text)",
        "CREATE TABLE two (id int PRIMARY KEY, text text)",
        "INSERT INTO two VALUES (0, 'first')",
    )
    captured.start_here()
    captured.await_all()
    fill = "INSERT INTO {} SELECT i, repeat(md5(i::text), 10) FROM generate_series({}, {}) i"
    with psycopg.connect(captured.url) as first, psycopg.connect(captured.url) as second:
        first.execute(fill.format("one", 1, 2000))
        second.execute(fill.format("two", 1, 500))
        first.execute("SAVEPOINT a")
        first.execute(fill.format("two", 5000, 6000))
        first.execute("SAVEPOINT b")
        first.execute(fill.format("one", 2001, 3000))
        first.execute("RELEASE b")
        first.execute("ROLLBACK TO a")
        first.execute("CREATE TYPE size AS ENUM ('s', 'm')")
        first.execute("ALTER TABLE one ADD size size DEFAULT 'm'")
        first.execute("UPDATE one SET text = 'changed'")
        captured.run("UPDATE two SET text = 'meanwhile' WHERE id = 0")
        captured.await_all()
        assert list(captured.state("two")) == ['{"id":0}'] and not captured.state("one")
        second.execute(fill.format("two", 501, 1000))
        second.commit()
        captured.await_all()
        captured.check_equal("two")
        assert not captured.state("one")
        first.commit()
    captured.run("UPDATE one SET text = 'last' WHERE id = 7")
    captured.await_all()
    captured.check_equal("one", "two")
    assert len(captured.records("one")) == 2000 + 2000 + 1
    with psycopg.connect(captured.url) as gone:
        gone.execute("DELETE FROM one")
        gone.rollback()
    captured.await_all()
    captured.check_equal("one")
    with captured.connect() as connection:
        if connection.info.server_version < 140000:
            return
    assert captured.rows(
        "SELECT stream_count FROM pg_stat_replication_slots"
        f" WHERE slot_name = 'drumlin_{captured.name}' AND stream_txns >= 2"
    ), "they were sent before their commit"
