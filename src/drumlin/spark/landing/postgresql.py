"""A PostgreSQL table: every record of a topic, or the last value of each key.

Tasks copy their records into a staging table, each attempt under its own id. In one transaction the
driver moves the rows of successful attempts into the table, and updates `drumlin_positions`. A run
holds an advisory lock for its table, so of two concurrent runs one fails.

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
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from drumlin.spark.landing.target import Batch, LandingRefused, Mode, OtherRun, Position

if TYPE_CHECKING:
    from pyspark.sql import Row

_COLUMNS: Final = "partition,offset,timestamp,key,value"
_COPIED: Final = "attempt string, records long"
#: The number of records that are converted to Python objects at once.
_ROWS_AT_A_TIME: Final = 1000
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
_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended('drumlin:' || %s, 0))"
#: Serializes the creation of `drumlin_positions`: IF NOT EXISTS alone may fail under concurrency.
_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtextextended('drumlin', 0))"
#: Timestamps are numbers, as records may have ones outside of PostgreSQL's range.
_ROW: Final = 'partition int, "offset" bigint, timestamp_ms bigint, key bytea, value bytea'
_MAKE_ASIDE: Final = "CREATE UNLOGGED TABLE {} (attempt text, " + _ROW + ")"
_MAKE: Final[Mapping[Mode, tuple[LiteralString, ...]]] = {
    "append": ("CREATE TABLE {table} (" + _ROW + ', PRIMARY KEY (partition, "offset"))',),
    "upsert": (
        "CREATE TABLE {table} (" + _ROW + ")",
        "CREATE UNIQUE INDEX ON {table} (sha256(key))",
        "CREATE INDEX ON {table} USING hash (key)",
    ),
}
_APPEND: Final = """
INSERT INTO {table} (partition, "offset", timestamp_ms, key, value)
SELECT partition, "offset", timestamp_ms, key, value FROM {aside} WHERE attempt = ANY(%s)
"""
#: The last record of a key in each partition, and of these the latest: the rule of `latest.py`.
_UPSERT: Final = """
WITH of_partitions AS (
    SELECT DISTINCT ON (key, partition) partition, "offset", timestamp_ms, key, value FROM {aside}
    WHERE attempt = ANY(%s) AND key IS NOT NULL ORDER BY key, partition, "offset" DESC)
INSERT INTO {table} AS old (partition, "offset", timestamp_ms, key, value)
SELECT DISTINCT ON (key) partition, "offset", timestamp_ms, key, value FROM of_partitions
ORDER BY key, timestamp_ms DESC, partition DESC
ON CONFLICT (sha256(key)) DO UPDATE SET partition = excluded.partition,
    "offset" = excluded."offset", timestamp_ms = excluded.timestamp_ms, value = excluded.value
WHERE excluded.partition = old.partition OR excluded.timestamp_ms > old.timestamp_ms
    OR (excluded.timestamp_ms = old.timestamp_ms AND excluded.partition > old.partition)
"""


class PostgresTable:
    """A table, used by one run."""

    def __init__(self, url: str, table: Sequence[str], mode: Mode, shown: str) -> None:
        """
        Args:
            table: the schema's name, if there is one, and then the table's name.
            shown: the URL without a password, for messages.
        """
        self._url, self._mode, self._shown = url, mode, shown
        self._table, self._name = sql.Identifier(*table), ".".join(table)
        self._connection: psycopg.Connection[Any] | None = None
        self._is_locked = False
        self._held: dict[int, int] | None = None

    def position(self, _partitions: Collection[int] = ()) -> Position | None:
        with self._told() as connection:
            found = self._read(connection)
        self._held = None if found is None else dict(found.offsets)
        return found

    def add(self, batch: Batch, position: Position) -> None:
        with self._told() as connection:
            self._lock(connection)
            aside = self._make_aside(connection)
        copy = partial(copy_records, self._url, aside)
        written = batch.map(_COLUMNS, copy, _COPIED).collect()
        with self._told() as connection:
            self._show(connection, batch, aside, written, position)
            self._drop(connection, [aside])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._is_locked = None, False

    def _show(
        self,
        connection: psycopg.Connection[Any],
        batch: Batch,
        aside: str,
        written: Collection[Row],
        position: Position,
    ) -> None:
        with connection.transaction():
            held = self._read(connection)
            if (None if held is None else dict(held.offsets)) != self._held:
                raise OtherRun(f"another run has added to {self._shown} meanwhile")
            names = {"table": self._table, "aside": sql.Identifier(aside)}
            if held is None:
                connection.execute(_ALONE)
                connection.execute(_MAKE_POSITIONS)
                for statement in _MAKE[self._mode]:
                    connection.execute(sql.SQL(statement).format(**names))
            attempts = [each.attempt for each in written]
            show = _APPEND if self._mode == "append" else _UPSERT
            connection.execute(sql.SQL(show).format(**names), [attempts])
            of_topic = (self._name, self._mode, position.topic, position.topic_id)
            with connection.cursor() as cursor:
                numbers = {**position.offsets}
                if position.at_end_ms is not None:
                    numbers[_AT_END] = position.at_end_ms
                rows = [(*of_topic, *each) for each in numbers.items()]
                cursor.executemany(_MOVE, rows)
            batch.confirm()

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
        """
        Raises:
            OtherRun: another run holds the lock.
        """
        if self._is_locked:
            return
        if connection.execute(_LOCK, [self._name]).fetchone() != (True,):
            raise OtherRun(f"another run lands into {self._name} of {self._shown} at this moment")
        self._is_locked = True

    def _make_aside(self, connection: psycopg.Connection[Any]) -> str:
        """Create a staging table; drops those of killed runs."""
        prefix = f"drumlin_aside_{hashlib.sha256(self._name.encode()).hexdigest()[:16]}_"
        left = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() "
            "AND starts_with(tablename, %s)",
            [prefix],
        ).fetchall()
        self._drop(connection, [name for (name,) in left])
        aside = f"{prefix}{uuid.uuid4().hex[:8]}"
        connection.execute(sql.SQL(_MAKE_ASIDE).format(sql.Identifier(aside)))
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
        """
        try:
            conninfo_to_dict(self._url)
        except psycopg.ProgrammingError:
            raise LandingRefused(
                f"{self._shown} is not of the form postgresql://USER@HOST/DATABASE[?table=NAME]"
            ) from None
        return psycopg.connect(self._url, autocommit=True)

    @contextmanager
    def _told(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection. An error closes it, which releases the lock, and names the server."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            yield self._connection
        except psycopg.Error as error:
            self.close()
            raise LandingRefused(f"{self._shown}: {error}") from error


def copy_records(url: str, aside: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Copy a task's records into the staging table; returns the attempt's id and their number."""
    attempt, records = uuid.uuid4().hex, 0
    statement = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(aside))
    with (
        psycopg.connect(url) as connection,
        connection.cursor() as cursor,
        cursor.copy(statement) as copy,
    ):
        for batch in batches:
            times_ms = pc.divide(batch["timestamp"].cast(pa.int64()), 1000)
            columns = [batch["partition"], batch["offset"], times_ms, batch["key"], batch["value"]]
            rows = pa.table(columns, list("pqtkv"))
            for piece in rows.to_batches(max_chunksize=_ROWS_AT_A_TIME):
                for row in zip(*(each.to_pylist() for each in piece.columns), strict=True):
                    copy.write_row((attempt, *row))
            records += batch.num_rows
    if records:
        yield pa.table({"attempt": [attempt], "records": [records]})
