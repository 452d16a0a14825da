"""The SQL statements for a table in PostgreSQL, and the checks before its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from drumlin.serving.target import TargetRefused, check_kept, check_owner

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

_NAME_BYTES: Final = 63
_POSITIONS: Final = "drumlin_positions"
_POSITION: Final = 'topic_id, "offset", leader_epoch, at_end'

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext({schema_text}), hashtext('drumlin'))"
_FIND: Final = "SELECT to_regclass({positions_text}), to_regclass({table_text})"
_CREATE_POSITIONS: Final = """
CREATE TABLE {positions} (
    name text NOT NULL, partition integer NOT NULL, kept text NOT NULL, term bigint NOT NULL,
    topic_id text, "offset" bigint, leader_epoch integer, at_end text,
    PRIMARY KEY (name, partition))
"""
_CREATE_TABLE: Final = """
CREATE TABLE {table} (
    key {cell} PRIMARY KEY, value {cell} NOT NULL, partition integer NOT NULL)
"""
_FORGET: Final = """UPDATE {positions} SET "offset" = NULL WHERE name = {name}"""
_COLUMNS: Final = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = to_regclass({table_text}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_HAS_KEY: Final = """
SELECT 1 FROM pg_index, pg_attribute
WHERE indrelid = to_regclass({table_text}) AND attrelid = indrelid AND attname = 'key'
    AND indisunique AND indisvalid AND indpred IS NULL
    AND indnkeyatts = 1 AND indkey[0] = attnum
