"""What Spark reads with the rights that docs/security.md lists, and without one of them.

What it writes is in `writing/test_rights.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from drumlin.spark import changes, snapshot
from rig.data.secured_listeners import PASSWORD, Secured
from rig.documents.task_rights import naming, placed
from rig.servers.rights import granted
from security.rights.test_task_rights import Names, needed, prepared
from spark.state.test_change_stream import PROVIDER, ROCKS_DB

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.deep]

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
#: Runs a task, and returns how many rows it has read.
Task = Callable[[SparkSession, dict[str, str], Names, Path], int]


def batch(spark: SparkSession, options: dict[str, str], names: Names, folder: Path) -> int:
    reader = spark.read.format("drumlin").options(**options, subscribe=names["IN"])
    return reader.load().count()


def stream(spark: SparkSession, options: dict[str, str], names: Names, folder: Path) -> int:
    given = {**options, "subscribe": names["IN"], "startingOffsets": "earliest"}
    rows = spark.readStream.format("drumlin").options(**given).load()
    return _written(spark, rows.select("value"), folder)


def table(spark: SparkSession, options: dict[str, str], names: Names, folder: Path) -> int:
    return snapshot(spark, names["IN"], **_apart(options)).count()


def changed(spark: SparkSession, options: dict[str, str], names: Names, folder: Path) -> int:
    return changes(spark, names["IN"], since={0: 0}, **_apart(options)).count()


def change_stream(spark: SparkSession, options: dict[str, str], names: Names, folder: Path) -> int:
    rows = changes(spark, names["IN"], stream=True, since={0: 0}, **_apart(options))
    return _written(spark, rows.select("key"), folder)


def _apart(options: dict[str, str]) -> dict[str, str]:
    """The options as keywords of functions, which take the address by its name."""
    others = dict(options)
    return {"bootstrap": others.pop("kafka.bootstrap.servers"), **others}


def _written(spark: SparkSession, rows: DataFrame, folder: Path) -> int:
    writer = rows.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.read.parquet(str(folder / "rows")).count()


@pytest.fixture
def _state_in_rocks_db(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(PROVIDER)
    spark.conf.set(PROVIDER, ROCKS_DB)
    yield
    spark.conf.set(PROVIDER, before)


@pytest.mark.usefixtures("_state_in_rocks_db")
@pytest.mark.parametrize(
    ("task", "work"),
    [
        pytest.param("read a topic", batch, id="batch"),
        pytest.param("read a topic", stream, id="stream"),
        pytest.param("the table in a topic", table, id="table"),
        pytest.param("the table in a topic", changed, id="changes"),
        pytest.param("the table in a topic", change_stream, id="stream of changes"),
    ],
)
def test_a_task_needs_what_is_listed_and_tells_what_is_missing(
    spark: SparkSession, secured: Secured, tmp_path: Path, task: str, work: Task
) -> None:
    options = {
        "kafka.bootstrap.servers": secured.addresses["login"],
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{_MODULE} required username="alice" password="{_QUOTED}";',
    }
    with prepared(secured) as (_, names):
        mine = [placed(each, names) for each in needed(task, secured)]
        with granted(secured, *mine):
            assert work(spark, options, names, tmp_path / "all") == 1
        for missing in mine:
            others = [each for each in mine if each != missing]
            folder = tmp_path / f"without {missing.operation}"
            with granted(secured, *others), pytest.raises(Exception, match=naming(missing)):
                work(spark, options, names, folder)
