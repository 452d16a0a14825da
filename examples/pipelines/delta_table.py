"""A keyed topic as a Delta table: the last value of each key, which is null if it is deleted.

Each micro-batch is merged by key in one commit, which also says how far it reaches: in Delta's own
way, as the version of an application's transaction, one for each partition. Delta refuses a commit
if another one has said so meanwhile. So a checkpoint may be deleted at any time, and of two runs at
once one fails. The table's description says which topic it is of.

Within a partition offsets say what is last. A key is in several partitions if the topic was given
more of them: then the latest timestamp decides, as nothing else says what came first. For that a
deleted key keeps its row, without a value: an older record of another partition may still come.

The package `deltalake` writes the table: no jar, and no Spark session that is set up for Delta.
Spark reduces a batch to the last record of each key; the merge itself runs in the driver, on all
of its cores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from log_stream import Source, beyond, check, look_up, read, run, source_options
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from session import Cluster, cluster_of, parser, start_spark

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


#: The records of one partition come in order. Of two partitions, the later record counts.
_IS_LATER = """
new.partition = old.partition OR new.timestamp > old.timestamp
OR (new.timestamp = old.timestamp AND new.partition > old.partition)
"""


def main() -> None:
    explained = parser(__doc__, topic="what to load", table="where to", checkpoint="Spark's folder")
    arguments = explained.parse_args()
    spark = start_spark("delta-table")
    load(spark, cluster_of(arguments), arguments.topic, arguments.table, arguments.checkpoint)
    spark.stop()


def load(
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    url: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Merge what the topic has and the table has not; a commit for each micro-batch."""
    source = look_up(cluster, topic)
    table = open_table(url, source)
    reached = position(table, topic, source.partitions)
    options = source_options(source, reached, _COLUMNS, batch_offsets)
    stream = read(spark, cluster, topic, options)
    run(stream, checkpoint, lambda batch: merge(beyond(batch, reached), table, topic))


def open_table(url: str, source: Source) -> DeltaTable:
    """The table of this topic, new or as it is.

    Raises:
        OtherTopic: it is of another topic.
    """
    told = json.dumps({"topic": source.topic, "topic_id": source.topic_id})
    table = DeltaTable.create(url, _SCHEMA, mode="ignore", description=told)
    found = json.loads(table.metadata().description or "{}")
    advice = "A table is of one topic: load this one into a new table."
    check(f"the table {url}", found.get("topic"), found.get("topic_id"), source, advice)
    return table


def position(table: DeltaTable, topic: str, partitions: Sequence[int]) -> dict[int, int]:
    """The first offset of each partition that the table does not hold yet."""
    reached = {each: table.transaction_version(_application(topic, each)) for each in partitions}
    return {partition: offset for partition, offset in reached.items() if offset is not None}


def merge(batch: DataFrame, table: DeltaTable, topic: str) -> None:
    """Commit the batch: its values replace those of the same keys, its tombstones too."""
    last = f.max_by(f.struct("value", "offset", "timestamp"), "offset").alias("last")
    keyed = batch.where("key IS NOT NULL").groupBy("key", "partition").agg(last)
    found = keyed.select("key", "last.value", "partition", "last.offset", "last.timestamp")
    records = found.toArrow().cast(_SCHEMA)
    if not records.num_rows:
        return
    # The last record of a partition is the last of its key: these tell how far the batch reaches.
    ends = records.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    reached = [
        Transaction(_application(topic, each["partition"]), each["offset_max"] + 1) for each in ends
    ]
    (
        table.merge(
            latest(records),
            predicate="old.key = new.key",
            source_alias="new",
            target_alias="old",
            commit_properties=CommitProperties(app_transactions=reached),
        )
        .when_matched_update_all(_IS_LATER)
        .when_not_matched_insert_all()
        .execute()
    )


def latest(records: pa.Table) -> pa.Table:
    """Of each key the record of the latest time; there is one for each partition that has it."""
    in_order = records.sort_by([("timestamp", "ascending"), ("partition", "ascending")])
    numbered = in_order.append_column("row", pa.array(np.arange(len(in_order))))
    return in_order.take(numbered.group_by("key").aggregate([("row", "max")])["row_max"])


def _application(topic: str, partition: int) -> str:
    return f"drumlin/{topic}/{partition}"


if __name__ == "__main__":
    main()