"""
_LACKING: Final = """
SELECT name, needed FROM (
    SELECT {table_text} AS name, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed
    UNION ALL SELECT {positions_text}, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE'])
) AS needs WHERE NOT has_table_privilege(name, needed)
"""
_KEPT: Final = "SELECT DISTINCT kept FROM {positions} WHERE name = {name}"

_READ_POSITIONS: Final = """
SELECT partition, {position} FROM {positions} WHERE name = {name} AND "offset" IS NOT NULL
"""
_CLAIM: Final = """
INSERT INTO {positions} AS at (name, partition, kept, term)
VALUES ({name}, %(partition)s, %(kept)s, 1) ON CONFLICT (name, partition)
DO UPDATE SET term = at.term + 1 WHERE at.kept = excluded.kept RETURNING term, {position}
"""
_CHECK: Final = """
SELECT 1 FROM {positions} WHERE name = {name} AND partition = %(partition)s AND term = %(term)s
"""
_MOVE: Final = """
UPDATE {positions} SET ({position}) = (%(topic_id)s, %(offset)s, %(leader_epoch)s, %(at_end)s)
WHERE name = {name} AND partition = %(partition)s AND term = %(term)s
"""
_MAKE_CHANGES: Final = """
CREATE TEMPORARY TABLE IF NOT EXISTS drumlin_changes (key {cell}, value {cell})
ON COMMIT DELETE ROWS
"""
_PUT: Final = """
INSERT INTO {table} AS kept (key, value, partition)
SELECT key, value, %(partition)s FROM {changes} WHERE value IS NOT NULL
ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE kept.partition = excluded.partition
"""
_DELETE: Final = """
DELETE FROM {table} AS kept USING {changes} AS changes
WHERE changes.value IS NULL AND kept.key = changes.key AND kept.partition = %(partition)s
"""
_KEYS_OF_OTHERS: Final = """
SELECT kept.key FROM {table} AS kept JOIN {changes} AS new ON kept.key = new.key
WHERE new.value IS NOT NULL AND kept.partition <> %(partition)s LIMIT 1
"""
_MAKE_ASIDE: Final = "CREATE TEMPORARY TABLE drumlin_replacement (key {cell}, value {cell})"
_CLEAR: Final = "DELETE FROM {table} WHERE partition = %(partition)s"
_TAKE: Final = """
INSERT INTO {table} (key, value, partition)
SELECT key, value, %(partition)s FROM {aside} ORDER BY key
"""
_LONGEST: Final = "SELECT key FROM {aside} ORDER BY octet_length(key) DESC LIMIT 1"
_COPY: Final = "COPY {changes} (key, value) FROM STDIN (FORMAT binary)"


class Statements:
    """The statements for one table. Run all with a mapping of parameters, which may be empty."""

    def __init__(self, schema: str, name: str, *, is_text: bool) -> None:
        """
        Raises:
            TargetRefused: a name is too long, or empty.
        """
        from psycopg import sql

        for each in (schema, name):
            if not 0 < len(each.encode()) <= _NAME_BYTES or "\0" in each:
                raise TargetRefused(
                    f"PostgreSQL: the name {each!r} has no 1 to {_NAME_BYTES} bytes; name another "
                    "table: ?table=NAME"
                )
        self._cell = "text" if is_text else "bytea"
        self._table = f"{schema}.{name}"
        self.types = [self._cell, self._cell]
        table, positions = sql.Identifier(schema, name), sql.Identifier(schema, _POSITIONS)
        known = {
            "schema_text": sql.Literal(schema),
            "name": sql.Literal(name),
            "table": table,
            "table_text": sql.Literal(table.as_string()),
            "positions": positions,
            "positions_text": sql.Literal(positions.as_string()),
            "cell": sql.SQL(self._cell),
            "position": sql.SQL(_POSITION),
            "changes": sql.Identifier("pg_temp", "drumlin_changes"),
            "aside": sql.Identifier("pg_temp", "drumlin_replacement"),
        }
        # A % in a name must be escaped, or it would be taken for a parameter.
        known = {key: sql.SQL(each.as_string().replace("%", "%%")) for key, each in known.items()}

        def composed(text: str) -> Composed:
            return sql.SQL(text).format(**known)

        self._composed = composed
        self.claim = composed(_CLAIM)
        self.check = composed(_CHECK)
        self.move = composed(_MOVE)
        self.make_changes = composed(_MAKE_CHANGES)
        self.copy_changes = composed(_COPY)
        self.put = composed(_PUT)
        self.delete = composed(_DELETE)
        self.keys_of_others = composed(_KEYS_OF_OTHERS)
        self.drop_aside = composed("DROP TABLE IF EXISTS {aside}")
        self.make_aside = composed(_MAKE_ASIDE)
        self.copy_aside = composed(_COPY.replace("{changes}", "{aside}"))
        self.keys_of_others_aside = composed(_KEYS_OF_OTHERS.replace("{changes}", "{aside}"))
        self.count_aside = composed("SELECT count(*) FROM {aside}")
        self.clear = composed(_CLEAR)
        self.take = composed(_TAKE)

    def find_longest(self, cursor: psycopg.Cursor[Any]) -> bytes | str:
        """The longest key of a replacement."""
        found = cursor.execute(self._composed(_LONGEST), {}).fetchone()
        key: bytes | str = b"" if found is None else found[0]
        return key

    def read_positions(self, cursor: psycopg.Cursor[Any], kept: str) -> list[Any]:
        """The positions by partition; none if the positions table does not exist.

        Raises:
            TargetRefused: they are of another topic or group.
        """
        positions, _ = cursor.execute(self._composed(_FIND), {}).fetchone() or (None, None)
        if positions is None:
            return []
        self._check_kept(cursor, kept, check_owner)
        return cursor.execute(self._composed(_READ_POSITIONS), {}).fetchall()

    def prepare(self, cursor: psycopg.Cursor[Any], kept: str) -> None:
        """Create the tables unless they exist, and check that they can be used.

        Raises:
            TargetRefused: the tables cannot be used; the message has the reason and a cure.
        """
        from psycopg.errors import InsufficientPrivilege

        def run(text: str) -> psycopg.Cursor[Any]:
            return cursor.execute(self._composed(text), {})

        run(_LOCK)
        positions, table = run(_FIND).fetchone() or (None, None)
        try:
            if positions is None:
                run(_CREATE_POSITIONS)
            if table is None:
                run(_CREATE_TABLE)
        except InsufficientPrivilege as error:
            raise TargetRefused(
                f"PostgreSQL: {error.diag.message_primary}: grant CREATE on the schema, or create "
                f"{self._table} (key {self._cell} PRIMARY KEY, value {self._cell} NOT NULL, "
                f"partition integer NOT NULL) and {_POSITIONS} beside it"
            ) from None
        self._check_rights(cursor)
        if table is None:
            # The rows were lost with the table: the positions are reset.
            run(_FORGET)
        else:
            self._check_columns(cursor)
        self._check_kept(cursor, kept, check_kept)

    def _check_kept(
        self, cursor: psycopg.Cursor[Any], kept: str, check: Callable[[str, str, str], None]
    ) -> None:
        for (found,) in cursor.execute(self._composed(_KEPT), {}):
            check(f"PostgreSQL: table {self._table}", found, kept)

    def _check_columns(self, cursor: psycopg.Cursor[Any]) -> None:
        found = [f"{name} {type_}" for name, type_ in cursor.execute(self._composed(_COLUMNS), {})]
        expected = [f"key {self._cell}", f"value {self._cell}", "partition integer"]
        if found != expected:
            raise TargetRefused(
                f"PostgreSQL: table {self._table} has the columns {', '.join(found)}, "
                f"not {', '.join(expected)}"
            )
        if cursor.execute(self._composed(_HAS_KEY), {}).fetchone() is None:
            raise TargetRefused(
                f"PostgreSQL: table {self._table} has no primary key or unique index on key alone"
            )

    def _check_rights(self, cursor: psycopg.Cursor[Any]) -> None:
        lacking = cursor.execute(self._composed(_LACKING), {}).fetchall()
        for table in dict.fromkeys(each for each, _ in lacking):
            rights = ", ".join(right for each, right in lacking if each == table)
            raise TargetRefused(f"PostgreSQL: this user lacks {rights} on {table}")
        is_allowed, encoding = cursor.execute(
            "SELECT has_database_privilege(current_database(), 'TEMPORARY'),"
            " current_setting('server_encoding')"
        ).fetchone() or (True, "")
        if not is_allowed:
            raise TargetRefused("PostgreSQL: this user lacks TEMPORARY on the database")
        if self._cell == "text" and encoding != "UTF8":
            raise TargetRefused(
                f"PostgreSQL: text needs a database in UTF8, and this one is in {encoding}"
            )
