"""A keyed topic as a Delta table: the last value of each key, which is null if it is deleted."""

from __future__ import annotations

from session import cluster_of, parser, start_spark

from drumlin.spark import land


def main() -> None:
    arguments = parser(__doc__, topic="what to load", table="where to").parse_args()
    spark = start_spark("delta-table")
    cluster = cluster_of(arguments)
    land(spark, arguments.topic, f"delta:{arguments.table}", mode="upsert", **cluster.arguments)
    spark.stop()


if __name__ == "__main__":
    main()
