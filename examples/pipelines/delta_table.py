"""A keyed topic as a Delta table: the last value of each key, and no row for a deleted one.

Each micro-batch is merged by key in one commit, which also says how far it reaches: in Delta's own
way, as the version of an application's transaction, one for each partition. Delta refuses a commit
if another one has said so meanwhile. So a checkpoint may be deleted at any time, and of two runs at
once one fails.

The package `deltalake` writes the table: no jar, and no Spark session that is set up for Delta.
Spark reduces a batch to the last record of each key; the merge itself runs in the driver, on all
of its cores.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from log_stream import beyond, read, run, source_options
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from session import parser, start_spark

import drumlin

BATCH_OFFSETS = 1_000_000
_COLUMNS = "partition,offset,timestamp,key,value"
_SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
)


def main() -> None:
    explained = parser(__doc__, topic="what to load", table="where to", checkpoint="Spark's folder")
    arguments = explained.parse_args()
    spark = start_spark("delta-table")
    load(spark, arguments.brokers, arguments.topic, arguments.table, arguments.checkpoint)
    spark.stop()


def load(
    spark: SparkSession,
    brokers: str,
    topic: str,
    url: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Merge what the topic has and the table has not; a commit for each micro-batch."""
    table = DeltaTable.create(url, _SCHEMA, mode="ignore")
    with drumlin.connect(brokers) as client:
        partitions = client.partitions(topic)
    reached = position(table, topic, partitions)
    options = source_options(brokers, topic, reached, _COLUMNS, batch_offsets)
    stream = read(spark, brokers, topic, options)
    run(stream, checkpoint, lambda batch: merge(beyond(batch, reached), table, topic))


def position(table: DeltaTable, topic: str, partitions: list[int]) -> dict[int, int]:
    """The first offset of each partition that the table does not hold yet."""
    reached = {each: table.transaction_version(_application(topic, each)) for each in partitions}
    return {partition: offset for partition, offset in reached.items() if offset is not None}


def merge(batch: DataFrame, table: DeltaTable, topic: str) -> None:
    """Commit the batch: its values replace those of the same keys, its tombstones delete."""
    last = f.max_by(f.struct("value", "partition", "offset", "timestamp"), "offset").alias("last")
    keyed = batch.where("key IS NOT NULL").groupBy("key").agg(last).select("key", "last.*")
    changes = keyed.toArrow().cast(_SCHEMA)
    if not changes.num_rows:
        return
    # The last record of a partition is the last of its key: these tell how far the batch reaches.
    ends = changes.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    reached = [
        Transaction(_application(topic, each["partition"]), each["offset_max"] + 1) for each in ends
    ]
    (
        table.merge(
            changes,
            predicate="old.key = new.key",
            source_alias="new",
            target_alias="old",
            commit_properties=CommitProperties(app_transactions=reached),
        )
        .when_matched_delete("new.value IS NULL")
        .when_matched_update_all()
        .when_not_matched_insert_all("new.value IS NOT NULL")
        .execute()
    )


def _application(topic: str, partition: int) -> str:
    return f"drumlin/{topic}/{partition}"


if __name__ == "__main__":
    main()
