"""A compacted topic kept in a Delta table: all of its keys changed, and one in a hundred of them.

Theirs is what a team writes: Spark's own Kafka connector, and in `foreachBatch` the last value of
each key merged into the table by `deltalake`: the newest jar of Delta, 4.3.1 for Spark 4.1, ends in
a NoSuchMethodError with Spark 4.3. Each has a warm session on `local[2]` in a process of its own, a
topic and a table; before each round new values are written to the topic.

`python -m bench.landings KIND ADDRESS TOPIC FOLDER` prepares, then lands what is new for every line
on standard input, and answers with the seconds that it took, and those that it computed.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import DeltaTable

from bench.brokers import Broker
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.readers import children_s, new_session
from bench.reading import Program
from drumlin.client.client import Client
from rig.jvm.spark_connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The part of the keys that is changed before a round, and what is wanted beside theirs.
ROWS: Final = {"landing_all": (1.0, 1.0), "landing_few": (0.01, 3.0)}
_KEYS: Final = 1_000_000
_PARTITIONS: Final = 4
_VALUE_BYTES: Final = 100
_AT_ONCE: Final = 100_000
_JARS: Final = "SPARK_KAFKA_JARS"
_numbers = itertools.count()


def run(options: Options, broker: Broker, client: Client) -> Iterator[Comparison]:
    """Those rows that are chosen."""
    os.environ[_JARS] = connector_jars()
    keys = round(_KEYS * options.scale)
    for row, (part, target) in ROWS.items():
        if options.rows and row not in options.rows:
            continue
        with (
            closing(_Side("drumlin", options, broker, client, keys, part)) as ours,
            closing(_Side("spark", options, broker, client, keys, part)) as theirs,
        ):
            metrics = [
                Metric("rate", "changed keys/s", target=target),
                Metric("cpu", "CPU s", higher_is_better=False),
            ]
            sides = {"drumlin.spark.land": ours.land, "connector and MERGE": theirs.land}
            yield from compare("uses", row, metrics, sides, options)


class _Side:
    """A topic and its table, which has all keys when this is made."""

    def __init__(
        self,
        kind: str,
        options: Options,
        broker: Broker,
        client: Client,
        keys: int,
        part: float,
    ) -> None:
        self._client, self._keys, self._changed = client, keys, max(1, round(keys * part))
        self._folder = options.directory / f"landed-{next(_numbers)}"
        self._topic = broker.create_topic(_PARTITIONS, **{"cleanup.policy": "compact"})
        self._values = random.Random(7)
        self._program = Program(
            "bench.landings", kind, broker.address, self._topic, str(self._folder)
        )
        self._write(range(keys))
        self._program.ask("land")

    def land(self) -> Metrics:
        self._write(self._values.sample(range(self._keys), self._changed))
        took_s, cpu_s = map(float, self._program.ask("land").split())
        table = DeltaTable(self._folder / "table")
        rows = table.count()
        if rows != self._keys:
            raise RuntimeError(f"the table has {rows} of {self._keys} keys")
        return {"rate": self._changed / took_s, "cpu": cpu_s}

    def close(self) -> None:
        self._program.close()
        self._client.delete_topic(self._topic)

    def _write(self, numbers: range | list[int]) -> None:
        for start in range(0, len(numbers), _AT_ONCE):
            piece = numbers[start : start + _AT_ONCE]
            values = [self._values.randbytes(_VALUE_BYTES) for _ in piece]
            rows = {"key": [b"user-%d" % number for number in piece], "value": pa.array(values)}
            self._client.append(pa.table(rows), self._topic)


def _ours(session: SparkSession, address: str, topic: str, folder: Path) -> Callable[[], None]:
    from drumlin.spark import land

    def once() -> None:
        land(session, topic, f"delta:{folder}/table", bootstrap=address, mode="upsert")

    return once


def _theirs(session: SparkSession, address: str, topic: str, folder: Path) -> Callable[[], None]:
    from pyspark.sql import functions as f

    table = f"{folder}/table"
    schema = pa.schema({"key": pa.binary(), "value": pa.binary(), "offset": pa.int64()})
    DeltaTable.create(table, schema)

    def merge(batch: DataFrame, _: int) -> None:
        last = f.max_by(f.struct("value", "offset"), "offset").alias("last")
        latest = batch.groupBy("key").agg(last).select("key", "last.value", "last.offset")
        merger = DeltaTable(table).merge(
            latest.toArrow(), "old.key = new.key", source_alias="new", target_alias="old"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def once() -> None:
        stream = session.readStream.format("kafka").option("kafka.bootstrap.servers", address)
        stream = stream.option("subscribe", topic).option("startingOffsets", "earliest")
        writer = stream.load().writeStream.foreachBatch(merge).trigger(availableNow=True)
        writer.option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()

    return once


def main() -> None:
    kind, address, topic, folder = sys.argv[1:]
    session = new_session(os.environ[_JARS])
    session.conf.set("spark.sql.shuffle.partitions", "4")
    begin = {"drumlin": _ours, "spark": _theirs}[kind]
    land = begin(session, address, topic, Path(folder))
    print("ready", flush=True)
    for _ in sys.stdin:
        begun_s, begun_cpu_s = time.perf_counter(), time.process_time() + sum(children_s())
        land()
        cpu_s = time.process_time() + sum(children_s()) - begun_cpu_s
        print(time.perf_counter() - begun_s, cpu_s, flush=True)


if __name__ == "__main__":
    main()
