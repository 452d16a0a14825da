"""A stream joined with a dimension: orders, each with its customer, from topics to a topic.

Orders have the customer's number as their key. Customers are a compacted topic, that is a table
written as a log; with each micro-batch of orders their snapshot is taken anew. It is taken after
the batch has its end, so an order finds the customer that was written before it, and his address
as it is now. Each order is written once: if a batch is repeated, only one of its joins counts.
"""

from __future__ import annotations

from log_stream import read
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from session import Cluster, cluster_of, parser, start_spark

from drumlin.spark import sink, snapshot

BATCH_OFFSETS = 1_000_000
_CUSTOMER = "name STRING, city STRING"


def main() -> None:
    explained = parser(
        __doc__,
        topic="of orders",
        customers="compacted topic",
        target="topic of orders with customers",
        checkpoint="Spark's folder",
    )
    told = explained.parse_args()
    spark = start_spark("orders")
    enrich(spark, cluster_of(told), told.topic, told.customers, told.target, told.checkpoint)
    spark.stop()


def enrich(
    spark: SparkSession,
    cluster: Cluster,
    topic: str,
    customers: str,
    target: str,
    checkpoint: str,
    batch_offsets: int = BATCH_OFFSETS,
) -> None:
    """Write the orders that are new, with their customers."""
    options = {
        "startingOffsets": "earliest",
        "checkpointTopicIds": "true",
        "maxOffsetsPerTrigger": str(batch_offsets),
        "kafka.isolation.level": "read_committed",
        "columns": "key,value,timestamp",
    }
    write = sink(target, sinkId=f"orders.{target}", writeTimestamps=True, **cluster.arguments)

    def enrich_batch(orders: DataFrame, number: int) -> None:
        columns = ["key", "value"]
        known = snapshot(
            spark, customers, columns=columns, keys="across partitions", **cluster.arguments
        )
        write(with_customers(orders, known), number)

    query = (
        read(spark, cluster, topic, options)
        .writeStream.foreachBatch(enrich_batch)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def with_customers(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Each order as a record; one whose customer is unknown has null in his place."""
    customer = f.from_json(f.col("value").cast("string"), _CUSTOMER)
    dimension = customers.select("key", customer.alias("customer"))
    # The customers go to every task, so that orders need not be shuffled; without `broadcast` they
    # are, and there may be more customers than fit into a worker's memory.
    joined = orders.join(f.broadcast(dimension), "key", "left")
    order = f.col("value").cast("string").alias("order")
    return joined.select(
        "key",
        f.to_json(f.struct(order, "customer"), {"ignoreNullFields": "false"}).alias("value"),
        "timestamp",
    )


if __name__ == "__main__":
    main()
