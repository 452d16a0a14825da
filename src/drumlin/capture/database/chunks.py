"""Reads a table in chunks, in key order, each chunk in a known snapshot.

A transaction's id in the stream and the chunk's snapshot together show whether the chunk contains
the transaction's changes. So no watermarks need to be written to the database to find out which
changes are newer than a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.capture.database import catalog
from drumlin.capture.database.catalog import FoundTable, quoted
from drumlin.capture.database.connections import failure_of, loaded
from drumlin.capture.database.snapshot import copied
from drumlin.capture.messages.lsn import end_of_records, parse_lsn
from drumlin.capture.messages.pgoutput import Row

if TYPE_CHECKING:
    import psycopg

_SIZE_BYTES: Final = 1 << 20
_ROWS_MAX: Final = 20_000
_SNAPSHOT: Final = """
SELECT txid_current_snapshot()::text, pg_current_wal_insert_lsn()::text,
  current_setting('wal_block_size')::int, pg_size_bytes(current_setting('wal_segment_size'))
"""
_HALF: Final = 1 << 31
_LOW_BITS: Final = (1 << 32) - 1


class Seen(NamedTuple):
    """The transactions that a snapshot shows: all before `end`, except those that were open."""

    end: int
    open: frozenset[int]

    def shows(self, xid: int) -> bool:
        """Whether the snapshot shows a transaction. `xid`: the lower 32 bits, as in the stream."""
        number = (self.end & ~_LOW_BITS) | xid
        if number - self.end > _HALF:
            number -= _LOW_BITS + 1
        elif self.end - number > _HALF:
            number += _LOW_BITS + 1
        return number < self.end and number not in self.open


class Chunk(NamedTuple):
    """Some rows. Everything that their snapshot shows was committed before `high_lsn`."""

    rows: list[Row]
    is_last: bool
    seen: Seen
    high_lsn: int


class TableAltered(Exception):
    """The table was altered since reading began, and must be read again from its beginning."""


def parse_snapshot(text: str) -> Seen:
    """The result of `txid_current_snapshot`: `xmin:xmax:xip,xip`."""
    _, end, opened = text.split(":")
    return Seen(int(end), frozenset(int(each) for each in opened.split(",") if each))


def seen_now(connection: psycopg.Connection[Any]) -> Seen:
    ((text, *_),) = catalog.rows(connection, _SNAPSHOT)
    return parse_snapshot(text)


def read_chunk(
    connection: psycopg.Connection[Any],
    publication: str,
    table: FoundTable,
    after: Sequence[str] | None,
    rows_max: int,
    should_stop: Callable[[], bool],
) -> Chunk | None:
    """The rows that follow the key `after`; None: the table is locked, as by an open ALTER.

    Raises:
        TableAltered, DatabaseLost, DatabaseRefused: the rows cannot be read.
        Stopped: the capture was asked to stop.
    """
    psycopg = loaded()
    try:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SET LOCAL row_security = off")
        # Lock first: a table that is rewritten after the snapshot was taken would look empty.
        connection.execute(f"LOCK TABLE {catalog.only(table)} IN ACCESS SHARE MODE NOWAIT")
        ((text, high, block, segment),) = catalog.rows(connection, _SNAPSHOT)
        every = catalog.tables(connection, publication)
        now = {each.oid: each for each in every}.get(table.oid)
        if now != table:
            raise TableAltered
        rows, count = _rows(connection, table, after, rows_max, should_stop)
        is_last = count < rows_max and count == len(rows)
        high_lsn = end_of_records(parse_lsn(high), block, segment)
        return Chunk(rows, is_last, parse_snapshot(text), high_lsn)
    except psycopg.errors.LockNotAvailable:
        return None
    except psycopg.errors.UndefinedTable:
        raise TableAltered from None
    except psycopg.Error as error:
        raise failure_of(error, connection) from None
    finally:
        # Skipped after a stop: the statement is still running, and the connection soon closed.
        status = psycopg.pq.TransactionStatus
        if connection.pgconn.transaction_status in (status.INTRANS, status.INERROR):
            catalog.run(connection, "ROLLBACK")


def _rows(
    connection: psycopg.Connection[Any],
    table: FoundTable,
    after: Sequence[str] | None,
    rows_max: int,
    should_stop: Callable[[], bool],
) -> tuple[list[Row], int]:
    """As many rows as fit into a chunk, but at least one; and the number of rows read."""
    from psycopg.sql import Literal

    columns = ", ".join(quoted(name) for name, *_ in table.columns)
    key = ", ".join(quoted(name) for name in table.key)
    where = ""
    if after is not None:
        values = ", ".join(Literal(each).as_string(connection) for each in after)
        where = f" WHERE ({key}) > ({values})"
    query = (
        f"SELECT {columns} FROM {catalog.only(table)}{where} "  # noqa: S608  quoted
        f"ORDER BY {key} LIMIT {rows_max}"
    )
    rows: list[Row] = []
    count = size_bytes = 0
    for row in copied(connection, table, query, should_stop):
        count += 1
        if size_bytes < _SIZE_BYTES:
            rows.append(row)
            size_bytes += sum(len(each) for each in row if isinstance(each, str))
    return rows, count


def next_rows_max(chunk: Chunk) -> int:
    """The row limit of the next chunk: twice the rows that fitted into this one."""
    return min(max(2 * len(chunk.rows), 100), _ROWS_MAX)
