"""Over Spark Connect a stream is written once, states are read, and what cannot be is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rig.jvm.java import spark_environment
from rig.ports import free_ports
from spark.sink_proof.reading import read_committed
from spark.topics import Topic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

pytest.importorskip("grpc_status", reason="PySpark was installed without its extra 'connect'")

# A process of its own: Spark has one session in each, and this is another kind.
_PROGRAM = """
import sys
import time
import urllib.request
from pyspark.sql import SparkSession
from drumlin.spark import changes, progress, progress_listener, restore, sink, snapshot
from drumlin.spark.java import ensure_java

address, topic, keyed, folder, metrics = sys.argv[1:]
ensure_java()
builder = SparkSession.builder.remote("local[2]")
builder = builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
builder = builder.config("spark.sql.shuffle.partitions", "2")
session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
options = {"kafka.bootstrap.servers": address, "topic": topic}
on = {"bootstrap": address}
state = sorted(bytes(row.value) for row in snapshot(session, keyed, **on).collect())
changed = changes(session, keyed, "earliest", **on).count()
restored = restore(session, keyed, f"{keyed}-restored", **on).record_count
print("told", (state, changed, restored))
rows = session.range(20).selectExpr("cast(id AS string) AS value")
rows.write.format("drumlin").options(**options).mode("append").save()


def wait_for_metric(beginning):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        text = urllib.request.urlopen(f"http://{metrics}/metrics").read().decode()
        found = [line for line in text.splitlines() if line.startswith(beginning)]
        if found:
            return found
        time.sleep(0.1)
    raise TimeoutError(text)


def stream(name):
    rows = session.readStream.format("drumlin").option("subscribe", topic).options(
        **{"kafka.bootstrap.servers": address, "startingOffsets": "earliest"}
    ).load().select("value")
    return rows.writeStream.option("checkpointLocation", f"{folder}/{name}").trigger(
        availableNow=True
    )


listener = progress_listener(metrics_listener=metrics)
session.streams.addListener(listener)
once = stream("once").format("drumlin").options(**options).start()
once.awaitTermination()
now = progress(once, bootstrap=address)
print("told", now.by_topic()[topic].behind)  # what it has written itself

shown = stream("shown").trigger(processingTime="50 milliseconds").queryName("shown")
shown = shown.format("noop").start()
shown.processAllAvailable()
label = f'query="shown",source="0",topic="{topic}"'
place = f'drumlin_query_position_offset{{partition="0",{label}}}'
print("told", " ".join(sorted(wait_for_metric(place))))
shown.stop()
session.streams.removeListener(listener)
listener.close()
refused = stream("refused").foreachBatch(sink(topic, bootstrap=address)).start()
try:
    refused.awaitTermination()
except Exception as error:
    assert "cannot be written exactly once" in str(error), error
    print("told", "refused")
"""


def test_streams_are_written_once_states_read_and_foreach_batch_refused(
    new_topic: Callable[[int], Topic], tmp_path: Path
) -> None:
    topic, keyed = new_topic(1), new_topic(2)
    now_ms = time.time_ns() // 1_000_000
    keyed.write((each % 2, b"k%d" % (each % 4), b"%d" % each, now_ms, None) for each in range(10))
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    spark = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark["SPARK_TESTING"] = "1"  # has the server take a port that is free
    done = subprocess.run(
        [sys.executable, program, topic.address, topic.name, keyed.name, str(tmp_path), metrics],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **spark_environment(), **spark},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # Spark's own workers may write there, too.
    told = [line[5:] for line in done.stdout.splitlines() if line.startswith("told ")]
    assert told[0] == str(([b"6", b"7", b"8", b"9"], 10, 4))
    assert int(told[1]) > 0
    assert re.fullmatch(rf'.*query="shown",source="0",topic="{topic.name}"}} [0-9.]+', told[2])
    assert told[3:] == ["refused"]
    rows = read_committed(topic.address, topic.name, 1, 60)
    assert sorted(row.value for row in rows) == sorted(2 * [b"%d" % each for each in range(20)])
