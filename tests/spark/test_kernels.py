"""Compiled kernels: the driver loads none, and a worker in a fresh container compiles none."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

from drumlin.records.kernels import record_kernels
from spark.topics import Topic

_DRIVER = """
import base64, sys
from pyspark import cloudpickle
from drumlin.records.kernels import shipped_code
from drumlin.spark.source import DrumlinDataSource, spark_schema
address, topic = sys.argv[1:]
source = DrumlinDataSource({"kafka.bootstrap.servers": address, "subscribe": topic})
reader = source.reader(spark_schema())
plan = reader.partitions(), reader.read
assert "llvmlite" not in sys.modules
print(base64.b64encode(cloudpickle.dumps(plan)).decode())
"""

_WORKER = """
import base64, pickle, sys
started = []
sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
partitions, read = pickle.loads(base64.b64decode(sys.stdin.read()))
rows = sum(batch.num_rows for partition in partitions for batch in read(partition))
from drumlin.records.kernels import record_kernels
print(rows, record_kernels.loaded is not None, len(started))
"""


def run(program: str, *arguments: str, **options: object) -> str:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_a_worker_reads_with_the_drivers_kernels(address: str, tmp_path: Path) -> None:
    assert record_kernels.require() is not None  # so the driver's cache has them
    topic = Topic(address, partitions=1).create()
    topic.write((0, None, b"x" * 5000, 1_700_000_000_000, None) for _ in range(200))
    plan = run(_DRIVER, address, topic.name)
    assert len(base64.b64decode(plan)) < 100_000
    (tmp_path / "numba.py").write_text("raise ImportError('there is no numba')")
    fresh = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    assert run(_WORKER, input=plan, env=os.environ | fresh).split() == ["200", "True", "0"]
