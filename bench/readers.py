"""The programs that `columns` and `spark` measure, each in a process of its own.

`python -m bench.readers KIND ADDRESS TOPIC RECORDS`: prepares, then reads the whole topic once
for every line on standard input and answers each with the seconds that it took, those that this
process computed, and those that its children did: virtual machines of Java, and other Pythons. A
process that stays alive can be asked in turns with its rival, while both are warm.
"""

from __future__ import annotations

import operator
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[[], int]  # reads everything; the number of records


def drumlin_columns(address: str, topic: str) -> Read:
    """The columnar client, into Arrow."""
    import drumlin

    client = drumlin.connect(address)

    def read() -> int:
        return sum(batch.num_rows for batch in client.read_batches(topic))

    return read


def confluent(address: str, topic: str) -> Read:
    """confluent-kafka: key, value, offset and timestamp of every record.

    Columns hold the same; building them is not even asked for. By default librdkafka pauses
    for a second whenever 100,000 records wait, which would make this a comparison of pauses.
    """
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        "bootstrap.servers": address,
        "group.id": "bench",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 1,
        "queued.min.messages": 1_000_000,
        "fetch.message.max.bytes": 8 << 20,
    }

    def read() -> int:
        consumer = Consumer(settings)
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0))
        consumer.assign([TopicPartition(topic, 0, 0)])
        count = 0
        while count < end:
            messages = consumer.consume(1000, timeout=1.0)
            for message in messages:
                message.key(), message.value(), message.offset(), message.timestamp()
            count += len(messages)
        consumer.close()
        return count

    return read


