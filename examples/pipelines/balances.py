"""Payments into PostgreSQL: a balance for each account, every payment counted once.

The topic has the account as its key, and as value `{"amount": 250}`, in cents. What a task adds to
balances, and how far it has read, it commits in one transaction: a table `positions` has the next
offset of each partition. A task that finds records counted already leaves them out. So tasks may be
killed and repeated, and a checkpoint may be deleted at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from log_stream import read, run, source_options
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from session import parser, start_spark

BATCH_OFFSETS = 1_000_000
_COLUMNS = "partition,offset,key,value"
_REACHED = "partition long, next_offset long"
_TABLES = """
CREATE TABLE IF NOT EXISTS balances (account text PRIMARY KEY, cents bigint, payments bigint);
CREATE TABLE IF NOT EXISTS positions
    (topic text, partition int, next_offset bigint, PRIMARY KEY (topic, partition));
"""
_ADD = """
INSERT INTO balances VALUES (%s, %s, %s) ON CONFLICT (account) DO UPDATE
SET cents = balances.cents + excluded.cents, payments = balances.payments + excluded.payments
"""
#: Whoever asks second waits until the first has committed, and sees what that was.
_LOCK = "SELECT next_offset FROM positions WHERE topic = %s AND partition = %s FOR UPDATE"
_MOVE = "UPDATE positions SET next_offset = %s WHERE topic = %s AND partition = %s"


def main() -> None:
    explained = parser(
        __doc__,
        topic="of payments",
        database="postgresql://user@host/name",
        checkpoint="Spark's folder",
    )
    arguments = explained.parse_args()
    spark = start_spark("balances")
    load(spark, arguments.brokers, arguments.topic, arguments.database, arguments.checkpoint)
    spark.stop()


def load(
    spark: SparkSession,
    brokers: str,
    topic: str,
    database: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Add the payments that the database has not counted yet."""
    options = source_options(brokers, topic, position(database, topic), _COLUMNS, batch_offsets)
    stream = read(spark, brokers, topic, options)
    run(stream, checkpoint, lambda batch: count(batch, database, topic))


def position(database: str, topic: str) -> dict[int, int]:
    """The first offset of each partition that is not counted yet."""
    with psycopg.connect(database) as connection:
        connection.execute(_TABLES)
        query = "SELECT partition, next_offset FROM positions WHERE topic = %s"
        return dict(connection.execute(query, [topic]).fetchall())


def count(batch: DataFrame, database: str, topic: str) -> None:
    """Have tasks count the payments of a batch, those of one partition by one task and in order."""
    payments = batch.select(
        "partition",
        "offset",
        f.col("key").cast("string").alias("account"),
        f.get_json_object(f.col("value").cast("string"), "$.amount").cast("long").alias("amount"),
    )
    by_partition = payments.repartition("partition").sortWithinPartitions("partition", "offset")
    by_partition.mapInArrow(partial(count_payments, database, topic), _REACHED).collect()


def count_payments(
    database: str, topic: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a task does; tells how far it came."""
    with psycopg.connect(database) as connection:
        for batch in batches:
            for number in batch["partition"].unique().to_pylist():
                rows = batch.filter(pc.equal(batch["partition"], number))
                with connection.transaction():
                    reached = _count(connection, topic, number, rows)
                yield pa.record_batch([[number], [reached]], ["partition", "next_offset"])


def _count(connection: psycopg.Connection, topic: str, partition: int, rows: pa.RecordBatch) -> int:
    """Add the payments of a partition, and move its position; gives where it is."""
    start = "INSERT INTO positions VALUES (%s, %s, 0) ON CONFLICT DO NOTHING"
    connection.execute(start, [topic, partition])
    found = connection.execute(_LOCK, [topic, partition]).fetchone()
    assert found is not None
    fresh = rows.filter(pc.greater_equal(rows["offset"], found[0]))
    if not fresh.num_rows:
        return int(found[0])
    cents: Counter[str] = Counter()
    payments: Counter[str] = Counter()
    for account, amount in zip(
        fresh["account"].to_pylist(), fresh["amount"].to_pylist(), strict=True
    ):
        if account is not None and amount is not None:
            cents[account] += amount
            payments[account] += 1
    with connection.cursor() as cursor:
        # In one order everywhere: two tasks would else wait for each other's accounts for ever.
        cursor.executemany(_ADD, [(each, cents[each], payments[each]) for each in sorted(cents)])
    reached = fresh["offset"][-1].as_py() + 1
    connection.execute(_MOVE, [reached, topic, partition])
    return int(reached)


if __name__ == "__main__":
    main()
