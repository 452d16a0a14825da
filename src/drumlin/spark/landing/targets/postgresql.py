"""A PostgreSQL table: every record of a topic, or the last value of each key.

Tasks copy their records into a staging table, each attempt under its own id. In one transaction the
driver moves the rows of successful attempts into the table, and updates `drumlin_positions`.

A run takes an advisory lock for its table before it reads the position, so of two concurrent runs
one fails. A connection that is cut at its commit may still commit: its server process has the lock
until it has done so or has given up. So the position that the next connection reads is final.

In upsert mode a deleted key keeps its row, with a null value, as an older record may still arrive
from another partition (see `delta.py`). PostgreSQL's B-tree indexes refuse long keys, so the unique
index is on the key's hash. The index for look-ups is a hash index, which has no limit either.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from drumlin.spark.landing.rows.mode import Mode
from drumlin.spark.landing.rows.rows import Rows
from drumlin.spark.landing.targets.columns import missing_columns
from drumlin.spark.landing.targets.postgresql_connections import NOTICED_MS, connect
from drumlin.spark.landing.targets.postgresql_rows import columns_of, copy_records, definitions
from drumlin.spark.landing.targets.target import Added, Batch, LandingRefused, OtherRun, Position

if TYPE_CHECKING:
    from pyspark.sql import Row

_COPIED: Final = "attempt string, size long"
#: Stands for a partition in the row that holds `Position.at_end_ms` instead of an offset.
_AT_END: Final = -1
_IS_THERE: Final = "SELECT to_regclass(%s) IS NOT NULL"
_MAKE_POSITIONS: Final = """
CREATE TABLE IF NOT EXISTS drumlin_positions (
    landed text, mode text, topic text, topic_id text, partition int, next_offset bigint,
    PRIMARY KEY (landed, partition))
"""
_HELD: Final = """
SELECT mode, topic, topic_id, partition, next_offset FROM drumlin_positions WHERE landed = %s
"""
_MOVE: Final = """
INSERT INTO drumlin_positions VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (landed, partition) DO UPDATE SET next_offset = excluded.next_offset
"""
_MAKE_ASIDE: Final = "CREATE UNLOGGED TABLE {} (attempt text, {})"
_TYPES: Final = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""
_LOCK: Final = "SELECT pg_advisory_lock(hashtextextended('drumlin:' || %s, 0))"
_WAIT: Final = "SELECT set_config('lock_timeout', %s, true)"
#: Serializes the creation of `drumlin_positions`: IF NOT EXISTS alone may fail under concurrency.
_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtextextended('drumlin', 0))"
_MAKE: Final[Mapping[Mode, tuple[LiteralString, ...]]] = {
    "append": ('CREATE TABLE {table} ({row}, PRIMARY KEY (partition, "offset"))',),
    "upsert": (
        "CREATE TABLE {table} ({row})",
        "CREATE UNIQUE INDEX ON {table} (sha256(key))",
        "CREATE INDEX ON {table} USING hash (key)",
    ),
}
_APPEND: Final = """
INSERT INTO {table} ({names}) SELECT {names} FROM {aside} WHERE attempt = ANY(%s)
"""
#: The last record of a key in each partition, and of these the latest: the rule of `latest.py`.
_UPSERT: Final = """
WITH of_partitions AS (
    SELECT DISTINCT ON (key, partition) {names} FROM {aside}
    WHERE attempt = ANY(%s) ORDER BY key, partition, "offset" DESC)
INSERT INTO {table} AS old ({names})
SELECT DISTINCT ON (key) {names} FROM of_partitions
ORDER BY key, timestamp_ms DESC, partition DESC
ON CONFLICT (sha256(key)) DO UPDATE SET {changed}
WHERE excluded.partition = old.partition OR excluded.timestamp_ms > old.timestamp_ms
    OR (excluded.timestamp_ms = old.timestamp_ms AND excluded.partition > old.partition)
