"""Rows of each form equal the table: changes, reread, altered, stopped and begun anew."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

import drumlin.capture
from capture.captured import Captured
from capture.forms.avro_values import decoded
from rig.servers.schema_registry import RegistryRig, running_registry
from rig.waiting import wait_until

_TABLE = """
CREATE TABLE item (id int PRIMARY KEY, big text, n numeric(10, 2), m mood)
"""
_KEYS = 400


@pytest.fixture
def registry() -> Iterator[RegistryRig]:
    with running_registry() as rig:
        yield rig


def _rows(captured: Captured, registry: RegistryRig, format_: str) -> dict[int, Any]:
    """The last row of each key."""
    found: dict[int, Any] = {}
    topic = captured.topic("item")
    for batch in captured.client.read_records(topic, isolation="read_committed"):
        for each in batch:
            key, value = _told(registry, format_, each.key), _told(registry, format_, each.value)
            row = value["after"] if value is not None and format_ != "avro" else value
            if row is None:
                found.pop(key["id"], None)
            else:
                found[key["id"]] = row
    return found


def _told(registry: RegistryRig, format_: str, data: bytes | None) -> Any:
    if data is None or "avro" in format_:
        return decoded(registry, data)
    found = json.loads(data)
    return found["payload"] if format_ == "debezium-schemas" else found


def _random_statement(source: random.Random, step: int) -> str:
    low = source.randrange(_KEYS)
    some = f"id BETWEEN {low} AND {low + source.randrange(30)}"
    match source.randrange(6):
        case 0:
            return f"DELETE FROM item WHERE {some}"
        case 1:
            return f"UPDATE item SET big = repeat('{step % 10}', 3000) WHERE {some}"
        case 2:
            return f"UPDATE item SET id = id + 10000 * {step} WHERE {some}"
        case 3:
            return (
                f"INSERT INTO item SELECT i, repeat('x', 3000), {step}.25, 'ok'"
                f" FROM generate_series({low}, {low + 20}) i ON CONFLICT DO NOTHING"
            )
        case _:
            return f"UPDATE item SET n = {step}.5, m = 'sad' WHERE {some}"


@pytest.mark.deep
@pytest.mark.parametrize("format_", ["avro", "debezium-schemas", "debezium-avro"])
def test_rows_equal_the_table(captured: Captured, registry: RegistryRig, format_: str) -> None:
    source = random.Random(format_)
    captured.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        _TABLE,
        "ALTER TABLE item ALTER big SET STORAGE EXTERNAL",
        f"INSERT INTO item SELECT i, repeat('y', 3000), i, 'ok' FROM generate_series(1, {_KEYS}) i",
    )
    how: dict[str, Any] = {"format": format_, "tables": ["public.item"]}
    if "avro" in format_:
        how["registry"] = registry.url
    captured.start_here(**how)
    captured.await_all()
    for step in range(1, 9):
        captured.run(*[_random_statement(source, step) for _ in range(12)])
        if step % 3 == 0:
            drumlin.capture.reread(captured.broker, tables=["public.item"], name=captured.name)
        if step % 3 == 1:
            captured.run(
                f"ALTER TYPE mood ADD VALUE 'glad{step}'",
                f"ALTER TABLE item ADD c{step} int",
                f"UPDATE item SET m = 'glad{step}', c{step} = {step} WHERE id < 50",
            )
        if step == 5:
            assert captured.stop() == 0
            assert captured.ask("remove", "--yes").returncode == 0
            captured.run(*[_random_statement(source, step) for _ in range(12)])
            captured.start_here(**how)
            captured.await_all()
    wait_until(lambda: not captured.status().reading, "the table to be read", 120)
    captured.await_all()
    expected = captured.rows("SELECT id, big, n::text, m::text FROM item ORDER BY id")
    found = _rows(captured, registry, format_)
    assert sorted(found) == [row[0] for row in expected]
    for id_, big, n, m in expected:
        row = found[id_]
        assert (row["big"], row["m"]) == (big, m)
        if format_ == "avro":
            assert str(row["n"]) == n
