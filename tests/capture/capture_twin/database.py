"""A model of a PostgreSQL: transactions, one slot, and a standby that may be promoted.

Each row has a version, which no other row ever has, so that what is written twice is noticed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

from capture.capture_twin import wire
from drumlin.capture.messages.pgoutput import UNCHANGED, Column, Relation, Value

KEYS = 6
#: The columns of each table, by its oid.
TABLES = {1: "t", 2: "u"}
COLUMNS = (Column("id", 23, -1, True), Column("v", 23, -1, False), Column("big", 25, -1, False))

Rows = dict[tuple[int, int], tuple[int, str]]  # by table and key: version and large value


def relation(oid: int) -> Relation:
    return Relation(oid, "s", TABLES[oid], "d", COLUMNS)


class Change(NamedTuple):
    oid: int
    payload: bytes


@dataclass
class Transaction:
    """One that is committed."""

    xid: int
    commit_lsn: int
    end_lsn: int
    is_streamed: bool  # before its commit
    changes: list[Change]
    after: Rows = field(repr=False)  # all rows, once it is committed


@dataclass
class Slot:
    confirmed: int
    is_failover: bool
    saved: int = 0  # what is on the disk: what a crash leaves
    on_standby: int | None = None


class Server:
    """One database cluster; `promote` makes its standby the primary."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self._lag = source.choice((0.02, 0.5))  # how likely the standby is to be there
        self.system_id, self.timeline = "7", 1
        self.ended: dict[int, int] = {}
        self.lsn = 1000
        self.wal: list[Transaction] = []
        self.rows: Rows = {}
        self.slot: Slot | None = None
        self.version = self.next_xid = 100
        self.incarnation = 0  # connections of an earlier one are lost
        self.reader: object = None
        self.sent_lsn = 0
        self.snapshots: dict[str, Rows] = {}
        self.history: dict[int, list[Transaction]] = {1: self.wal}

    # -- what others do ----------------------------------------------------------------------

    def transact(self) -> None:
        rows, changes = dict(self.rows), []
        for _ in range(self.random.choice((0, 1, 1, 2, 5))):
            changes += self._change(rows)
        # Where one transaction ends, the next one may begin: their LSNs are the same.
        self.lsn += self.random.choice((0, 0, 16))
        commit_lsn, self.lsn = self.lsn, self.lsn + 8
        is_streamed = bool(changes) and self.random.random() < 0.3
        done = Transaction(self.next_xid, commit_lsn, self.lsn, is_streamed, changes, rows)
        self.next_xid += 1
        if changes or self.random.random() < 0.5:  # before PostgreSQL 15 empty ones are sent, too
            self.wal.append(done)
        self.rows = rows

    def _change(self, rows: Rows) -> list[Change]:
        oid, key, other = self.random.choice(list(TABLES)), *self.random.sample(range(KEYS), 2)
        self.version += 1
        version, kind = self.version, self.random.random()
        before = rows.get((oid, key))
        new: list[Value] = [str(key), str(version), f"big {version}"]
        if kind < 0.02:
            for each in [each for each in rows if each[0] == oid]:
                del rows[each]
            return [Change(oid, wire.truncate(oid))]
        if before is None:
            rows[oid, key] = (version, f"big {version}")
            return [Change(oid, wire.insert(oid, new))]
        if kind < 0.3:
            del rows[oid, key]
            return [Change(oid, wire.delete(oid, [str(key), None, None]))]
        if kind < 0.5 and (oid, other) not in rows:
            del rows[oid, key]
            rows[oid, other] = (version, before[1])
            new = [str(other), str(version), UNCHANGED]
            return [Change(oid, wire.update(oid, [str(key), None, None], new))]
        if kind < 0.75:
            rows[oid, key] = (version, before[1])
            return [Change(oid, wire.update(oid, None, [str(key), str(version), UNCHANGED]))]
        rows[oid, key] = (version, f"big {version}")
        return [Change(oid, wire.update(oid, None, new))]

    def write_other_tables(self) -> None:
        self.lsn += 24

    def crash(self) -> None:
        """Connections end, and the slot is as it was when it was last saved."""
        self.incarnation += 1
        self.reader = None
        self.snapshots.clear()
        if self.slot is not None:
            self.slot.confirmed = self.slot.saved

    def cut(self) -> None:
        self.incarnation += 1
        self.reader = None
        self.snapshots.clear()

    def save_slot(self) -> None:
        if self.slot is not None:
            self.slot.saved = self.slot.confirmed
            if self.slot.is_failover and self.random.random() < self._lag:
                self.slot.on_standby = self.slot.confirmed

    def promote(self, waits: bool) -> None:
        """A standby becomes the primary: with all that was sent, if the primary waits for it."""
        slot = self.slot
        on_standby = None if slot is None else slot.on_standby
        first = max(self.sent_lsn if waits else 0, on_standby or 0, *self.ended.values(), 1000)
        ends = [each.end_lsn for each in self.wal if each.end_lsn >= first] + [self.lsn]
        end = min(self.random.choice(ends), self.random.choice(ends))
        self.crash()
        self.ended[self.timeline] = end
        self.timeline += 1
        self.wal = [each for each in self.wal if each.end_lsn <= end]
        self.history[self.timeline] = self.wal
        self.rows = dict(self.wal[-1].after) if self.wal else {}
        self.sent_lsn = min(self.sent_lsn, end)
        self.lsn = end + self.random.choice((0, 8))
        if slot is not None:
            self.slot = None
            if on_standby is not None:
                self.slot = Slot(on_standby, True, on_standby, None)
        for _ in range(self.random.choice((0, 0, 1, 20))):  # before the capture is there
            self.transact()

    # -- what can be known -------------------------------------------------------------------

    def rows_at(self, timeline: int, lsn: int) -> Rows:
        """All rows of the transactions before this LSN."""
        found: Rows = {}
        for each in self.history[timeline]:
            if each.commit_lsn >= lsn:
                break
            found = each.after
        return found

    def has(self, timeline: int, lsn: int) -> bool:
        """Whether the server has all transactions of this timeline before this LSN."""
        known = {(each.xid, each.end_lsn) for each in self.wal}
        found = (each for each in self.history[timeline] if each.commit_lsn < lsn)
        return all((each.xid, each.end_lsn) in known for each in found if each.changes)


