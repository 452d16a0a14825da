"""Debezium's envelope: as its own JSON, with and without schemas, and as Avro."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from capture.captured import Captured
from capture.forms.avro_values import decoded
from rig.servers.schema_registry import RegistryRig, running_registry

_FORMATS = (
    pytest.param("debezium", marks=pytest.mark.deep),
    pytest.param("debezium-schemas"),
    pytest.param("debezium-avro"),
)


@pytest.fixture
def registry() -> Iterator[RegistryRig]:
    with running_registry() as rig:
        yield rig


def _how(format_: str, registry: RegistryRig) -> dict[str, Any]:
    needed = registry.url if format_ == "debezium-avro" else None
    return {"format": format_, "registry": needed, "partitions": 1}


def _envelopes(captured: Captured, registry: RegistryRig, format_: str, table: str) -> list[Any]:
    """Key, and value as far as it does not depend on the moment."""

    def payload(data: bytes | None) -> Any:
        if data is None or format_ == "debezium-avro":
            return decoded(registry, data)
        found = json.loads(data)
        return found["payload"] if format_ == "debezium-schemas" else found

    return [
        (payload(each.key), payload(each.value))
        for batch in captured.client.read_records(captured.topic(table), isolation="read_committed")
        for each in batch
    ]


def _short(envelope: Any) -> Any:
    if envelope is None:
        return None
    source = envelope["source"]
    return envelope["op"], envelope["before"], envelope["after"], source["snapshot"]


@pytest.mark.parametrize("format_", _FORMATS)
def test_what_was_done(captured: Captured, registry: RegistryRig, format_: str) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text)", "INSERT INTO item VALUES (1, 'one')"
    )
    captured.start_here(**_how(format_, registry))
    captured.await_all()
    captured.run(
        "INSERT INTO item VALUES (2, 'two')",
        "UPDATE item SET name = 'zwei' WHERE id = 2",
        "UPDATE item SET id = 3 WHERE id = 2",
        "ALTER TABLE item REPLICA IDENTITY FULL",
        "UPDATE item SET name = 'drei' WHERE id = 3",
        "DELETE FROM item WHERE id = 3",
    )
    captured.await_all()
    found = _envelopes(captured, registry, format_, "item")
    assert [(key, _short(value)) for key, value in found] == [
        ({"id": 1}, ("r", None, {"id": 1, "name": "one"}, "true")),
        ({"id": 2}, ("c", None, {"id": 2, "name": "two"}, "false")),
        ({"id": 2}, ("u", None, {"id": 2, "name": "zwei"}, "false")),
        ({"id": 2}, ("d", {"id": 2, "name": None}, None, "false")),
        ({"id": 2}, None),
        ({"id": 3}, ("c", None, {"id": 3, "name": "zwei"}, "false")),
        ({"id": 3}, ("u", {"id": 3, "name": "zwei"}, {"id": 3, "name": "drei"}, "false")),
        ({"id": 3}, ("d", {"id": 3, "name": "drei"}, None, "false")),
        ({"id": 3}, None),
    ]
    source = found[1][1]["source"]
    assert source["schema"] == "public" and source["table"] == "item"
    assert source["db"] == source["name"] == captured.name
    assert source["txId"] > 0 and source["lsn"] > 0
    moments = [value["source"]["lsn"] for _, value in found[1:] if value is not None]
    assert moments == sorted(moments)


@pytest.mark.parametrize("format_", _FORMATS)
def test_rows_are_taken_up_again(captured: Captured, registry: RegistryRig, format_: str) -> None:
    """Large values that are not sent, a table that is read again, and a new capture."""
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, big text, n int)",
        "ALTER TABLE item ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO item SELECT i, repeat('x', 4000), i FROM generate_series(1, 3) i",
    )
    how = _how(format_, registry)
    captured.start_here(**how, tombstones=False)
    captured.await_all()
    captured.run("UPDATE item SET n = 7 WHERE id = 1", "DELETE FROM item WHERE id = 2")
    captured.await_all()
    found = _envelopes(captured, registry, format_, "item")
    assert found[3][1]["after"] == {"id": 1, "big": "x" * 4000, "n": 7}
    assert len(found) == 5 and found[4][1]["after"] is None
    assert captured.stop() == 0
    assert captured.ask("remove", "--yes").returncode == 0
    captured.run("UPDATE item SET n = 8 WHERE id = 1", "DELETE FROM item WHERE id = 3")
    captured.start_here(**how)
    captured.await_all()
    found = _envelopes(captured, registry, format_, "item")[5:]
    assert [(key["id"], value and value["op"]) for key, value in found] == [
        (1, "r"),
        (3, "d"),
        (3, None),
    ]


@pytest.mark.parametrize("format_", ["json", "debezium-avro"])
def test_headers(captured: Captured, registry: RegistryRig, format_: str) -> None:
    """On few rows, which are written one by one, and on many, which are written as columns."""
    captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (0)")
    captured.start_here(**_how(format_, registry), headers=True)
    captured.await_all()
    captured.run(
        "INSERT INTO item VALUES (1)",
        "DELETE FROM item WHERE id = 1",
        "INSERT INTO item SELECT generate_series(2, 501)",
    )
    captured.await_all()
    found = [
        {name: value.decode() for name, value in each.headers}
        for batch in captured.client.read_records(captured.topic("item"))
        for each in batch
    ]
    assert found[0]["op"] == "r" and found[0]["source.snapshot"] == "true"
    assert found[1]["op"] == "c" and found[2]["op"] == "d"
    assert int(found[1]["source.lsn"]) < int(found[2]["source.lsn"])
    assert found[1]["source.txId"] != found[2]["source.txId"]
    assert found[-500:] == [found[-1]] * 500 and found[-1]["op"] == "c"