"""


class PostgresTable:
    """A table, used by one run."""

    def __init__(
        self, url: str, table: Sequence[str], mode: Mode, shown: str, *, only_looks: bool
    ) -> None:
        """
        Args:
            table: the schema's name, if there is one, and then the table's name.
            shown: the URL without a password, for messages.
            only_looks: whether only the position is read, while another run may land.
        """
        self._url, self._mode, self._shown, self._only_looks = url, mode, shown, only_looks
        self._table, self._name = sql.Identifier(*table), ".".join(table)
        self._connection: psycopg.Connection[Any] | None = None
        self._held: dict[int, int] | None = None

    def position(self, _partitions: Collection[int] = ()) -> Position | None:
        with self._told() as connection:
            found = self._read(connection)
        self._held = None if found is None else dict(found.offsets)
        return found

    def complete(self) -> None:
        """Do nothing: a commit is all or nothing."""

    def add(self, batch: Batch, position: Position) -> Added:
        with self._told() as connection:
            columns = columns_of(batch.rows)
            if self._held is not None:
                self._missing(connection, batch.rows, columns)
            aside = self._make_aside(connection, columns)
        copy = partial(copy_records, self._url, aside, batch.rows)
        written = batch.map(copy, _COPIED).collect()
        with self._told() as connection:
            rows = self._show(connection, batch, aside, written, position)
            self._drop(connection, [aside])
        return Added(rows, sum(each.size for each in written))

    def compact(self) -> None:
        """Do nothing: autovacuum does that."""

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _show(
        self,
        connection: psycopg.Connection[Any],
        batch: Batch,
        aside: str,
        written: Collection[Row],
        position: Position,
    ) -> int:
        """Move these rows into the table; returns how many were added or changed."""
        with connection.transaction():
            held = self._read(connection)
            if (None if held is None else dict(held.offsets)) != self._held:
                raise OtherRun(f"another run has added to {self._shown} meanwhile")
            columns = columns_of(batch.rows)
            changed = [name for name in columns if name != "key"]
            names = {
                "table": self._table,
                "aside": sql.Identifier(aside),
                "row": definitions(columns),
                "names": sql.SQL(", ").join(sql.Identifier(name) for name in columns),
                "changed": sql.SQL(", ").join(
                    sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in changed
                ),
            }
            if held is None:
                connection.execute(_ALONE)
                connection.execute(_MAKE_POSITIONS)
                for statement in _MAKE[self._mode]:
                    connection.execute(sql.SQL(statement).format(**names))
            elif missing := self._missing(connection, batch.rows, columns):
                added = definitions({each: columns[each] for each in missing}, "ADD COLUMN ")
                connection.execute(sql.SQL("ALTER TABLE {} {}").format(self._table, added))
            if batch.is_whole:
                connection.execute(sql.SQL("DELETE FROM {table}").format(**names))
            attempts = [each.attempt for each in written]
            show = _APPEND if self._mode == "append" else _UPSERT
            moved = connection.execute(sql.SQL(show).format(**names), [attempts]).rowcount
            of_topic = (self._name, self._mode, position.topic, position.topic_id)
            with connection.cursor() as cursor:
                numbers = {**position.offsets}
                if position.at_end_ms is not None:
                    numbers[_AT_END] = position.at_end_ms
                rows = [(*of_topic, *each) for each in numbers.items()]
                cursor.executemany(_MOVE, rows)
            batch.confirm()
        return moved

    def _read(self, connection: psycopg.Connection[Any]) -> Position | None:
        """
        Raises:
            LandingRefused: the table was not created by a landing, or is in the other mode.
        """
        rows = []
        if self._exists(connection, "drumlin_positions"):
            rows = connection.execute(_HELD, [self._name]).fetchall()
        if not rows:
            if self._exists(connection, self._table.as_string(connection)):
                raise LandingRefused(
                    f"{self._shown} has a table {self._name} that no topic was landed in"
                )
            return None
        mode, topic, topic_id = rows[0][:3]
        if mode != self._mode:
            raise LandingRefused(
                f"{self._name} of {self._shown} was begun in mode {mode!r}, and cannot go on in "
                f"{self._mode!r}"
            )
        numbers: dict[int, int] = {each[3]: each[4] for each in rows}
        at_end_ms = numbers.pop(_AT_END, None)
        return Position(topic, topic_id, numbers, at_end_ms)

    def _exists(self, connection: psycopg.Connection[Any], name: str) -> bool:
        return connection.execute(_IS_THERE, [name]).fetchone() == (True,)

    def _lock(self, connection: psycopg.Connection[Any]) -> None:
        """Lock the table for as long as the connection lasts.

        Waits for a session that an ended run may have left on the server.

        Raises:
            OtherRun: another run holds the lock.
        """
        try:
            with connection.transaction():
                connection.execute(_WAIT, [f"{NOTICED_MS}ms"])
                connection.execute(_LOCK, [self._name])
        except psycopg.errors.LockNotAvailable as error:
            raise OtherRun(
                f"another run lands into {self._name} of {self._shown} at this moment"
            ) from error

    def _missing(
        self, connection: psycopg.Connection[Any], rows: Rows, columns: Mapping[str, str]
    ) -> list[str]:
        """The columns to add to the table; existing rows have null in them.

        Raises:
            LandingRefused: a column of the table has another type.
        """
        name = self._table.as_string(connection)
        there = dict(connection.execute(_TYPES, [name]).fetchall())
        return missing_columns(there, columns, rows, f"{self._name} of {self._shown}")

    def _make_aside(self, connection: psycopg.Connection[Any], columns: Mapping[str, str]) -> str:
        """Create a staging table; drops those of killed runs."""
        prefix = f"drumlin_aside_{hashlib.sha256(self._name.encode()).hexdigest()[:16]}_"
        left = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() "
            "AND starts_with(tablename, %s)",
            [prefix],
        ).fetchall()
        self._drop(connection, [name for (name,) in left])
        aside = f"{prefix}{uuid.uuid4().hex[:8]}"
        made = sql.SQL(_MAKE_ASIDE).format(sql.Identifier(aside), definitions(columns))
        connection.execute(made)
        return aside

    def _drop(self, connection: psycopg.Connection[Any], names: Collection[str]) -> None:
        """Drop staging tables.

        An abandoned task may still write to one and lock it: then a later batch drops the table.
        """
        for name in names:
            try:
                with connection.transaction():
                    connection.execute("SET LOCAL lock_timeout = '2s'")
                    drop = sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name))
                    connection.execute(drop)
            except psycopg.errors.LockNotAvailable:
                continue

    def _connect(self) -> psycopg.Connection[Any]:
        """
        Raises:
            LandingRefused: the URL is malformed. (The error of libpq would show its password.)
            OtherRun: another run holds the lock.
        """
        try:
            conninfo_to_dict(self._url)
        except psycopg.ProgrammingError:
            raise LandingRefused(
                f"{self._shown} is not of the form postgresql://USER@HOST/DATABASE[?table=NAME]"
            ) from None
        connection = connect(self._url)
        try:
            if not self._only_looks:
                self._lock(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _told(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection. An error closes it, which releases the lock, and names the server."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except psycopg.Error as error:
            self.close()
            raise LandingRefused(f"{self._shown}: {' '.join(str(error).split())}") from error
