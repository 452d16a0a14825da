"""Payments into PostgreSQL: a balance for each account, every payment counted once.

The topic has the account as its key, and as value `{"amount": 250}`, in cents. What a task adds to
balances, and how far it has read, it commits in one transaction: a table `positions` has the next
offset of each partition. A task that finds records counted already leaves them out. So tasks may be
killed and repeated, and a checkpoint may be deleted at any time.

A record that is no payment holds up nobody: it goes into the table `refused`, with its bytes and
the reason, in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from log_stream import Source, check, look_up, read, run, source_options
from pyspark.sql import DataFrame, SparkSession
from session import Cluster, cluster_of, parser, start_spark

from drumlin.spark import decode_values

BATCH_OFFSETS = 1_000_000
_COLUMNS = "partition,offset,key,value"
_REACHED = "partition long, next_offset long"
_TABLES = """
CREATE TABLE IF NOT EXISTS balances (account text PRIMARY KEY, cents numeric, payments bigint);
CREATE TABLE IF NOT EXISTS positions
    (topic text, topic_id text, partition int, next_offset bigint, PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS refused
    (topic text, topic_id text, partition int, "offset" bigint, key bytea, value bytea, error text);
"""
#: To make tables takes rights, even where they are there.
_ARE_MISSING = "SELECT to_regclass('refused') IS NULL"
_ADD = """
INSERT INTO balances VALUES (%s, %s, %s) ON CONFLICT (account) DO UPDATE
SET cents = balances.cents + excluded.cents, payments = balances.payments + excluded.payments
"""
#: Whoever asks second waits until the first has committed, and sees what that was.
_LOCK = "SELECT next_offset, topic_id FROM positions WHERE topic = %s AND partition = %s FOR UPDATE"
_REFUSE = "INSERT INTO refused VALUES (%s, %s, %s, %s, %s, %s, %s)"
_MOVE = "UPDATE positions SET next_offset = %s WHERE topic = %s AND partition = %s"
#: An index of PostgreSQL takes no longer text.
_ACCOUNT_BYTES = 2000

#: A topic, and its id.
Topic = tuple[str, str]


def main() -> None:
    explained = parser(
        __doc__,
        topic="of payments",
        database="postgresql://user@host/name",
        checkpoint="Spark's folder",
    )
    arguments = explained.parse_args()
    spark = start_spark("balances")
    load(spark, cluster_of(arguments), arguments.topic, arguments.database, arguments.checkpoint)
    spark.stop()


def load(
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    database: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Add the payments that the database has not counted yet."""
    source = look_up(cluster, topic)
    options = source_options(source, position(database, source), _COLUMNS, batch_offsets)
    stream = read(spark, cluster, topic, options)
    run(stream, checkpoint, lambda batch: count(batch, database, (topic, source.topic_id)))


def position(database: str, source: Source) -> dict[int, int]:
    """The first offset of each partition that is not counted yet.

    Raises:
        OtherTopic: another topic of this name was counted.
    """
    with psycopg.connect(database) as connection:
        if connection.execute(_ARE_MISSING).fetchone() == (True,):
            connection.execute(_TABLES)
        query = "SELECT partition, next_offset, topic_id FROM positions WHERE topic = %s"
        found = connection.execute(query, [source.topic]).fetchall()
    advice = "To count it besides what is counted, delete the rows of its name from `positions`."
    for _, _, topic_id in found:
        check("the table of positions", source.topic, topic_id, source, advice)
    return {partition: offset for partition, offset, _ in found}


def count(batch: DataFrame, database: str, topic: Topic) -> None:
    """Have tasks count the payments of a batch, those of one partition by one task and in order."""
    decoded = decode_values(batch, "amount long", into="payment", bad_records="column")
    payments = decoded.select("partition", "offset", "key", "value", "payment.amount", "error")
    by_partition = payments.repartition("partition").sortWithinPartitions("partition", "offset")
    by_partition.mapInArrow(partial(count_payments, database, topic), _REACHED).collect()


def count_payments(
    database: str, topic: Topic, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a task does; tells how far it came."""
    with psycopg.connect(database) as connection:
        for batch in batches:
            for number in batch["partition"].unique().to_pylist():
                rows = batch.filter(pc.equal(batch["partition"], number))
                with connection.transaction():
                    reached = _count(connection, topic, number, rows)
                yield pa.record_batch([[number], [reached]], ["partition", "next_offset"])


def _count(
    connection: psycopg.Connection, topic: Topic, partition: int, rows: pa.RecordBatch
) -> int:
    """Add the payments of a partition, and move its position; gives where it is."""
    name, topic_id = topic
    start = "INSERT INTO positions VALUES (%s, %s, %s, 0) ON CONFLICT DO NOTHING"
    connection.execute(start, [name, topic_id, partition])
    found = connection.execute(_LOCK, [name, partition]).fetchone()
    assert found is not None
    if found[1] != topic_id:
        raise RuntimeError(f"{name} was created again while it was counted: {found[1]}, {topic_id}")
    fresh = rows.filter(pc.greater_equal(rows["offset"], found[0]))
    if not fresh.num_rows:
        return int(found[0])
    cents: Counter[str] = Counter()
    payments: Counter[str] = Counter()
    refused = []
    for row in fresh.to_pylist():
        account, amount, error = _account(row["key"]), row["amount"], row["error"]
        if account is None or amount is None:
            why = error or ("the key is no account" if account is None else "there is no amount")
            place = (name, topic_id, partition, row["offset"])
            refused.append((*place, row["key"], row["value"], why.replace("\0", "")))
            continue
        cents[account] += amount
        payments[account] += 1
    with connection.cursor() as cursor:
        cursor.executemany(_REFUSE, refused)
        # In one order everywhere: two tasks would else wait for each other's accounts for ever.
        cursor.executemany(_ADD, [(each, cents[each], payments[each]) for each in sorted(cents)])
    reached = fresh["offset"][-1].as_py() + 1
    connection.execute(_MOVE, [reached, name, partition])
    return int(reached)


def _account(key: bytes | None) -> str | None:
    """The key as PostgreSQL can hold it; None if it cannot."""
    if key is None or len(key) > _ACCOUNT_BYTES or b"\0" in key:
        return None
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


if __name__ == "__main__":
    main()
