"""A table in PostgreSQL, with columns `key`, `value`, and `partition`, the row's source.

Positions and terms are in the table `drumlin_positions` of the same schema, so that one transaction
updates both. Rows are copied into a temporary table first; one statement moves them into the table.
Writes are idempotent within a term, so they are retried when the connection breaks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from drumlin.client.errors import EqualKeys
from drumlin.serving.postgres.connection import KeyTooLong, PostgresConnection
from drumlin.serving.postgres.statements import Statements
from drumlin.serving.target import Cell, Claim, Fenced, Position, TargetRefused

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

Rows = Iterable[tuple[Cell, Cell | None]]


class PostgresTarget:
    """One table. `kept` describes its topic, group and format: a table with others is refused."""

    def __init__(
        self,
        connection: PostgresConnection,
        schema: str | None,
        name: str,
        topic: str,
        kept: str,
        *,
        is_text: bool,
        only_looks: bool = False,
    ) -> None:
        """`only_looks`: for `positions` only; nothing is created.

        Raises:
            TargetRefused: the table has other columns, or another topic, group or format; or
                privileges are missing.
            OSError: PostgreSQL cannot be reached.
        """
        self._topic = topic
        self._kept = kept
        self._connection = connection
        self._run = connection.run
        schema = schema or self._run(_first_schema)
        self._where = f"table {schema}.{name}"
        self._do = Statements(schema, name, is_text=is_text)
        if not only_looks:
            self._run(lambda cursor: self._do.prepare(cursor, kept))

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        found = self._run(lambda cursor: self._do.read_positions(cursor, self._kept))
        return {each[0]: Position(*each[1:]) for each in found if each[0] in partitions}

    def claim(self, partition: int) -> Claim:
        given = {"partition": partition, "kept": self._kept}
        found = self._run(lambda cursor: cursor.execute(self._do.claim, given).fetchone())
        if found is None:
            raise TargetRefused(f"PostgreSQL: {self._where} is kept otherwise than {self._kept}")
        term, *position = found
        return Claim(term, None if position[1] is None else Position(*position))

    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        puts = sum(value is not None for value in changes.values())

        def write(cursor: psycopg.Cursor[Any]) -> None:
            # Copy first, while no locks are held that others wait for.
            cursor.execute(self._do.make_changes, {})
            self._copy(cursor, self._do.copy_changes, changes.items())
            self._move(cursor, partition, term, position)
            given = {"partition": partition}
            cursor.execute(self._do.put, given)
            if cursor.rowcount != puts:
                # Rows of other partitions were left unchanged, but are locked by the statement.
                self._refuse_keys(cursor, self._do.keys_of_others, partition)
                raise self._not_taken()
            cursor.execute(self._do.delete, given)

        if not changes:
            self._run(lambda cursor: self._move(cursor, partition, term, position))
            return
        try:
            self._run(write)
        except KeyTooLong:
            raise self._too_long(max(changes, key=len)) from None

    def replace(self, partition: int, term: int) -> PostgresReplacement:
        def begin(cursor: psycopg.Cursor[Any]) -> None:
            self._check(cursor, partition, term)
            cursor.execute(self._do.drop_aside, {})
            cursor.execute(self._do.make_aside, {})

        self._run(begin)
        return PostgresReplacement(self, partition, term, self._connection.session)

    def add_aside(self, session: int, partition: int, term: int, rows: Rows) -> None:
        """Add rows to a replacement that was begun in the current session."""

        def add(cursor: psycopg.Cursor[Any]) -> None:
            self._check(cursor, partition, term)
            self._copy(cursor, self._do.copy_aside, rows)

        self._connection.run_in(session, add)

    def take_aside(self, session: int, partition: int, term: int, position: Position) -> None:
        """Replace the partition's rows in the table with those of the replacement."""

        def take(cursor: psycopg.Cursor[Any]) -> None:
            self._move(cursor, partition, term, position)
            given = {"partition": partition}
            cursor.execute(self._do.clear, given)
            self._refuse_keys(cursor, self._do.keys_of_others_aside, partition)
            put = cursor.execute(self._do.take, given).rowcount
            if cursor.execute(self._do.count_aside, {}).fetchone() != (put,):
                raise self._not_taken()
            cursor.execute(self._do.drop_aside, {})

        try:
            self._connection.run_in(session, take)
        except KeyTooLong:
            key = self._connection.run_in(session, self._do.find_longest)
            raise self._too_long(key) from None

    def close(self) -> None:
        """Do nothing: the store closes the connection, which its tables share."""

    def _not_taken(self) -> TargetRefused:
        return TargetRefused(
            f"PostgreSQL: {self._where} has not taken all rows: a trigger, rule or policy of it "
            "leaves some out"
        )

    def _too_long(self, key: Cell) -> TargetRefused:
        size = len(key.encode() if isinstance(key, str) else key)
        return TargetRefused(
            f"PostgreSQL: {self._where}: the key {key[:100]!r} of {size} bytes is too long for an "
            "index"
        )

    # -- in a transaction ------------------------------------------------------------------

    def _copy(self, cursor: psycopg.Cursor[Any], statement: Composed, rows: Rows) -> None:
        from psycopg import DataError

        rows = list(rows)
        try:
            with cursor.copy(statement) as copy:
                copy.set_types(self._do.types)
                for row in rows:
                    copy.write_row(row)
        except DataError:
            for key, value in rows:
                if "\0" in f"{key!s}{value!s}":
                    raise TargetRefused(
                        f"PostgreSQL: {self._where}: the key {key[:100]!r} or its value has a "
                        "zero byte, which text cannot have there; keep it as bytes"
                    ) from None
            raise

    def _check(self, cursor: psycopg.Cursor[Any], partition: int, term: int) -> None:
        given = {"partition": partition, "term": term}
        self._check_ours(partition, cursor.execute(self._do.check, given).fetchone() is not None)

    def _move(
        self, cursor: psycopg.Cursor[Any], partition: int, term: int, position: Position
    ) -> None:
        given = {"partition": partition, "term": term, **position._asdict()}
        self._check_ours(partition, cursor.execute(self._do.move, given).rowcount == 1)

    def _check_ours(self, partition: int, is_ours: bool) -> None:
        if not is_ours:
            raise Fenced(f"{self._where}: another process has taken partition {partition}")

    def _refuse_keys(
        self, cursor: psycopg.Cursor[Any], statement: Composed, partition: int
    ) -> None:
        found = cursor.execute(statement, {"partition": partition}).fetchone()
        if found is not None:
            key = found[0]
            raise EqualKeys(self._topic, key.encode() if isinstance(key, str) else key)


def _first_schema(cursor: psycopg.Cursor[Any]) -> str:
    found = cursor.execute("SELECT current_schema()").fetchone()
    if found is None or found[0] is None:
        raise TargetRefused("PostgreSQL: the search_path has no schema; name one: ?schema=NAME")
    return str(found[0])


class PostgresReplacement:
    """A replacement, collected in a temporary table until it is complete."""

    def __init__(self, target: PostgresTarget, partition: int, term: int, session: int) -> None:
        self._target = target
        self._partition = partition
        self._term = term
        self._session = session

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        self._target.add_aside(self._session, self._partition, self._term, rows)

    def commit(self, position: Position) -> None:
        self._target.take_aside(self._session, self._partition, self._term, position)
