"""Totals are those of all payments, and each change is written once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
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


@pytest.fixture(scope="module")
def program(pipeline: Callable[[str], ModuleType]) -> ModuleType:
    return pipeline("totals")


def _pay(client: Client, topic: str, numbers: range) -> None:
    keys = [f"account-{number % 5}" for number in numbers]
    values = [json.dumps({"amount": number}) for number in numbers]
    client.append(pa.table({"key": keys, "value": values}), topic)


def _written(client: Client, topic: str) -> list[tuple[str, Any]]:
    table = client.read(topic, isolation="read_committed", decode="utf8", columns=["key", "value"])
    values = map(json.loads, table["value"].to_pylist())
    return list(zip(table["key"].to_pylist(), values, strict=True))


@pytest.mark.deep
def test_each_change_is_written_once(
    program: ModuleType,
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    cluster: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payments, target = new_topic(), new_topic(1)
    checkpoint = str(tmp_path / "checkpoint")

    refused = new_topic(1)

    def run() -> None:
        program.keep(spark, cluster, payments, target, refused, checkpoint)

    bad = {"key": ["account-0", "b", "c"], "value": ['{"amount": "ten"}', "no json", '{"a": 1}']}
    client.append(pa.table(bad), payments)
    _pay(client, payments, range(50))
    with monkeypatch.context() as patched:
        patched.setattr(program, "read", killed_while_reading(program.read, tmp_path / "killed"))
        run()
    assert (tmp_path / "killed").exists()
    _pay(client, payments, range(50, 53))
    run()
    run()
    written = _written(client, target)
    # All five accounts, and then the three that have changed.
    assert Counter(key for key, _ in written[5:]) == Counter(f"account-{n}" for n in (0, 1, 2))
    assert dict(written) == {
        f"account-{each}": {
            "cents": sum(range(each, 53, 5)),
            "payments": len(range(each, 53, 5)),
        }
        for each in range(5)
    }
    letters = client.read(refused, isolation="read_committed", decode="utf8")
    assert sorted(letters["key"].to_pylist()) == bad["key"]
    assert sorted(letters["value"].to_pylist()) == sorted(bad["value"])
    shutil.rmtree(checkpoint)
    with pytest.raises(StreamingQueryException, match="belongs to query"):
        run()
    assert _written(client, target) == written


@pytest.mark.deep
def test_a_driver_that_dies_after_its_write_writes_nothing_twice(
    program: ModuleType,
    spark: SparkSession,
    client: Client,
    new_topic: NewTopic,
    cluster: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state goes on from the checkpoint; the batch is repeated, and not written again."""
    payments, target = new_topic(), new_topic(1)
    checkpoint = str(tmp_path / "checkpoint")
    arguments = (spark, cluster, payments, target, new_topic(1), checkpoint)
    sink = program.sink

    def dying(*arguments: Any, **options: Any) -> Any:
        write = sink(*arguments, **options)

        def then_die(batch: Any, number: int) -> None:
            write(batch, number)
            raise OSError("the driver has died")

        return then_die

    _pay(client, payments, range(20))
    with monkeypatch.context() as patched:
        patched.setattr(program, "sink", dying)
        with pytest.raises(StreamingQueryException, match="the driver has died"):
            program.keep(*arguments)
    written = _written(client, target)
    assert len(written) == 5
    program.keep(*arguments)
    assert _written(client, target) == written