def new_session(jars: str = "") -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.log.level": "ERROR",
        **({"spark.jars": jars} if jars else {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


_QUERY = ("count(*) as records", "sum(length(value))", "max(offset)", "max(timestamp)")
_QUERY_COLUMNS = "value,offset,timestamp"
_TUNED = {"kafka.max.poll.records": "20000", "kafka.max.partition.fetch.bytes": str(4 << 20)}


def _options(address: str, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": address, "subscribe": topic}


def _query(session: SparkSession, source: str, options: dict[str, str]) -> Read:
    """Every column that a query is likely to want is looked at."""

    def read() -> int:
        frame = session.read.format(source).options(**options).load()
        row = frame.selectExpr(*_QUERY).first()
        assert row is not None  # an aggregate is one row
        return int(row["records"])

    return read


def spark_drumlin(address: str, topic: str) -> Read:
    """`spark.read.format("drumlin")`."""
    return _query(new_session(), "drumlin", _options(address, topic))


def spark_drumlin_columns(address: str, topic: str) -> Read:
    """The same, told which columns the query uses."""
    options = _options(address, topic) | {"columns": _QUERY_COLUMNS}
    return _query(new_session(), "drumlin", options)


def spark_drumlin_map(address: str, topic: str) -> Read:
    """The same query as a function over Arrow batches, of which Spark adds the results."""
    from drumlin.spark import map_batches

    session = new_session()

    def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            yield pa.table(
                {
                    "records": [batch.num_rows],
                    "bytes": [pc.sum(pc.binary_length(batch["value"])).as_py()],
                    "last": [pc.max(batch["offset"]).as_py()],
                    "youngest": [pc.max(batch["timestamp"]).as_py()],
                }
            )

    def read() -> int:
        frame = map_batches(
            session,
            topic,
            sums,
            "records long, bytes long, last long, youngest timestamp",
            bootstrap=address,
            columns=_QUERY_COLUMNS,
        )
        row = frame.selectExpr(
            "sum(records) as records", "sum(bytes)", "max(last)", "max(youngest)"
        ).first()
        assert row is not None  # an aggregate is one row
        return int(row["records"])

    return read


def spark_kafka(address: str, topic: str) -> Read:
    """`spark.read.format("kafka")`, with the jars that SPARK_KAFKA_JARS names."""
    return _query(new_session(os.environ["SPARK_KAFKA_JARS"]), "kafka", _options(address, topic))


def spark_kafka_tuned(address: str, topic: str) -> Read:
    """The same, with settings that spare it most of its requests."""
    session = new_session(os.environ["SPARK_KAFKA_JARS"])
    return _query(session, "kafka", _options(address, topic) | _TUNED)


def _batches(session: SparkSession, source: str, options: dict[str, str]) -> Read:
    """The whole topic as a stream of micro-batches of 1,000 records."""
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"}

    def read() -> int:
        stream = session.readStream.format(source).options(**options, **limits).load()
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            return sum(each["numInputRows"] for each in query.recentProgress)

    return read


def batches_drumlin(address: str, topic: str) -> Read:
    """A stream of `format("drumlin")`."""
    return _batches(new_session(), "drumlin", _options(address, topic))


def batches_kafka(address: str, topic: str) -> Read:
    """A stream of `format("kafka")`."""
    return _batches(new_session(os.environ["SPARK_KAFKA_JARS"]), "kafka", _options(address, topic))


def spark_prebuilt(address: str, topic: str) -> Read:
    """Batches that lie ready; the topic is "RECORDSxBYTES". See `prebuilt`."""
    from bench.prebuilt import PrebuiltSource

    session = new_session()
    session.dataSource.register(PrebuiltSource)
    return _query(session, "prebuilt", _options(address, topic))


def batches_prebuilt(address: str, topic: str) -> Read:
    """A stream of batches that lie ready; the topic is "RECORDSxBYTES". See `prebuilt`."""
    from bench.prebuilt import PrebuiltSource

    session = new_session()
    session.dataSource.register(PrebuiltSource)
    return _batches(session, "prebuilt", _options(address, topic))


_STATE_COLUMNS = "key,value,partition,offset,timestamp"


def _state(last: Callable[[], DataFrame]) -> Read:
    """Every column of the last rows is looked at; their number."""

    def read() -> int:
        row = last().selectExpr(*_QUERY, "max(key)", "max(partition)").first()
        assert row is not None  # an aggregate is one row
        return int(row["records"])

    return read


def state_drumlin(address: str, topic: str) -> Read:
    """`drumlin.spark.snapshot`."""
    from drumlin.spark import snapshot

    session = new_session()
    columns = _STATE_COLUMNS.split(",")
    return _state(lambda: snapshot(session, topic, bootstrap=address, columns=columns))


def _kafka_records(address: str, topic: str) -> DataFrame:
    session = new_session(os.environ["SPARK_KAFKA_JARS"])
    frame = session.read.format("kafka").options(**_options(address, topic)).load()
    return frame.where("key IS NOT NULL")


def state_max_by(address: str, topic: str) -> Read:
    """`max_by` of Spark's own source, grouped by key."""
    from pyspark.sql.functions import expr

    records = _kafka_records(address, topic)

    def last() -> DataFrame:
        grouped = records.groupBy("partition", "key")
        rows = grouped.agg(expr("max_by(struct(value, offset, timestamp), offset) AS last"))
        return rows.where("last.value IS NOT NULL").select("partition", "key", "last.*")

    return _state(last)


def state_window(address: str, topic: str) -> Read:
    """The first row of a window of Spark's own source."""
    records = _kafka_records(address, topic)
    number = "row_number() OVER (PARTITION BY partition, key ORDER BY offset DESC) AS number"

    def last() -> DataFrame:
        rows = records.selectExpr(*_STATE_COLUMNS.split(","), number)
        return rows.where("number = 1 AND value IS NOT NULL")

    return _state(last)


READERS = {
    "drumlin": drumlin_columns,
    "confluent": confluent,
    "spark-drumlin": spark_drumlin,
    "spark-drumlin-columns": spark_drumlin_columns,
    "spark-drumlin-map": spark_drumlin_map,
    "spark-kafka": spark_kafka,
    "spark-kafka-tuned": spark_kafka_tuned,
    "batches-drumlin": batches_drumlin,
    "batches-kafka": batches_kafka,
    "batches-prebuilt": batches_prebuilt,
    "spark-prebuilt": spark_prebuilt,
    "state-drumlin": state_drumlin,
    "state-max-by": state_max_by,
    "state-window": state_window,
}


_now = time.perf_counter
_TICKS_PER_SECOND = 100


def children_s() -> tuple[float, float]:
    """Processor time of all processes below this one, of Java and of others, in seconds."""
    parents: dict[int, int] = {}
    spent: dict[int, tuple[bool, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        fields = rest.split()
        process_id = int(path.parent.name)
        parents[process_id] = int(fields[1])
        # A Python worker that has ended counts with the daemon that had started it.
        spent[process_id] = (name.endswith("(java"), sum(map(int, fields[11:15])))
    ours = {os.getpid()}
    while more := {each for each, parent in parents.items() if parent in ours} - ours:
        ours |= more
    totals = [0.0, 0.0]
    for process_id in ours - {os.getpid()}:
        is_java, ticks = spent[process_id]
        totals[0 if is_java else 1] += ticks / _TICKS_PER_SECOND
    return totals[0], totals[1]


def main() -> None:
    kind, address, topic, records = sys.argv[1:]
    read = READERS[kind](address, topic)
    print("ready", flush=True)
    for _ in sys.stdin:
        started, cpu_before, children_before = _now(), time.process_time(), children_s()
        count = read()
        seconds, cpu_seconds = _now() - started, time.process_time() - cpu_before
        java, python = map(operator.sub, children_s(), children_before)
        if count != int(records):
            raise SystemExit(f"{kind} read {count} of {records} records")
        print(seconds, cpu_seconds, java, python, flush=True)


if __name__ == "__main__":
    main()
