"""The programs that `spark_write` measures, each in a process of its own.

`python -m bench.writers KIND ADDRESS SHAPE` prepares, then writes for every line on standard
input, which names the topic, and answers with the seconds that it took, those that Java and Python
below it computed, and the largest memory of a Python worker, in bytes. Both sides are handed the
same rows: a cached frame of key and value, or micro-batches of Spark's own source of numbers.
"""

from __future__ import annotations

import json
import operator
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.readers import children_s, new_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Writes to a topic; seconds.
Write = Callable[[str], float]
_now = time.perf_counter
_DIGEST_LETTERS = 128
_KEY_BYTES = 10
_FIRST_BATCHES = 5
_BATCH_ROWS = 1000
_PATIENCE_S = 600


class Shape(NamedTuple):
    """What is written: `rows` of `record_bytes`, by this many tasks or micro-batches."""

    rows: int
    record_bytes: int
    tasks: int
    options: Mapping[str, str]
    batches: int = 0

    def as_text(self) -> str:
        return json.dumps(self)

    @classmethod
    def from_text(cls, text: str) -> Shape:
        return cls(*json.loads(text))


def _frame(session: SparkSession, shape: Shape) -> DataFrame:
    """Rows that differ, and that a codec makes about half of; in memory."""
    letters = max(1, shape.record_bytes - _KEY_BYTES)
    digests = [f"sha2(concat(id, '-{n}'), 512)" for n in range(-(-letters // _DIGEST_LETTERS))]
    frame = session.range(0, shape.rows, 1, shape.tasks).selectExpr(
        f"cast(lpad(id, {_KEY_BYTES}, '0') AS binary) AS key",
        f"cast(substring(concat({', '.join(digests)}), 1, {letters}) AS binary) AS value",
    )
    frame.persist().count()
    return frame


def _write_frame(source: str, address: str, shape: Shape) -> Write:
    session = new_session(os.environ["SPARK_KAFKA_JARS"])
    frame = _frame(session, shape)
    _register(session, source)

    def write(topic: str) -> float:
        started = _now()
        writer = frame.write.format(source).mode("append").options(**shape.options)
        writer.option("kafka.bootstrap.servers", address).option("topic", topic).save()
        return _now() - started

    return write


def _write_batches(source: str, address: str, shape: Shape) -> Write:
    """A stream of micro-batches of 1,000 rows; the median of their times, as Spark tells them."""
    session = new_session(os.environ["SPARK_KAFKA_JARS"])
    _register(session, source)
    wanted = _FIRST_BATCHES + shape.batches
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", str(2 * wanted))

    def write(topic: str) -> float:
        numbers = session.readStream.format("rate-micro-batch")
        numbers = numbers.option("rowsPerBatch", _BATCH_ROWS).option("numPartitions", shape.tasks)
        rows = numbers.load().selectExpr(
            "cast(lpad(value, 10, '0') AS binary) AS key",
            "cast(substring(sha2(cast(value AS string), 512), 1, 90) AS binary) AS value",
        )
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = rows.writeStream.format(source).options(**shape.options)
            writer = writer.option("kafka.bootstrap.servers", address).option("topic", topic)
            query = writer.option("checkpointLocation", checkpoint).start()
            deadline = _now() + _PATIENCE_S
            while len(query.recentProgress) < wanted and query.isActive and _now() < deadline:
                time.sleep(0.05)
            progress = query.recentProgress
            query.stop()
            if query.exception() is not None or len(progress) < wanted:
                raise SystemExit(f"{len(progress)} of {wanted} batches: {query.exception()}")
        times: list[float] = [each["durationMs"]["triggerExecution"] for each in progress]
        return statistics.median(times[_FIRST_BATCHES:wanted]) / 1000

    return write


def _register(session: SparkSession, source: str) -> None:
    if source == "dropping":
        from bench.dropping import DroppingSink

        session.dataSource.register(DroppingSink)


WRITERS = {
    "frame-drumlin": lambda *given: _write_frame("drumlin", *given),
    "frame-kafka": lambda *given: _write_frame("kafka", *given),
    "frame-dropping": lambda *given: _write_frame("dropping", *given),
    "batches-drumlin": lambda *given: _write_batches("drumlin", *given),
    "batches-dropping": lambda *given: _write_batches("dropping", *given),
    "batches-kafka": lambda *given: _write_batches("kafka", *given),
}


def _worker_memory() -> int:
    """The most that a Python worker of ours has had in memory so far, in bytes."""
    most = 0
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            command = path.with_name("cmdline").read_bytes()
            lines = path.read_text().splitlines()
        except OSError:  # it ended meanwhile
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        is_ours = os.getsid(int(path.parent.name)) == os.getsid(0)
        if b"pyspark.daemon" in command and is_ours and "VmHWM" in fields:
            most = max(most, int(fields["VmHWM"].split()[0]) << 10)
    return most


def main() -> None:
    kind, address, shape = sys.argv[1:]
    os.setsid()  # so that our workers are told from those of others
    write = WRITERS[kind](address, Shape.from_text(shape))
    print("ready", flush=True)
    for line in sys.stdin:
        before = children_s()
        seconds = write(line.strip())
        java, python = map(operator.sub, children_s(), before)
        print(seconds, java, python, _worker_memory(), flush=True)


if __name__ == "__main__":
    main()
