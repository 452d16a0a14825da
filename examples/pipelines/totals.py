"""A stateful aggregation from topic to topic: what each account has paid in all, exactly once.

Spark keeps the totals in its checkpoint, and with each micro-batch the sink writes those that have
changed, in transactions: a reader of committed records finds each change once. Keep the target
compacted, and it is a table of all totals.

A record that is no payment holds up nobody: it goes to a topic of dead letters, with its bytes,
where it comes from and why, in the same decision. For that the log is read twice.

Here the checkpoint holds state, and must be kept. If it is lost, the query would begin anew, and
write totals that are there; the sink knows another query by its id and refuses that.
"""

from __future__ import annotations

from log_stream import read
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from session import Cluster, cluster_of, parser, start_spark

from drumlin.spark import dead_letters, decode_values, sink

BATCH_OFFSETS = 1_000_000


def main() -> None:
    explained = parser(
        __doc__,
        topic="of payments",
        target="topic of totals",
        refused="topic of what is no payment",
        checkpoint="Spark's folder",
    )
    told = explained.parse_args()
    spark = start_spark("totals")
    keep(spark, cluster_of(told), told.topic, told.target, told.refused, told.checkpoint)
    spark.stop()


def keep(
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    target: str,
    refused: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Bring the totals up to where the topic ends now."""
    options = {
        "startingOffsets": "earliest",
        "checkpointTopicIds": "true",
        "maxOffsetsPerTrigger": str(batch_offsets),
        "kafka.isolation.level": "read_committed",
        "columns": "topic,partition,offset,timestamp,key,value,headers",
    }
    payments = decoded(read(spark, cluster, topic, options))
    changed = totals(payments).withColumn("topic", f.lit(target))
    bad = dead_letters(payments).withColumn("topic", f.lit(refused))
    query = (
        changed.unionByName(bad, allowMissingColumns=True)
        .writeStream.outputMode("update")
        .foreachBatch(sink(sinkId=f"totals.{target}", **cluster.arguments))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def decoded(records: DataFrame) -> DataFrame:
    """The records with an amount each, or with an error and their bytes."""
    found = decode_values(records, "amount long", into="payment", bad_records="column")
    why = f.when(f.col("key").isNull(), "there is no account").when(
        f.col("payment.amount").isNull(), "there is no amount"
    )
    return found.withColumns({"error": f.coalesce("error", why), "raw": f.col("value")})


def totals(payments: DataFrame) -> DataFrame:
    """For each account the sum of its payments and their number, as a record."""
    cents = f.sum(f.col("payment.amount").cast("decimal(38, 0)"))  # which no sum exceeds
    return (
        payments.where("error IS NULL")
        .groupBy("key")
        .agg(cents.alias("cents"), f.count("*").alias("payments"))
        .select("key", f.to_json(f.struct("cents", "payments")).cast("binary").alias("value"))
    )


if __name__ == "__main__":
    main()
