"""Values of all types: a row has one form, whether it is read in a snapshot or from the binlog."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from capture.binlog.recorded import RECORDED, position, record, sent
from capture.binlog.server import Mariadb, running_mariadb
from drumlin.capture.binlog import catalog, checks, connections, snapshot
from drumlin.capture.binlog.changes import BinlogChanges
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.column_types import kind_of
from drumlin.capture.binlog_events.events import EventDecoder
from drumlin.capture.changes import OnTruncate, Table
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.position import BinlogPosition
from drumlin.capture.values.form import PlainJson
from drumlin.capture.values.kinds import TEXT, Column

_STATEMENTS = (Path(__file__).parent / "types.sql").read_text()
#: What the server's own text would be taken for: values by column, of rows 2, 3, 4 and 6.
_SOME: dict[int, dict[str, Any]] = {
    2: {
        "bu": 2**64 - 1,
        "iu": 2**32 - 1,
        "f": 0.1,
        "f2": 12345.68,
        "de": "-12345678901234567890.0123456789",
        "dz": "1.50",
        "b64": 2**64 - 1,
        "dt3": "2024-02-29T01:02:03.004",
        "ts6": "1970-01-01T00:00:01.000001Z",
        "t2": "-838:59:58.99",
        "t5": "-00:00:01.00001",
        "c": "abc",
        "v": "日本 ",
        "vl": "€œ",
        "vc": "Привет",
        "vg": "αβγ",
        "vu16": "😀x",
        "vk": "čšž",
        "bn": "YWIAAAAA",
        "vb3": "/wA=",
        "e": "é",
        "el": "é",
        "s9": "1,9",
        "u": "123e4567-e89b-12d3-a456-426655440000",
        "p": "AAAAAAEBAAAAAAAAAAAA8D8AAAAAAAAAQA==",
        'we`ird %s "name"': 5,
        "gv": 4,
        "inv": 7,
    },
    3: {
        "y": 0,
        "da": "0000-00-00",
        "dt6": "2024-00-00T00:00:00.500000",
        "ts": "0000-00-00T00:00:00Z",
        "d65": "-0.000000000000000000000000000001",
        "e": "",
        "vl": "\x8d\x9d\x81",
        "u": "00000000-0000-0000-0000-000000000000",
    },
    4: {"da": "2024-02-00", "t2": "838:59:59.99", "d": 1.7976931348623157e308},
    6: {"f": 16777216.0, "d": 1e21, "ti": 0},
}


def streamed(
    events: Iterable[bytes], start: str, table: Table, charsets: Charsets
) -> dict[str, str]:
    """The rows of a table, by key, from events."""
    changes = BinlogChanges(
        [table],
        charsets,
        TopicRows(),
        BinlogPosition(start),
        OnTruncate.IGNORE,
        uuids={table.full_name: ["u"]},
    )
    decoder, found = EventDecoder(True), {}
    for data in events:
        event = decoder.take(memoryview(data))
        if event is not None:
            found.update({str(each.key): str(each.value) for each in changes.take(event)})
    return found


def check_some(rows: dict[str, str]) -> None:
    for number, values in _SOME.items():
        row = json.loads(rows[f'{{"id":{number}}}'])
        assert {name: row[name] for name in values} == values


def test_recorded() -> None:
    found = RECORDED["types"]
    by_collation = {int(number): name for number, name in found["collations"].items()}
    events = [bytes.fromhex(each) for each in found["events"]]
    charsets = Charsets(by_collation, found["characters"])
    table = Table(1, "types", "src", "t", ("id",), ("integer",))
    rows = streamed(events, found["start"], table, charsets)
    assert rows == found["rows"]
    check_some(rows)


@pytest.fixture(scope="module")
def server() -> Iterator[Mariadb]:
    with running_mariadb() as found:
        yield found


@pytest.mark.deep
def test_live(server: Mariadb) -> None:
    start = position(server.url())
    with server.connect() as connection, connection.cursor() as cursor:
        for each in (
            "SET sql_mode = ''",
            "SET time_zone = '+00:00'",
            "DROP DATABASE IF EXISTS types",
            "CREATE DATABASE types",
            "USE types",
            *_STATEMENTS.split(";\n"),
        ):
            if each.strip():
                cursor.execute(each)
    events = list(sent(server.url(), start))
    with connections.connected(server.url("types")) as connection:
        connections.prepare(connection)
        charsets = catalog.charsets(connection, catalog.server(connection).version)
        known = [each for each in catalog.names(connection) if each.schema == "types"]
        described = catalog.described(connection, known)
        assert checks.table_problems(described, charsets) == []
        snapshot.begin(connection)
        (table,) = snapshot.take_over(connection, described)
        columns = [Column(each.name, kind_of(each.type) or TEXT) for each in table.columns]
        shape = PlainJson().rows_of(table.full_name, "t", columns, table.key)
        rows = list(snapshot.read_table(connection, table, charsets, lambda: False))
    read = {str(shape.key(each)): str(shape.value(each)) for each in rows}
    captured = Table(1, table.schema, table.name, "t", table.key, table.key_kinds)
    assert streamed(events, start, captured, charsets) == read
    check_some(read)
    used = (
        "utf8mb3",
        "utf8mb4",
        "latin1",
        "cp1251",
        "greek",
        "ucs2",
        "utf16",
        "utf16le",
        "utf32",
        "keybcs2",
        "binary",
    )
    collations = charsets._by_collation.items()
    record(
        "types",
        {
            "start": start,
            "events": [each.hex() for each in events],
            "rows": read,
            "collations": {number: name for number, name in collations if name in used},
            "characters": {
                name: text for name, text in charsets._characters.items() if name in used
            },
        },
    )
