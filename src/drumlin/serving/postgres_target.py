"""A table of a PostgreSQL, with columns `key`, `value`, and `partition`, the row's source.

Positions and terms are in the table `drumlin_positions` of the same schema, so that one transaction
updates both. Rows are copied into a temporary table first, and go from there into the table with
one statement. A write within a term may be repeated, so that it is when the connection breaks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from drumlin.client.errors import EqualKeys
from drumlin.serving.postgres_statements import LACKS_RIGHTS, PROGRAMS_LIMIT, Statements
from drumlin.serving.target import (
    Cell,
    Claim,
    Fenced,
    Position,
    ReplacementLost,
    TargetRefused,
)

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

T = TypeVar("T")
Rows = Iterable[tuple[Cell, Cell | None]]
Ask = Callable[["psycopg.Cursor[Any]"], T]

NO_PSYCOPG: Final = "a store in PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
#: Of a server that is away, starts, or is short of something; a retry may succeed.
_PASSING: Final = ("08", "40", "53", "57", "58")
_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0)
_CONNECT: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "drumlin materialize",
}
_SETTINGS: Final = (
    # The transaction of a process that was paused must not stop whoever takes over.
    "-c idle_in_transaction_session_timeout=20000 -c statement_timeout=0 -c lock_timeout=0"
)


class PostgresTarget:
    """`kept` describes topic, group and format of the table: only the same may continue it."""

    rows_at_a_time: int | None = None

    def __init__(
        self,
        url: str,
        password: str | None,
        schema: str | None,
        name: str,
        topic: str,
        kept: str,
        *,
        is_text: bool,
    ) -> None:
        """
        Raises:
            ModuleNotFoundError: psycopg is not installed; the message says what to do.
            ValueError: the URL has an unknown option.
            TargetRefused: the table has other columns, something else is kept in it, or rights are
                missing.
            OSError: PostgreSQL cannot be reached, or refuses the login.
        """
        try:
            import psycopg
        except ImportError as error:
            raise ModuleNotFoundError(NO_PSYCOPG, name="psycopg") from error
        self._driver = psycopg
        self._given = self._settings(url, password)
        self._topic = topic
        self._kept = kept
        try:
            self._connection = self._connect()  # not again and again: the address may be wrong
        except psycopg.Error as error:
            raise self._failure(error) from None
        try:
            schema = schema or self._run(_first_schema)
            self._where = f"table {schema}.{name}"
            self._do = Statements(schema, name, is_text=is_text)
            self._run(lambda cursor: self._do.prepare(cursor, kept))
        except BaseException:
            self.close()
            raise

    def positions(self) -> dict[int, Position]:
        found = self._run(lambda cursor: cursor.execute(self._do.positions, {}).fetchall())
        return {partition: Position(*each) for partition, *each in found}

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

        def write(cursor: psycopg.Cursor[Any]) -> bool:
            # The copy comes first, as nobody waits for it.
            cursor.execute(self._do.make_changes, {})
            self._copy(cursor, self._do.copy_changes, changes.items())
            self._move(cursor, partition, term, position)
            given = {"partition": partition}
            cursor.execute(self._do.put, given)
            is_whole = cursor.rowcount == puts
            if is_whole:
                cursor.execute(self._do.delete, given)
            else:
                self._refuse_keys(cursor, self._do.keys_of_others, partition)
            return is_whole

        if changes:
            self._run(write)
        else:
            self._run(lambda cursor: self._move(cursor, partition, term, position))

    def replace(self, partition: int, term: int) -> PostgresReplacement:
        def begin(cursor: psycopg.Cursor[Any]) -> None:
            self._check(cursor, partition, term)
            cursor.execute(self._do.make_aside, {})

        self._run(begin)
        return PostgresReplacement(self, partition, term)

    def add_aside(self, partition: int, term: int, rows: Rows) -> None:
        """Add rows to a replacement."""

        def add(cursor: psycopg.Cursor[Any]) -> None:
            self._check(cursor, partition, term)
            self._copy(cursor, self._do.copy_aside, rows)

        self._run_once(add)

    def take_aside(self, partition: int, term: int, position: Position) -> None:
        """Replace the partition's rows in the table by those of the replacement."""

        def take(cursor: psycopg.Cursor[Any]) -> None:
            self._move(cursor, partition, term, position)
            given = {"partition": partition}
            cursor.execute(self._do.clear, given)
            self._refuse_keys(cursor, self._do.keys_of_others_aside, partition)
            cursor.execute(self._do.take, given)
            cursor.execute(self._do.drop_aside, {})

        self._run_once(take)

    def close(self) -> None:
        self._connection.close()

    # -- in a transaction ------------------------------------------------------------------

    def _copy(self, cursor: psycopg.Cursor[Any], statement: Composed, rows: Rows) -> None:
        rows = list(rows)
        try:
            with cursor.copy(statement) as copy:
                copy.set_types(self._do.types)
                for row in rows:
                    copy.write_row(row)
        except self._driver.DataError:
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

    # -- the connection --------------------------------------------------------------------

    def _run(self, ask: Ask[T]) -> T:
        """Ask in a transaction, again if the connection breaks.

        Raises:
            OSError: PostgreSQL has refused it, or is away for long.
        """
        for pause_s in (*_PAUSES_S, None):
            try:
                if self._connection.closed:
                    self._connection = self._connect()
                return self._transact(ask)
            except self._driver.Error as error:
                if pause_s is None or not self._passes(error):
                    raise self._failure(error) from None
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def _run_once(self, ask: Ask[T]) -> T:
        """Ask in a transaction that needs what the connection has collected.

        Raises:
            ReplacementLost: the connection broke; the replacement is to be begun again.
            OSError: PostgreSQL has refused it.
        """
        try:
            return self._transact(ask)
        except self._driver.Error as error:
            if self._passes(error):
                raise ReplacementLost(str(self._failure(error))) from None
            raise self._failure(error) from None

    def _transact(self, ask: Ask[T]) -> T:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            return ask(cursor)

    def _connect(self) -> psycopg.Connection[Any]:
        return self._driver.connect(autocommit=True, **self._given)

    def _settings(self, url: str, password: str | None) -> dict[str, Any]:
        from psycopg.conninfo import conninfo_to_dict

        try:
            given: dict[str, Any] = {**_CONNECT, **conninfo_to_dict(url)}
        except self._driver.ProgrammingError as error:
            raise ValueError(f"a store in PostgreSQL: {error}") from None
        given["options"] = f"{given.get('options', '')} {_SETTINGS}".strip()
        given["client_encoding"] = "UTF8"
        return given if password is None else {**given, "password": password}

    def _passes(self, error: psycopg.Error) -> bool:
        if error.sqlstate is not None:
            return error.sqlstate.startswith(_PASSING)
        return isinstance(error, self._driver.OperationalError)

    def _failure(self, error: psycopg.Error) -> Exception:
        text = " ".join(str(error).split())
        if error.sqlstate == PROGRAMS_LIMIT:
            return TargetRefused(f"PostgreSQL: a key is too long for an index: {text}")
        if error.sqlstate == LACKS_RIGHTS:
            return TargetRefused(f"PostgreSQL: {text}")
        return OSError(f"PostgreSQL: {text}")


def _first_schema(cursor: psycopg.Cursor[Any]) -> str:
    found = cursor.execute("SELECT current_schema()").fetchone()
    if found is None or found[0] is None:
        raise TargetRefused("PostgreSQL: the search_path has no schema; name one: ?schema=NAME")
    return str(found[0])


class PostgresReplacement:
    """A replacement, collected in a temporary table until it is complete."""

    def __init__(self, target: PostgresTarget, partition: int, term: int) -> None:
        self._target = target
        self._partition = partition
        self._term = term

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        self._target.add_aside(self._partition, self._term, rows)

    def commit(self, position: Position) -> None:
        self._target.take_aside(self._partition, self._term, position)
