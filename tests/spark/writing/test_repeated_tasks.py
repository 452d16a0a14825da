"""Tasks that Spark runs more than once, in ways that their messages do not tell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from drumlin.client.client import connect
from rig.jvm.java import spark_environment
from rig.waiting import wait_until
from spark.topics import Topic

pytestmark = pytest.mark.spark

NewTopic = Callable[[int], Topic]


def losing_its_shuffle(folder: str, address: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Rows as they are. In batch 1 the first task deletes what the others are to fetch.

    It continues when it was run again in the repeated stage, so that its own end is denied. The
    last task waits until both of them, and all others, have transactions.
    """

    def lose(batches: Iterator[Any]) -> Iterator[Any]:
        import os
        import time
        from pathlib import Path

        from pyspark import TaskContext

        from drumlin.client.client import connect

        def wait(until: Callable[[], bool]) -> None:
            deadline = time.monotonic() + 120
            while not until():
                assert time.monotonic() < deadline, "this takes too long"
                time.sleep(0.05)

        def are_all_open() -> bool:
            begun = [*Path(folder).glob("rows-*")]
            twice = [*Path(folder).glob("rows-0-*")]
            with connect(address) as client:
                listed = client.list_transactions(states=["Ongoing"])
            return len(twice) == 2 and len(listed) >= len(begun)

        rows = list(batches)
        context = TaskContext.get()
        assert context is not None
        if context.getLocalProperty("streaming.sql.batchId") == "1":
            partition = context.partitionId()
            first, last = Path(folder, "first"), Path(folder, "last")
            if partition == 0 and not first.exists():
                first.touch()
                for shuffle in os.environ["SPARK_LOCAL_DIRS"].split(","):
                    for file in Path(shuffle).rglob("shuffle_*"):
                        file.unlink(missing_ok=True)
                wait(last.exists)
            elif partition == 3:
                last.touch()
                wait(are_all_open)
            if partition != 3 and any(each.num_rows for each in rows):
                Path(folder, f"rows-{partition}-{context.taskAttemptId()}").touch()
        yield from rows

    return lose


@pytest.mark.deep
def test_a_stage_that_is_repeated_leaves_nothing_open(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, target = new_topic(2), new_topic(2)
    source.fill(200)
    marks = tmp_path / "marks"
    marks.mkdir()
    lose = losing_its_shuffle(str(marks), source.address)
    options = source.options(maxOffsetsPerTrigger=100, startingOffsets="earliest")
    rows = spark.readStream.format("drumlin").options(**options).load().select("key", "value")
    rows = rows.repartition(4, col("value")).mapInArrow(lose, rows.schema)
    query = (
        rows.writeStream.format("drumlin")
        .options(**{"kafka.bootstrap.servers": target.address, "topic": target.name})
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    assert query.exception() is None
    assert len(list(marks.glob("rows-0-*"))) == 2
    with connect(target.address) as client:

        def is_any_open() -> bool:
            listed = client.list_transactions(states=["Ongoing"])
            return any(each.transactional_id.startswith(f"drumlin.{query.id}") for each in listed)

        wait_until(lambda: not is_any_open(), "what both attempts have left to be ended")
        found = client.read(target.name, isolation="read_committed")["value"].to_pylist()
    assert sorted(found) == sorted(each[2] for each in source.produced)


#: A sink that tells what its tasks see; what is defined here goes to workers by value.
_TELLING = """
from pyspark.sql.datasource import WriterCommitMessage
from drumlin.spark.source import DrumlinDataSource
from drumlin.spark.writing.writers import BatchWriter, StreamWriter

class Seen(WriterCommitMessage):
    def __init__(self, has_twins):
        self.has_twins = has_twins

class Telling:
    path = ""

    def write(self, iterator):
        list(iterator)
        return Seen(self._task_identity().has_twins)

    def _commit(self, messages, batch):
        with open(self.path, "a") as file:
            print(type(self).__name__, {each.has_twins for each in messages}, file=file)

class Batches(Telling, BatchWriter):
    pass

class Streams(Telling, StreamWriter):
    pass

class Source(DrumlinDataSource):
    @classmethod
    def name(cls):
        return "telling"

    def writer(self, schema, overwrite):
        return self.telling(DrumlinDataSource.writer(self, schema, overwrite), Batches)

    def streamWriter(self, schema, overwrite):
        return self.telling(DrumlinDataSource.streamWriter(self, schema, overwrite), Streams)

    def telling(self, writer, kind):
        writer.__class__ = kind
        writer.path = self.options["path"]
        return writer

spark.dataSource.register(Source)
options = {"kafka.bootstrap.servers": "nobody:1", "topic": "none", "path": told}
rows = spark.range(2).selectExpr("string(id) AS value")
rows.write.format("telling").options(**options).mode("append").save()
stream = spark.readStream.text(texts)

def by_hand(frame, batch):
    frame.write.format("telling").options(**options).mode("append").save()

for writer in (
    stream.writeStream.format("telling").options(**options),
    stream.writeStream.foreachBatch(by_hand),
):
    folder = told + str(id(writer))
    query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
    query.awaitTermination()
"""


_SPECULATING = """
import sys
from pyspark.sql import SparkSession
from drumlin.spark.java import ensure_java

ensure_java()
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.speculation", sys.argv[1].lower()).getOrCreate()
told, texts = sys.argv[2:]
"""


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Two rows for a stream."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "one").write_text("a\nb\n")
    return folder


def check(told: Path, speculation: bool) -> None:
    found = f"{{{speculation}}}"
    assert told.read_text().split("\n")[:-1] == [
        f"Batches {found}",
        f"Streams {found}",
        f"Batches {found}",
    ]


@pytest.mark.deep
@pytest.mark.parametrize("speculation", [True, False])
def test_tasks_see_whether_they_may_have_twins(
    tmp_path: Path, texts: Path, speculation: bool
) -> None:
    told, program = tmp_path / "told", _SPECULATING + _TELLING
    arguments = [sys.executable, "-c", program, str(speculation), str(told), str(texts)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable} | spark_environment()
    subprocess.run(arguments, env=environment, check=True, timeout=180)
    check(told, speculation)


@pytest.mark.deep
@pytest.mark.parametrize("speculation", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_tasks_see_what_their_session_says_of_twins(
    spark: SparkSession, tmp_path: Path, texts: Path, speculation: bool
) -> None:
    """The same in a session that is there; Spark sets this with its start, as above."""
    told = tmp_path / "told"
    names = {"__name__": "__main__", "spark": spark, "told": str(told), "texts": str(texts)}
    settings = {
        "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false",
        "spark.speculation": str(speculation).lower(),
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        exec(_TELLING, names)
    finally:
        for name in reversed(settings):
            spark.conf.unset(name)
    check(told, speculation)
