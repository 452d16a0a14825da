"""A stateful aggregation from topic to topic: what each account has paid in all, exactly once.

Spark keeps the totals in its checkpoint, and with each micro-batch the sink writes those that have
changed, in transactions: a reader of committed records finds each change once. Keep the target
compacted, and it is a table of all totals.

Here the checkpoint holds state, and must be kept. If it is lost, the query would begin anew, and
write totals that are there; the sink knows another query by its id and refuses that.
"""

from __future__ import annotations

from log_stream import read
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from session import parser, start_spark

from drumlin.spark import sink

BATCH_OFFSETS = 1_000_000


def main() -> None:
    explained = parser(
        __doc__, topic="of payments", target="topic of totals", checkpoint="Spark's folder"
    )
    arguments = explained.parse_args()
    spark = start_spark("totals")
    keep(spark, arguments.brokers, arguments.topic, arguments.target, arguments.checkpoint)
    spark.stop()


def keep(
    spark: SparkSession,
    brokers: str,
    topic: str,
    target: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Bring the totals up to where the topic ends now."""
    options = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(batch_offsets),
        "kafka.isolation.level": "read_committed",
        "columns": "key,value",
    }
    changed = totals(read(spark, brokers, topic, options))
    query = (
        changed.writeStream.outputMode("update")
        .foreachBatch(sink(target, bootstrap_servers=brokers, sinkId=f"totals.{target}"))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def totals(payments: DataFrame) -> DataFrame:
    """For each account the sum of its payments and their number, as a record."""
    amount = f.get_json_object(f.col("value").cast("string"), "$.amount").cast("long")
    return (
        payments.select("key", amount.alias("amount"))
        .where("key IS NOT NULL AND amount IS NOT NULL")
        .groupBy("key")
        .agg(f.sum("amount").alias("cents"), f.count("*").alias("payments"))
        .select("key", f.to_json(f.struct("cents", "payments")).alias("value"))
    )


if __name__ == "__main__":
    main()
