"""The programs that `columns` and `spark` measure, each in a process of its own.

`python -m bench.readers KIND ADDRESS TOPIC RECORDS`: prepares, then reads the whole topic once
for every line on standard input and answers each with the seconds that it took and those that
this process computed. A process that stays alive can be asked in turns with its rival, while
both are warm.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

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


def _spark(
    address: str, topic: str, source: str, jars: str = "", register: type[DataSource] | None = None
) -> Read:
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
    session = builder.getOrCreate()
    if register is not None:
        session.dataSource.register(register)

    def read() -> int:
        frame = (
            session.read.format(source)
            .option("kafka.bootstrap.servers", address)
            .option("subscribe", topic)
            .load()
        )
        # Every column that a query is likely to want is looked at.
        row = frame.selectExpr(
            "count(*) as records", "sum(length(value))", "max(offset)", "max(timestamp)"
        ).first()
        return int(row["records"])

    return read


def spark_drumlin(address: str, topic: str) -> Read:
    """`spark.read.format("drumlin")`."""
    return _spark(address, topic, "drumlin")


def spark_kafka(address: str, topic: str) -> Read:
    """`spark.read.format("kafka")`, with the jars that SPARK_KAFKA_JARS names."""
    return _spark(address, topic, "kafka", os.environ["SPARK_KAFKA_JARS"])


def spark_prebuilt(address: str, topic: str) -> Read:
    """Batches that lie ready; the topic is "RECORDSxBYTES". See `prebuilt`."""
    from bench.prebuilt import PrebuiltSource

    return _spark(address, topic, "prebuilt", register=PrebuiltSource)


READERS = {
    "drumlin": drumlin_columns,
    "confluent": confluent,
    "spark-drumlin": spark_drumlin,
    "spark-kafka": spark_kafka,
    "spark-prebuilt": spark_prebuilt,
}


def main() -> None:
    kind, address, topic, records = sys.argv[1:]
    read = READERS[kind](address, topic)
    print("ready", flush=True)
    for _ in sys.stdin:
        started, cpu_before = time.perf_counter(), time.process_time()
        count = read()
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_before
        if count != int(records):
            raise SystemExit(f"{kind} read {count} of {records} records")
        print(seconds, cpu_seconds, flush=True)


if __name__ == "__main__":
    main()
