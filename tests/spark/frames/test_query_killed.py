"""A query's runs, killed again and again at random moments, with all of their processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from rig.jvm.java import spark_environment
from rig.waiting import wait_until
from spark.frames.query_topics import captured, random_table, records_of, values_in
from spark.topics import Topic

pytestmark = [pytest.mark.spark, pytest.mark.deep]

ROOT = Path(__file__).parents[3]

#: Runs without end; a file says how many there were.
PROGRAM = """
import itertools, os, random, sys
from pathlib import Path
from pyspark.sql import SparkSession
from drumlin.spark.java import ensure_java
from spark.frames.query_topics import captured, random_table
from spark.topics import Topic

address, topic, partitions, seed, told = sys.argv[1:]
ensure_java()
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
chance = random.Random(int(seed))
for count in itertools.count():
    captured(spark, random_table(chance), Topic(address, int(partitions), topic))
    Path(told).write_text(str(count))
"""


@pytest.fixture(scope="module")
def topic(address: str) -> Topic:
    """One for all tests: what a run leaves, the next one finds."""
    return Topic(address, 3).create()


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_run(spark: SparkSession, topic: Topic, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    run_and_kill(topic, seed, tmp_path / "told", chance.uniform(0, 4))
    table = random_table(chance)
    captured(spark, table, topic)
    assert values_in(topic) == records_of(table)


def run_and_kill(topic: Topic, seed: int, told: Path, after_s: float) -> None:
    """Runs in a program of its own, which is killed some time after its first."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    arguments = [topic.address, topic.name, str(topic.partitions), str(seed), str(told)]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, **spark_environment(), "PYTHONPATH": paths}
        | {"PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as program:
        try:
            wait_until(lambda: _has_begun(told, program), "a first run", 240)
            time.sleep(after_s)
        finally:
            top = psutil.Process(program.pid)
            for each in [*top.children(recursive=True), top]:
                each.send_signal(signal.SIGKILL)


def _has_begun(told: Path, program: subprocess.Popen[bytes]) -> bool:
    assert program.poll() is None, "the program has ended"
    return told.exists()
