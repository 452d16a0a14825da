"""A capture that writes Avro with a registry: types, evolution, and what the registry refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from capture.captured import Captured
from capture.forms.avro_values import decoded
from drumlin.client.values.registry import SchemaRegistry
from drumlin.client.values.registry_properties import registry_in
from rig.servers.schema_registry import RegistryRig, running_registry
from rig.waiting import wait_until

_TABLE = """
CREATE TABLE every (id int PRIMARY KEY, b boolean, i2 smallint, i8 bigint, o oid, r real,
  d double precision, n numeric(10,2), nn numeric, t text, ba bytea, dt date, tm time, ts timestamp,
  tz timestamptz, iv interval, j jsonb, u uuid, m mood, s size, c cents, ia int[], ta text[],
  na numeric(10,2)[], ma mood[], "x y" text)
"""
_ROW = """
INSERT INTO every VALUES (1, true, -7, 9007199254740993, 4294967295, 0.5, 5e-300, 12.50,
  1234567890123456789012345678901234567890.0001, 'héllo', '\\x00ff10', '2024-02-29',
  '12:34:56.123456', '2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.123456+02', '1 year 2 days',
  '{"a": 1.50}', '03b9d8e4-1cd2-d1ca-1edd-47e16a1aa07f', 'ok', 'x l', 1.05, '{1,NULL,3}',
  '{"a,b",NULL,"NULL"}', '{1.50,NULL}', '{sad,ok}', 'z')
