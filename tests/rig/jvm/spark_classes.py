"""Makes the archive of the classes that Spark loads first: `python -m rig.jvm.spark_classes`.

With it a JVM of Spark's takes two thirds of the processor's time until it has answered a first
query. It is made once, by a program that does some of what tests do; without it all works as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rig.jvm.java import spark_classes, spark_environment_with

_TIMEOUT_S = 300.0


def main() -> int:
    """Make it, unless it is there."""
    archive = spark_classes()
    if archive.exists():
        return 0
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, archive.name)
        options = f" -XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=error:stderr"
        program = [sys.executable, "-c", "from rig.jvm.spark_classes import use_spark; use_spark()"]
        done = subprocess.run(
            program,
            env={**os.environ, **spark_environment_with(options)},
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode or not made.exists():
            print(f"there is no archive of Spark's classes: {done.stderr[-2000:]}", file=sys.stderr)
            return 1
        with made.open("rb") as written:
            os.fsync(written.fileno())  # a JVM does not survive an archive that breaks off
        made.replace(archive)
    return 0


def use_spark() -> None:
    """What most programs of the tests do: a session, a query, a stream; then the JVM ends."""
    from pyspark.sql import SparkSession

    from drumlin.spark.java import ensure_java

    ensure_java()
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    rows = spark.range(10).selectExpr("id % 3 as key", "cast(id as string) as value")
    rows.groupBy("key").count().orderBy("key").collect()
    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    sys.exit(main())
