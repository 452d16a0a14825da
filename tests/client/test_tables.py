"""What `append` takes and what `read` gives back as text and JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.tables import as_json, as_table, json_bytes

ROWS = [{"key": "a", "value": "1"}, {"key": "b", "value": None}]


class Stream:
    """Has the interface of Polars' and DuckDB's tables, and their types of strings."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(ROWS, index=[7, 9])


TABLE = pa.Table.from_pylist(ROWS)
VIEWS = pa.schema([("key", pa.string_view()), ("value", pa.large_string())])
TABLES: dict[str, Any] = {
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "stream": Stream(TABLE.cast(VIEWS)),
    "dict of columns": {"key": ["a", "b"], "value": ["1", None]},
    "list of dicts": [{"key": "a", "value": "1"}, {"key": "b"}],
}


@pytest.mark.parametrize("name", [*TABLES, "reader", "pandas"])
def test_append_takes(client: Client, topic: str, name: str) -> None:
    given = {"pandas": frame, "reader": TABLE.to_reader}.get(name, lambda: TABLES[name])
    client.append(given(), topic)
    found = client.read(topic, columns=["key", "value"], decode="utf8")
    assert sorted(found.to_pylist(), key=lambda row: row["key"]) == ROWS


@pytest.mark.parametrize("data", [5, "text", b"bytes", [1, 2], None, object()])
def test_what_holds_no_columns(data: object) -> None:
    with pytest.raises(TypeError, match=f"data is a {type(data).__name__}: expected a pyarrow"):
        as_table(data)


def test_columns_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="data is no table: "):
        as_table({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match=r"data is no table: .*'x'"):
        as_table([{"a": 1}, {"a": "x"}])


def test_rows_as_json(client: Client, topic: str) -> None:
    rows = [{"id": 7, "name": "ä", "timestamp": "noon"}, {"id": 8, "name": None, "timestamp": ""}]
    client.append(rows, topic, key="id", encode="json")
    text = client.read(topic, decode="utf8")
    by_key = dict(zip(text["key"].to_pylist(), text["value"].to_pylist(), strict=True))
    assert by_key["7"] == '{"id": 7, "name": "ä", "timestamp": "noon"}'
    found = client.read(topic, decode="json")
    assert sorted(found["value"].to_pylist(), key=lambda row: row["id"]) == rows
    assert found.schema.field("value").type.field("id").type == pa.int64()


def test_one_column_as_json(client: Client, topic: str) -> None:
    client.append(
        {"key": ["a", "b"], "what": [{"x": [1]}, None]}, topic, value="what", encode="json"
    )
    found = client.read(topic, decode="json", columns=["key", "value"])
    rows = sorted(found.to_pylist(), key=lambda row: row["key"])
    assert rows == [{"key": "a", "value": {"x": [1]}}, {"key": "b", "value": None}]
    assert client.read(topic, columns=["value"])["value"].null_count == 1


def test_named_times_and_headers_go_beside_rows_of_json(client: Client, topic: str) -> None:
    rows = {"when": [5, 6], "h": [[("a", b"b")], None]}
    client.append(rows | {"x": [1, 2]}, topic, timestamp="when", encode="json", partition=None)
    assert sorted(client.read(topic)["timestamp"].cast(pa.int64()).to_pylist()) == [5, 6]
    with pytest.raises(ValueError, match="no column 'w' for timestamp: there are"):
        client.append(rows, topic, timestamp="w", encode="json")


def test_what_json_does_not_have() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    value = {"t": moment, "d": date(2026, 1, 2), "n": Decimal("1.50"), "b": b"\xc3\xa4"}
    assert json.loads(json_bytes(value)) == {
        "t": "2026-01-02T03:04:05+00:00", "d": "2026-01-02", "n": "1.50", "b": "ä",
    }  # fmt: skip
    assert (
        json_bytes({"a": [float("nan"), 1.5], "b": float("inf")})
        == b'{"a": [null, 1.5], "b": null}'
    )
    with pytest.raises(ValueError, match=r"b'\\xff' cannot be written as JSON: it is not UTF-8"):
        json_bytes({"b": b"\xff"})


def test_many_rows_as_json() -> None:
    assert len(as_json(pa.table({"x": range(20_000)}))) == 20_000
    assert as_json(pa.table({"x": pa.array([], pa.int64())})).to_pylist() == []


def test_columns_that_are_neither_bytes_nor_strings(client: Client, topic: str) -> None:
    said = "column 'id' for key is int64: expected bytes or strings; cast it, or append with encode"
    with pytest.raises(TypeError, match=said):
        client.append({"id": [1], "value": ["x"]}, topic, key="id")
    with pytest.raises(TypeError, match="column 'x' for value is double"):
        client.append({"x": [1.5]}, topic, value="x")
    with pytest.raises(ValueError, match=r"no column 'value': name one of .* or write whole rows"):
        client.append({"x": [1.5]}, topic)


def test_what_is_not_as_decode_says(client: Client, topic: str) -> None:
    client.append({"value": [b"fine", b"\xff"], "partition": [1, 1]}, topic, partition="partition")
    with pytest.raises(
        drumlin.Undecodable, match=f"topic '{topic}' partition 1 offset 1: the value"
    ):
        client.read(topic, decode="utf8")
    with pytest.raises(drumlin.Undecodable, match="partition 1 offset 0: the value is not JSON"):
        list(client.read_batches(topic, decode="json"))
    with pytest.raises(drumlin.Undecodable, match="row 0: the value is not JSON"):
        client.read(topic, decode="json", columns=["value"])
    assert client.read(topic, decode="utf8", columns=["key", "offset"])["key"].null_count == 2
    client.append({"value": [b"[" * 100_000], "partition": [1]}, topic, partition="partition")
    with pytest.raises(drumlin.Undecodable, match="partition 1 offset 2: the value is not JSON"):
        client.read(topic, [1], start={1: 2}, decode="json")


def test_values_of_different_kinds(client: Client, topic: str) -> None:
    client.append({"value": ['{"a": 1}', "[1]"]}, topic, partition=lambda _, __: [0, 0])
    with pytest.raises(
        drumlin.Undecodable, match=r'fit into no column .* read them with decode="utf8"'
    ):
        client.read(topic, decode="json")


def test_an_empty_topic(client: Client, topic: str) -> None:
    assert client.read(topic, decode="utf8").schema.field("value").type == pa.string()
    assert client.read(topic, decode="json").num_rows == 0


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_a_consumer_decodes(group_client: Client, group_topic: str, delivery: Any) -> None:
    group_client.append([{"a": 1}, {"a": 2}, {"a": 3}], group_topic, encode="json")
    group = f"{group_topic}-{delivery}"
    with group_client.consumer(
        group_topic, group=group, decode="json", max_records=2, delivery=delivery
    ) as consumer:
        found: list[dict[str, int]] = []
        while len(found) < 3:
            batch = consumer.poll(10_000)
            if batch is not None:
                assert drumlin.topic_of(batch) == group_topic
                found += batch["value"].to_pylist()
    assert sorted(row["a"] for row in found) == [1, 2, 3]
