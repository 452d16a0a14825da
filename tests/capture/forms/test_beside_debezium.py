"""Debezium and a capture on one database: the same records, but for what is listed here."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from capture.captured import Captured
from rig.jvm.jars import jar_folder
from rig.jvm.kafka_connect import Worker, write
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_MISSING = "__debezium_unavailable_value"
#: Columns by type, with values of each.
_COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "b": ("boolean", ("true", "false")),
    "i2": ("smallint", ("-32768", "7")),
    "i8": ("bigint", ("9007199254740993", "-1")),
    "o": ("oid", ("4294967295",)),
    "r": ("real", ("0.1", "'NaN'", "'Infinity'", "1e10")),
    "d": ("double precision", ("5e-300", "'-Infinity'", "1e22", "0.30000000000000004")),
    "n": ("numeric(10, 2)", ("12.50", "-99999999.99", "0")),
    "nn": ("numeric", ("123456789012345678901234567890.0001", "-1.5", "0", "0.00001", "1000")),
    "ce": ("cents", ("1.05", "-0.01")),
    "mo": ("money", ("1234.5", "-0.01")),
    "t": ("text", ("'héllo'", "''", "E'tab\\tquote\"'")),
    "c": ("char(5)", ("'ab'",)),
    "ba": ("bytea", ("'\\x00ff10'", "''")),
    "dt": ("date", ("'2024-02-29'", "'1969-12-31'", "'5874897-12-31'")),
    "tm": ("time", ("'12:34:56.123456'", "'24:00:00'", "'00:00:00'")),
    "tm3": ("time(3)", ("'12:34:56.123'",)),
    "ttz": ("timetz", ("'12:00:00.5+02'", "'00:30:00-03:30'")),
    "ts": ("timestamp", ("'2024-02-29 12:34:56.123456'", "'infinity'", "'-infinity'")),
    "ts3": ("timestamp(3)", ("'1969-12-31 23:59:59.999'", "'infinity'")),
    "tz": ("timestamptz", ("'2024-02-29 12:34:56.5+02'", "'infinity'", "'12024-01-01+00'")),
    "tz3": ("timestamptz(3)", ("'2024-02-29 12:34:56.5+02'",)),
    "tz0": ("timestamptz(0)", ("'2024-02-29 12:34:56+02'",)),
    "j": ("jsonb", ("'{\"a\": [1.50, null]}'", "'null'")),
    "u": ("uuid", ("'03b9d8e4-1cd2-d1ca-1edd-47e16a1aa07f'",)),
    "m": ("mood", ("'sad'", "'happy day'")),
    "ia": ("int[]", ("'{1,NULL,3}'", "'{}'", "'[0:1]={1,2}'")),
    "ta": ("text[]", ('\'{"a,b",NULL,"NULL"}\'',)),
    "na": ("numeric(10, 2)[]", ("'{1.50,NULL}'",)),
    "ua": ("uuid[]", ("'{03b9d8e4-1cd2-d1ca-1edd-47e16a1aa07f}'",)),
    "tza": ("timestamptz[]", ("'{\"2024-02-29 12:00:00+00\"}'",)),
    "bi": ("bit(1)", ("B'1'", "B'0'")),
    "b8": ("bit(8)", ("B'10000001'",)),
    "vb": ("varbit(12)", ("B'101'", "B'100000000001'")),
    "x": ("xml", ("'<a/>'",)),
    "ip": ("inet", ("'10.0.0.1/8'",)),
    "rg": ("int4range", ("'[1,5)'",)),
    "tsv": ("tsvector", ("'a b'",)),
    "big": ("text", ()),
    # Those whose records differ.
    "iv": ("interval", ("'1 year 2 months 3 days 04:05:06.7'", "'1 mon'")),
    "pt": ("point", ("'(1.5,2)'",)),
    "bx": ("box", ("'(2,2),(1,1)'",)),
    "mi": ("int[]", ("'{{1,2},{3,4}}'",)),
}
_DIFFERENCES = {
    "iv": "Debezium writes each part, also those that are zero",
    "pt": "Debezium makes a struct of a point",
    "bx": "Debezium leaves out types that it does not know",
}
#: A capture refuses them: what Debezium makes of them is no array of their elements.
_REFUSED = ("mi",)
_KEYS = 12


def _random_statements(source: random.Random) -> Iterator[str]:
    names = [each for each in _COLUMNS if each not in (*_REFUSED, "big")]

    def value(name: str) -> str:
        return source.choice((*_COLUMNS[name][1], "NULL"))

    for _ in range(120):
        key = source.randrange(_KEYS)
        match source.randrange(8):
            case 0:
                yield f"DELETE FROM every WHERE id = {key}"
            case 1:
                other = source.randrange(_KEYS)
                yield (
                    f"UPDATE every SET id = {other} WHERE id = {key}"
                    f" AND NOT EXISTS (SELECT FROM every WHERE id = {other})"
                )
            case 2 | 3 | 4:
                chosen = source.sample(names, 3)
                sets = ", ".join(f"{each} = {value(each)}" for each in chosen)
                yield f"UPDATE every SET {sets} WHERE id = {key}"
            case 5:
                digit = source.randrange(10)
                yield f"UPDATE every SET big = repeat('{digit}', 4000) WHERE id = {key}"
            case _:
                values = ", ".join(map(value, names))
                yield (
                    f"INSERT INTO every (id, {', '.join(names)}) VALUES ({key}, {values})"
                    " ON CONFLICT DO NOTHING"
                )


def _changes(captured: Captured, topic: str) -> dict[str, list[Any]]:
    """What happened to each key, in order."""
    found = defaultdict(list)
    for batch in captured.client.read_records(topic, isolation="read_committed"):
        for each in batch:
            change = None
            if each.value is not None:
                told = json.loads(each.value)
                change = told["op"], told["before"], told["after"]
            found[each.key.decode()].append(change)
    return found


def _differences(theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """Columns that are not the same in two rows."""
    if theirs is None or ours is None:
        if theirs != ours:
            yield "the row", theirs, ours
        return
    for name, our in ours.items():
        their = theirs.get(name)
        if our != their and their != _MISSING:
            yield name, their, our


def _debezium(captured: Captured, folder: Path) -> Worker:
    with skipped_where_unavailable():
        plugins = Path(jar_folder("debezium-jars")).parent
        jar_folder("connect-jars")
    settings = {
        "bootstrap.servers": captured.broker,
        "plugin.path": str(plugins),
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "500",
    }
    for part in ("key", "value"):
        settings |= {f"{part}.converter": _JSON, f"{part}.converter.schemas.enable": "false"}
    where = psycopg.conninfo.conninfo_to_dict(captured.url)
    connector = {
        "name": "theirs",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(where["port"]),
        "database.user": str(where["user"]),
        "database.dbname": str(where["dbname"]),
        "plugin.name": "pgoutput",
        "slot.name": f"drumlin_{captured.name}_theirs",
        "slot.drop.on.stop": "true",
        "publication.name": "theirs",
        "topic.prefix": "theirs_" + captured.name,
        "interval.handling.mode": "string",
        "poll.interval.ms": "50",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
    }
    worker = Worker(folder, "Standalone", settings)
    worker.start(write(folder / "connector.properties", connector))
    return worker


@pytest.mark.deep
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_the_same_records(captured: Captured, tmp_path: Path, identity: str) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in _COLUMNS.items())
    source = random.Random(7)
    statements = list(_random_statements(source))
    captured.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy day')",
        "CREATE DOMAIN cents AS numeric(12, 2)",
        f"CREATE TABLE every (id int PRIMARY KEY, {columns})",
        f"ALTER TABLE every ALTER big SET STORAGE EXTERNAL, REPLICA IDENTITY {identity}",
        *statements[:40],
    )
    captured.start_here(format="debezium", partitions=1)
    captured.await_all()
    worker = _debezium(captured, tmp_path)
    try:
        worker.await_running("theirs")
        their_topic = f"theirs_{captured.name}.public.every"
        count = captured.rows("SELECT count(*) FROM every")[0][0]
        wait_until(lambda: _count(captured, their_topic) == count, "their snapshot", 300)
        captured.run(*statements[40:], "INSERT INTO every (id) VALUES (1000)")
        captured.await_all()
        ours = _changes(captured, captured.topic("every"))
        total = sum(map(len, ours.values()))
        wait_until(lambda: _count(captured, their_topic) >= total, "their changes", 300)
        theirs = _changes(captured, their_topic)
    finally:
        worker.close()
    assert theirs.keys() == ours.keys()
    other = set()
    for key, changes in ours.items():
        assert len(changes) == len(theirs[key])
        for our, their in zip(changes, theirs[key], strict=True):
            assert (our is None) == (their is None)
            if our is not None:
                assert our[0] == their[0], "what was done"
                for place in (1, 2):
                    other |= {
                        (name, json.dumps(a), json.dumps(b))
                        for name, a, b in _differences(their[place], our[place])
                    }
    unexpected = sorted(each for each in other if each[0] not in _DIFFERENCES)
    assert unexpected == []
    assert {name for name, *_ in other} == set(_DIFFERENCES)


def _count(captured: Captured, topic: str) -> int:
    try:
        batches = captured.client.read_records(topic, isolation="read_committed")
        return sum(len(batch) for batch in batches)
    except Exception:
        return -1
