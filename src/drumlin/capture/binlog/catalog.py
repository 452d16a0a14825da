"""Queries of a MariaDB's catalog: server, tables, columns and keys, character sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.capture.binlog.connections import rows
from drumlin.capture.binlog_events.charsets import BINARY, Charsets
from drumlin.capture.binlog_events.column_kinds import key_kind
from drumlin.capture.binlog_events.column_types import CatalogType, kind_of
from drumlin.capture.values.kinds import Kind

if TYPE_CHECKING:
    import pymysql

#: The first version with collations whose numbers the older table does not have.
_MORE_COLLATIONS_FROM: Final = (10, 10)


#: Settings that together identify an older server, which has no id.
_OLD_IDENTITY: Final = ("hostname", "datadir", "server_id")


class Server(NamedTuple):
    """The server, and its settings."""

    version: tuple[int, ...]
    settings: dict[str, str]
    user: str

    @property
    def has_small_names(self) -> bool:
        """Whether names of tables ignore case."""
        return self.settings.get("lower_case_table_names", "0") != "0"

    @property
    def identity(self) -> str:
        """The identity of the server, which never changes."""
        uid = self.settings.get("server_uid")
        if uid is None:
            uid = ":".join(self.settings.get(each, "") for each in _OLD_IDENTITY)
        return f"mariadb:{uid}"


class FoundColumn(NamedTuple):
    """A column of a table."""

    name: str
    type: CatalogType


class FoundTable(NamedTuple):
    """A table of the database."""

    schema: str
    name: str
    kind: str
    engine: str
    columns: tuple[FoundColumn, ...] = ()
    key: tuple[str, ...] = ()
    key_kinds: tuple[str, ...] = ()
    cascades: tuple[str, ...] = ()  # foreign keys that change rows without events in the binlog

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def uuids(self) -> list[str]:
        """The names of the columns of this type."""
        return [each.name for each in self.columns if each.type.name == "uuid"]


_SETTINGS: Final = (
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "gtid_binlog_pos",
    "gtid_slave_pos",
    *_OLD_IDENTITY,
    "log_bin",
    "log_slave_updates",
    "lower_case_table_names",
    "server_uid",
)
_TABLES: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN
  ('information_schema', 'mysql', 'performance_schema', 'sys') AND TEMPORARY IS NOT NULL
ORDER BY 1, 2
"""
_COLUMNS: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME,
  coalesce(NUMERIC_PRECISION, DATETIME_PRECISION), NUMERIC_SCALE, CHARACTER_OCTET_LENGTH
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN %s ORDER BY 1, 2, ORDINAL_POSITION
"""
_KEYS: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS
WHERE INDEX_NAME = 'PRIMARY' AND TABLE_SCHEMA IN %s ORDER BY 1, 2, SEQ_IN_INDEX
"""
_CASCADES: Final = """
SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME
FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA IN %s
  AND (DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION'))
ORDER BY 1, 2, 3
"""
_ALL_BYTES: Final = bytes(range(256)).hex()


def server(connection: pymysql.Connection[Any]) -> Server:
    names = ", ".join(f"'{each}'" for each in _SETTINGS)
    statement = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"
    settings = {name.decode(): value.decode() for name, value in rows(connection, statement)}
    ((version, user),) = rows(connection, "SELECT version(), current_user()")
    numbers = version.decode().split("-")[0].split(".")
    return Server(tuple(map(int, numbers)), settings, user.decode())


def position(connection: pymysql.Connection[Any]) -> str:
    """The GTIDs at the end of the server's binlog."""
    ((found,),) = rows(connection, "SELECT @@global.gtid_binlog_pos")
    return str(found.decode())


def names(connection: pymysql.Connection[Any]) -> list[FoundTable]:
    """All tables that the user may see, without their columns."""
    found = []
    for row in rows(connection, _TABLES):
        schema, name, kind, engine = (each.decode() if each else "" for each in row)
        found.append(FoundTable(schema, name, kind, engine))
    return found


def described(
    connection: pymysql.Connection[Any], tables: Sequence[FoundTable]
) -> list[FoundTable]:
    """The tables with their columns and keys, without those dropped meanwhile."""
    if not tables:
        return []
    schemas = sorted({each.schema for each in tables})
    wanted = {(each.schema, each.name) for each in tables}
    columns: dict[tuple[str, str], list[FoundColumn]] = {each: [] for each in wanted}
    for row in rows(connection, _COLUMNS, (schemas,)):
        place = (row[0].decode(), row[1].decode())
        if place in wanted:
            words = [None if each is None else each.decode() for each in row[2:]]
            columns[place].append(_column(words))
    keys = _by_table(rows(connection, _KEYS, (schemas,)), wanted)
    cascades = _by_table(rows(connection, _CASCADES, (schemas,)), wanted)
    described = []
    for each in tables:
        place = (each.schema, each.name)
        kinds = {one.name: kind_of(one.type) for one in columns[place]}
        key = tuple(keys.get(place, ()))
        described.append(
            each._replace(
                columns=tuple(columns[place]),
                key=key,
                key_kinds=tuple(_key_kind(kinds.get(column)) for column in key),
                cascades=tuple(cascades.get(place, ())),
            )
        )
    return [each for each in described if each.columns]


def charsets(connection: pymysql.Connection[Any], version: tuple[int, ...]) -> Charsets:
    by_collation = {}
    statement = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS WHERE ID > 0"
    found = rows(connection, statement)
    if version >= _MORE_COLLATIONS_FROM:
        found += rows(
            connection,
            "SELECT ID, CHARACTER_SET_NAME "
            "FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY",
        )
    for number, name in found:
        by_collation[int(number)] = name.decode()
    statement = "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS WHERE MAXLEN = 1"
    names = [name.decode() for (name,) in rows(connection, statement)]
    names = [each for each in names if each != BINARY]
    shown = ", ".join(f"HEX(CONVERT(_{each} X'{_ALL_BYTES}' USING utf32))" for each in names)
    (characters,) = rows(connection, f"SELECT {shown}")
    return Charsets(
        by_collation,
        {
            name: bytes.fromhex(each.decode()).decode("utf-32-be")
            for name, each in zip(names, characters, strict=True)
        },
    )


def _column(words: Sequence[Any]) -> FoundColumn:
    name, type_, whole, charset, *numbers = words
    precision, scale, size = (None if each is None else int(each) for each in numbers)
    return FoundColumn(name, CatalogType(type_, whole, charset, precision, scale, size))


def _key_kind(kind: Kind | None) -> str:
    return "" if kind is None else key_kind(kind)


def _by_table(
    found: Iterable[tuple[Any, ...]], wanted: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[str]]:
    by_table: dict[tuple[str, str], list[str]] = {}
    for schema, table, name in found:
        place = (schema.decode(), table.decode())
        if place in wanted:
            by_table.setdefault(place, []).append(name.decode())
    return by_table
