"""The driver under proof, a process of its own.

`python -m spark.sink_proof.program PLAN ADDRESS FOLDER` runs the stream to the end of its
source. A query that fails, as it is made to, is started again from its checkpoint, as an operator
would do, unless the operator has started another driver meanwhile.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window
from pyspark.sql.streaming.query import StreamingQuery

from drumlin.spark.java import ensure_java
from drumlin.spark.writing.foreach_batch import sink
from spark.sink_proof.driver import is_current
from spark.sink_proof.plan import SOURCE, STEP_MS, TARGET, WINDOW_RECORDS, Plan
from spark.sink_proof.sabotage import OPTION, Sabotage, SabotagedSource

_QUERY_STARTS_MAX = 60


def main() -> None:
    text, address, folder = sys.argv[1:]
    plan = Plan.from_text(text)
    session = _session(plan)
    session.dataSource.register(SabotagedSource)
    for start in range(_QUERY_STARTS_MAX):
        print(f"start {start} of the query", flush=True)
        try:
            _start(session, plan, address, Path(folder)).awaitTermination()
        except StreamingQueryException as failure:
            print(f"the query failed: {failure}"[:2000], flush=True)
            if not is_current(Path(folder)):
                print("another driver has taken over", flush=True)
                session.stop()
                return
        else:
            print("all is through", flush=True)
            session.stop()
            return
    raise SystemExit(f"the query failed {_QUERY_STARTS_MAX} times")


def _session(plan: Plan) -> SparkSession:
    ensure_java()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "WARN",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(plan.tasks),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.task.maxFailures": "8",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
    }
    if plan.speculation:
        settings |= {
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.2",
            "spark.speculation.quantile": "0.3",
            "spark.speculation.minTaskRuntime": "500ms",
        }
    builder = SparkSession.builder.master(plan.master).appName("sink-proof")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start(session: SparkSession, plan: Plan, address: str, folder: Path) -> StreamingQuery:
    stream = (
        session.readStream.format("drumlin")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", SOURCE)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", plan.rows_per_batch)
        .option("minPartitions", plan.tasks)
        .load()
    )
    sabotage = Sabotage(
        plan.seed,
        str(folder),
        plan.failing_tasks,
        plan.failing_commits,
        plan.speculation,
        plan.has_shuffles_to_lose,
    )
    options = {"delivery": plan.delivery, OPTION: sabotage.as_text()}
    if plan.speculation:
        options["speculation"] = "true"
    if plan.shape == "updates":
        write = sink(TARGET, bootstrap=address, **options)
        writer = _counts(stream).writeStream.outputMode("update").foreachBatch(write)
    else:
        rows = _windows(stream) if plan.shape == "windows" else _copy(stream)
        options |= {"kafka.bootstrap.servers": address, "topic": TARGET}
        if plan.shape != "windows":
            options["writeTimestamps"] = "true"
        writer = rows.writeStream.outputMode("append").format("drumlin").options(**options)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start()


def _copy(stream: DataFrame) -> DataFrame:
    return stream.select("key", "value", "timestamp", "headers")


def _windows(stream: DataFrame) -> DataFrame:
    """How many records each window has, once it is closed; of two partitions that drift apart."""
    length_s = WINDOW_RECORDS * STEP_MS // 1000
    counts = (
        stream.withWatermark("timestamp", f"{2 * length_s} seconds")
        .groupBy(window("timestamp", f"{length_s} seconds"))
        .count()
    )
    return counts.selectExpr(
        "cast(unix_millis(window.start) AS string) AS key", "cast(count AS string) AS value"
    )


def _counts(stream: DataFrame) -> DataFrame:
    """How many records each key has had, for every key of the batch."""
    return stream.groupBy("key").count().selectExpr("key", "cast(count AS string) AS value")


if __name__ == "__main__":
    main()
