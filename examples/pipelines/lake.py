"""An offline load: a topic into a lake of Parquet files, every record once.

A lake is a local folder, or one on Hadoop: `hdfs://namenode:8020/lake`.
"""

from __future__ import annotations

from session import cluster_of, parser, start_spark

from drumlin.spark import land, last_values


def main() -> None:
    arguments = parser(__doc__, topic="what to load", lake="where to").parse_args()
    spark = start_spark("lake")
    cluster = cluster_of(arguments)
    land(spark, arguments.topic, f"parquet:{arguments.lake}", mode="append", **cluster.arguments)
    columns = ("string(key)", "offset", "timestamp", "string(value)")
    last_values(spark, arguments.lake).selectExpr(*columns).show()
    spark.stop()


if __name__ == "__main__":
    main()
