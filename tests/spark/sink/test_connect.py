"""Over Spark Connect a stream is written once; the rest is refused, by the side that knows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.java import spark_environment
from spark.sink_proof.reading import read_committed
from spark.topics import Topic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

pytest.importorskip("grpc_status", reason="PySpark was installed without its extra 'connect'")

# A process of its own: Spark has one session in each, and this is another kind.
_PROGRAM = """
import sys
from pyspark.sql import SparkSession
from drumlin.spark import sink
from drumlin.spark.java import ensure_java

address, topic, folder = sys.argv[1:]
ensure_java()
builder = SparkSession.builder.remote("local[2]")
builder = builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
options = {"kafka.bootstrap.servers": address, "topic": topic}
rows = session.range(20).selectExpr("cast(id AS string) AS value")
rows.write.format("drumlin").options(**options).mode("append").save()


def stream(name):
    rows = session.readStream.format("drumlin").option("subscribe", topic).options(
        **{"kafka.bootstrap.servers": address, "startingOffsets": "earliest"}
    ).load().select("value")
    return rows.writeStream.option("checkpointLocation", f"{folder}/{name}").trigger(
        availableNow=True
    )


once = stream("once").format("drumlin").options(**options).start()
once.awaitTermination()
refused = stream("refused").foreachBatch(sink(topic, bootstrap_servers=address)).start()
try:
    refused.awaitTermination()
except Exception as error:
    assert "cannot be written exactly once" in str(error), error
    print("refused")
"""


def test_a_stream_is_written_once_and_foreach_batch_refused(
    new_topic: Callable[[int], Topic], tmp_path: Path
) -> None:
    topic = new_topic(1)
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    spark = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark["SPARK_TESTING"] = "1"  # has the server take a port that is free
    done = subprocess.run(
        [sys.executable, program, topic.address, topic.name, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **spark_environment(), **spark},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "refused"
    rows = read_committed(topic.address, topic.name, 1, 60)
    assert sorted(row.value for row in rows) == sorted(2 * [b"%d" % each for each in range(20)])
