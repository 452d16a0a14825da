"""Random transactions over tables with values of many types, large ones among them."""

from __future__ import annotations

import random
from typing import Any

import psycopg

TABLES = ("wide", "other", "whole")
SCHEMA = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s \"ok\"')",
    "CREATE DOMAIN cents AS numeric(30, 2) CHECK (VALUE >= 0)",
    "CREATE TYPE pair AS (a int, b text)",
    """CREATE TABLE wide (id bigint PRIMARY KEY, b bool, i2 int2, i4 int4, f4 float4, f8 float8,
     n numeric, t text, v varchar(200), j json, jb jsonb, u uuid, d date, ts timestamp,
     tz timestamptz, iv interval, m mood, c cents, ai int[], at text[], an numeric[],
     r int4range, p pair, ip inet, bt bit(3), big text, bigger jsonb,
     made int GENERATED ALWAYS AS (i4 / 2) STORED)""",
    "CREATE TABLE other (a text, b int, note text, PRIMARY KEY (a, b))",
    "CREATE TABLE whole (id int PRIMARY KEY, big text, small int)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
)
_TEXTS = ["", "plain", 'quote " and \\', "tab\tline\nend\r", "ünïcödé 😀", "NULL", "{}", "null"]
_NUMERICS = ["NaN", "0.00", "-1.50", "1e40", "123456789012345678901234567890.123456789", "7"]


def large(source: random.Random) -> str:
    """A text that PostgreSQL stores apart: it is too large for a page, compressed as well."""
    return source.randbytes(source.choice((2_000, 5_000))).hex()


def wide_row(source: random.Random) -> dict[str, Any]:
    pick = source.choice
    row = {
        "b": pick([True, False]),
        "i2": pick([-32768, 32767]),
        "i4": source.randrange(-(2**31), 2**31),
        "f4": pick(["NaN", "Infinity", "1.1", "-0"]),
        "f8": pick(["-Infinity", "NaN", "1e300", "0.1", "5e-324"]),
        "n": pick([*_NUMERICS]),
        "t": pick(_TEXTS),
        "v": pick(_TEXTS),
        "j": pick(['{"a" : [1, 2.50, null]}', "null", '"x"', '{"a":1,"a":2}']),
        "jb": pick(['{"k": "v\\u0041"}', "null", "[1e2]"]),
        "u": f"{source.getrandbits(128):032x}",
        "d": pick(["infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", "2024-02-29"]),
        "ts": pick(["infinity", "294276-12-31 23:59:59.999999", "2000-01-01 00:00:00"]),
        "tz": pick(["-infinity", "4713-01-01 00:00:00+00 BC", "2024-05-06 07:08:09.1+05:30"]),
        "iv": pick(["1 year -2 days 03:04:05.6", "0", "-1 mon"]),
        "m": pick(["sad", 'it\'s "ok"']),
        "c": pick(["0", "1234567890123456789.10"]),
        "ai": pick(["{}", "{1,NULL,3}", "{{1,2},{3,4}}"]),
        "at": pick(["{}", '{"a,b","\\"q\\"",NULL,"NULL","\\\\"}', "{x}"]),
        "an": pick(["{NaN,1.50}", "{}"]),
        "r": pick(["empty", "[1,5)", "(,7]"]),
        "p": pick(['(1,"a,b")', "(,)"]),
        "ip": pick(["10.0.0.1/8", "::1"]),
        "bt": pick(["101", "000"]),
    }
    return {name: None if source.random() < 0.15 else value for name, value in row.items()}


def transact(connection: psycopg.Connection[Any], source: random.Random, keys: int = 25) -> None:
    """One transaction, sometimes rolled back, in which every statement may change anything."""
    try:
        with connection.transaction():
            for _ in range(source.randrange(1, 8)):
                _change(connection, source, keys)
            if source.random() < 0.1:
                raise psycopg.Rollback
    except psycopg.errors.UniqueViolation:
        pass  # of a changed key: nothing of the transaction is there


def _change(connection: psycopg.Connection[Any], source: random.Random, keys: int) -> None:
    key, other = source.randrange(keys), source.randrange(keys)
    kind = source.random()
    table = source.choice(TABLES)
    if table == "wide":
        _change_wide(connection, source, kind, key, other)
    elif table == "other":
        names = ("a", "it's", "ü")
        a, b = source.choice(names), source.choice(names)
        if kind < 0.6:
            statement = (
                "INSERT INTO other VALUES (%s, %s, %s) ON CONFLICT (a, b)"
                " DO UPDATE SET note = excluded.note"
            )
            connection.execute(statement, (a, key, source.choice(_TEXTS)))
        elif kind < 0.8:
            statement = "UPDATE other SET a = %s, b = %s WHERE a = %s AND b = %s"
            connection.execute(statement, (a, other, b, key))
        else:
            connection.execute("DELETE FROM other WHERE b = %s", (key,))
    elif kind < 0.5:
        statement = "INSERT INTO whole VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
        connection.execute(statement, (key, large(source)))
    elif kind < 0.8:
        connection.execute("UPDATE whole SET small = small + 1 WHERE id <= %s", (key,))
    elif kind < 0.9:
        connection.execute("UPDATE whole SET id = %s WHERE id = %s", (other + keys, key))
    else:
        connection.execute("DELETE FROM whole WHERE id = %s", (key,))


def _change_wide(
    connection: psycopg.Connection[Any], source: random.Random, kind: float, key: int, other: int
) -> None:
    row = wide_row(source)
    if kind < 0.45:
        row |= {"big": large(source), "bigger": f'["{large(source)}"]'}
        names = ["id", *row]
        changes = ", ".join(f"{each} = excluded.{each}" for each in row)
        statement = (
            f"INSERT INTO wide ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
            f" ON CONFLICT (id) DO UPDATE SET {changes}"
        )
        connection.execute(statement, (key, *row.values()))
    elif kind < 0.75:  # the large ones stay as they are
        changes = ", ".join(f"{each} = %s" for each in row)
        statement = f"UPDATE wide SET {changes} WHERE id = %s"
        connection.execute(statement, (*row.values(), key))
    elif kind < 0.85:
        connection.execute("UPDATE wide SET id = %s WHERE id = %s", (other, key))
    else:
        connection.execute("DELETE FROM wide WHERE id = %s", (key,))