class Sender:
    """What streams from the slot to one connection."""

    def __init__(self, server: Server, lsn: int, ignores_lsn: bool) -> None:
        assert server.slot is not None
        confirmed = server.slot.confirmed
        self._server, self._start = server, confirmed if ignores_lsn else max(confirmed, lsn)
        self._place = 0
        self._frames: list[tuple[bytes | None, int]] = []
        self._told: set[int] = set()
        self._sent_lsn = self._start
        self._next_lsn = self._start  # once the frames are sent

    def next(self, wants_answer: bool) -> tuple[bytes | None, int] | None:
        """A message, or a keepalive with its LSN; None: nothing is to be sent."""
        server, source = self._server, self._server.random
        if not self._frames:
            self._decode()
        if self._frames:
            if source.random() < 0.15:
                return None, self._sent_lsn
            frame = self._frames.pop(0)
            if not self._frames:
                self._sent_lsn = self._next_lsn
            return frame
        if self._sent_lsn < server.lsn or wants_answer or source.random() < 0.2:
            self._sent_lsn = max(self._sent_lsn, server.lsn)
            server.sent_lsn = max(server.sent_lsn, self._sent_lsn)
            return None, self._sent_lsn
        return None

    def _decode(self) -> None:
        server = self._server
        while self._place < len(server.wal):
            found = server.wal[self._place]
            self._place += 1
            if found.commit_lsn < self._start:
                continue
            # Sent before the LSN that a keepalive tells.
            server.sent_lsn = max(server.sent_lsn, found.end_lsn)
            payloads = self._streamed(found) if found.is_streamed else self._whole(found)
            self._frames = [(each, 0) for each in payloads]
            self._sent_lsn, self._next_lsn = max(self._sent_lsn, found.commit_lsn), found.end_lsn
            return

    def _relations(self, found: Transaction, xid: int | None) -> list[bytes]:
        payloads = []
        for each in found.changes:
            if each.oid not in self._told:
                self._told.add(each.oid)
                payloads.append(wire.relation(relation(each.oid)))
            payloads.append(each.payload)
        return payloads if xid is None else [wire.with_xid(each, xid) for each in payloads]

    def _whole(self, found: Transaction) -> list[bytes]:
        payloads = [wire.begin(found.commit_lsn, found.xid)]
        payloads += self._relations(found, None)
        return [*payloads, wire.commit(found.commit_lsn, found.end_lsn)]

    def _streamed(self, found: Transaction) -> list[bytes]:
        payloads = [wire.block_start(found.xid)]
        for each in self._relations(found, found.xid):
            payloads.append(each)
            if self._server.random.random() < 0.3:
                payloads += [wire.block_end(), wire.block_start(found.xid)]
        payloads.append(wire.block_end())
        return [*payloads, wire.stream_commit(found.xid, found.commit_lsn, found.end_lsn)]