"""
_EXPECTED = {
    "id": 1,
    "b": True,
    "i2": -7,
    "i8": 9007199254740993,
    "o": 4294967295,
    "r": 0.5,
    "d": 5e-300,
    "n": Decimal("12.50"),
    "nn": "1234567890123456789012345678901234567890.0001",
    "t": "héllo",
    "ba": b"\x00\xff\x10",
    "dt": date(2024, 2, 29),
    "tm": time(12, 34, 56, 123456),
    "ts": datetime(2024, 2, 29, 12, 34, 56, 123456),
    "tz": datetime(2024, 2, 29, 10, 34, 56, 123456, UTC),
    "iv": "P1Y2D",
    "j": '{"a": 1.50}',
    "u": UUID("03b9d8e4-1cd2-d1ca-1edd-47e16a1aa07f"),
    "m": "ok",
    "s": "x l",
    "c": Decimal("1.05"),
    "ia": [1, None, 3],
    "ta": ["a,b", None, "NULL"],
    "na": [Decimal("1.50"), None],
    "ma": ["sad", "ok"],
    "x_y": "z",
}


@pytest.fixture
def registry() -> Iterator[RegistryRig]:
    with running_registry() as rig:
        yield rig


def _records(captured: Captured, registry: RegistryRig, table: str) -> list[tuple[Any, Any]]:
    return [
        (decoded(registry, each.key), decoded(registry, each.value))
        for batch in captured.client.read_records(captured.topic(table), isolation="read_committed")
        for each in batch
    ]


def test_types_and_deletes(captured: Captured, registry: RegistryRig) -> None:
    captured.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TYPE size AS ENUM ('s', 'x l')",  # no symbols of Avro
        "CREATE DOMAIN cents AS numeric(12, 2)",
        _TABLE,
        _ROW,
    )
    captured.start_here(format="avro", registry=registry.url, partitions=1)
    captured.await_all()
    captured.run(
        _ROW.replace("(1,", "(2,", 1),
        "INSERT INTO every (id) VALUES (3)",
        "DELETE FROM every WHERE id = 1",
        "UPDATE every SET id = 4 WHERE id = 3",
    )
    captured.await_all()
    nothing = dict.fromkeys(_EXPECTED)
    assert _records(captured, registry, "every") == [
        ({"id": 1}, _EXPECTED),
        ({"id": 2}, {**_EXPECTED, "id": 2}),
        ({"id": 3}, {**nothing, "id": 3}),
        ({"id": 1}, None),
        ({"id": 3}, None),
        ({"id": 4}, {**nothing, "id": 4}),
    ]


def test_tables_that_are_altered(captured: Captured, registry: RegistryRig) -> None:
    captured.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE item (id int PRIMARY KEY, big text, m mood, gone int)",
        "ALTER TABLE item ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO item VALUES (1, repeat('x', 5000), 'sad', 7)",
    )
    captured.start_here(format="avro", registry=registry.url, partitions=1)
    captured.await_all()
    captured.run(
        "ALTER TYPE mood ADD VALUE 'glad' BEFORE 'ok'",
        "INSERT INTO item VALUES (2, 'y', 'glad', 8)",
        "ALTER TABLE item DROP gone, ADD new numeric(8, 3), ALTER id TYPE bigint",
        "UPDATE item SET m = 'ok' WHERE id = 1",  # its large value is not sent
        "UPDATE item SET new = 1.5 WHERE id = 2",
        "DELETE FROM item WHERE id = 2",
    )
    captured.await_all()
    found = _records(captured, registry, "item")
    big = "x" * 5000
    assert found == [
        ({"id": 1}, {"id": 1, "big": big, "m": "sad", "gone": 7}),
        ({"id": 2}, {"id": 2, "big": "y", "m": "glad", "gone": 8}),
        ({"id": 1}, {"id": 1, "big": big, "m": "ok", "new": None}),
        ({"id": 2}, {"id": 2, "big": "y", "m": "glad", "new": Decimal("1.500")}),
        ({"id": 2}, None),
    ]
    topic = captured.topic("item")
    assert len(registry.versions(f"{topic}-value")) == 3
    assert len(registry.versions(f"{topic}-key")) == 1


def test_a_registry_that_refuses(captured: Captured, registry: RegistryRig) -> None:
    captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    how = {"format": "avro", "registry": registry.url, "partitions": 1}
    captured.start_here(**how)
    captured.await_all()
    subject = f"{captured.topic('item')}-value"
    registry.closed.add(subject)
    captured.run("ALTER TABLE item ADD name text", "INSERT INTO item VALUES (2, 'two')")
    assert captured.ended() == 1
    assert f"refuses the schema of subject {subject}" in captured.said()
    assert "incompatible" in captured.said()
    registry.closed.clear()
    captured.start_here(**how)
    captured.await_all()
    assert _records(captured, registry, "item")[-1] == ({"id": 2}, {"id": 2, "name": "two"})
    assert captured.stop() == 0
    captured.start_here()
    assert captured.ended() == 1
    assert "records of the form avro" in captured.said()


def test_times_beyond_the_range(captured: Captured, registry: RegistryRig) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, d date, t timestamp, n numeric(5, 2))",
        "INSERT INTO item VALUES (1, 'infinity', '-infinity'), (2, '0044-03-15 BC', 'infinity'),"
        " (3, '5874897-12-31', '4713-01-01 00:00:00 BC')",
    )
    captured.start_here(format="avro", registry=registry.url, partitions=1)
    captured.await_all()
    captured.run("INSERT INTO item VALUES (4, NULL, NULL, 'NaN')")
    assert captured.ended() == 1
    assert "table public.item, column 'n': 'NaN' is no decimal of scale 2" in captured.said()
    raw = [
        json.loads(registry.text(int.from_bytes(each.value[1:5], "big"))) and each.value[5:]
        for batch in captured.client.read_records(captured.topic("item"))
        for each in batch
        if each.value is not None
    ]
    assert len(raw) == 3


def test_a_login_that_is_never_told(captured: Captured, registry: RegistryRig) -> None:
    captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    registry.login = "writer:s3cret"
    found = {"schema.registry.url": registry.url, "basic.auth.user.info": "writer:wr0ng"}
    captured.start_here(format="avro", registry=registry_in(found))
    assert captured.ended() == 1
    assert "401" in captured.said() and "wr0ng" not in captured.said()
    found["basic.auth.user.info"] = "writer:s3cret"
    captured.start_here(format="avro", registry=registry_in(found))
    captured.await_all()
    assert _records(captured, registry, "item") == [({"id": 1}, {"id": 1})]


def test_a_registry_that_is_away(captured: Captured, registry: RegistryRig) -> None:
    captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    slow = SchemaRegistry(registry.url, patience_ms=0)
    captured.start_here(format="avro", registry=slow)
    captured.await_all()
    registry.failures += [(503, b"{}")] * 3
    captured.run("ALTER TABLE item ADD name text", "INSERT INTO item VALUES (2, 'two')")
    wait_until(lambda: "trying again" in captured.said(), "the next try", 60)
    captured.await_all()
    assert _records(captured, registry, "item")[-1] == ({"id": 2}, {"id": 2, "name": "two"})
