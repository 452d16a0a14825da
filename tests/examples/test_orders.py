"""Each order is written once, with the customer that was there when it was read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from drumlin.client.client import Client
from examples.conftest import NewTopic
from examples.killing import killed_while_reading

pytestmark = pytest.mark.spark


def _write(client: Client, topic: str, rows: dict[str, Any]) -> None:
    values = [None if value is None else json.dumps(value) for value in rows.values()]
    client.append(pa.table({"key": list(rows), "value": pa.array(values, pa.string())}), topic)


def _written(client: Client, topic: str) -> list[tuple[str, Any, Any]]:
    table = client.read(topic, isolation="read_committed", decode="utf8", columns=["key", "value"])
    values = map(json.loads, table["value"].to_pylist())
    return [
        (key, json.loads(value["order"]), value["customer"] and value["customer"]["city"])
        for key, value in zip(table["key"].to_pylist(), values, strict=True)
    ]


@pytest.mark.deep
def test_orders_find_their_customers(
    pipeline: Callable[[str], ModuleType],
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    cluster: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = pipeline("orders")
    orders, target = new_topic(), new_topic(1)
    customers = new_topic(cleanup_policy="compact")
    checkpoint = str(tmp_path / "checkpoint")

    def run() -> None:
        program.enrich(spark, cluster, orders, customers, target, checkpoint)

    _write(client, customers, {"7": {"name": "Ada", "city": "London"}, "8": {"name": "Kurt"}})
    _write(client, orders, {"7": {"item": "tea"}, "8": {"item": "ink"}, "9": {"item": "milk"}})
    with monkeypatch.context() as patched:
        patched.setattr(program, "read", killed_while_reading(program.read, tmp_path / "killed"))
        run()
    assert (tmp_path / "killed").exists()
    first = [("7", {"item": "tea"}, "London"), ("8", {"item": "ink"}, None)]
    first.append(("9", {"item": "milk"}, None))
    assert sorted(_written(client, target)) == first

    _write(client, customers, {"7": {"name": "Ada", "city": "Paris"}, "8": None})
    # Ada's key is in both partitions now, as it is when a topic was given more.
    value = json.dumps({"name": "Ada", "city": "Oslo"})
    for number in (0, 1):
        client.append({"key": ["7"], "value": [value]}, customers, partition=lambda *_: [number])  # noqa: B023
    _write(client, customers, {"7": {"name": "Ada", "city": "Paris"}})
    _write(client, orders, {"7": {"item": "salt"}, "8": {"item": "oil"}})
    _die_after_the_write(program, monkeypatch, run)
    _write(client, customers, {"7": {"name": "Ada", "city": "Rome"}})
    run()  # what was written stays, though the customer has moved since
    written = [*first, ("7", {"item": "salt"}, "Paris"), ("8", {"item": "oil"}, None)]
    assert sorted(_written(client, target), key=str) == sorted(written, key=str)


def _die_after_the_write(
    program: ModuleType, monkeypatch: pytest.MonkeyPatch, run: Callable[[], None]
) -> None:
    sink = program.sink

    def dying(*arguments: Any, **options: Any) -> Any:
        write = sink(*arguments, **options)

        def then_die(batch: Any, number: int) -> None:
            write(batch, number)
            raise OSError("the driver has died")

        return then_die

    with monkeypatch.context() as patched:
        patched.setattr(program, "sink", dying)
        with pytest.raises(StreamingQueryException, match="the driver has died"):
            run()
