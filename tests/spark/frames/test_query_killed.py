"""A query's runs, killed again and again at random moments, with all of their processes."""

from __future__ import annotations

import contextlib
import os
import random
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

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[3]

#: Runs without end; a file says how many there were, and how long the last one took.
PROGRAM = """
import itertools, os, random, sys, time
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
    began = time.monotonic()
    captured(spark, random_table(chance), Topic(address, int(partitions), topic))
    Path(told).write_text(f"{count} {time.monotonic() - began} s")
"""


@pytest.fixture(scope="module")
def topic(address: str) -> Topic:
    """One for all tests: what a run leaves, the next one finds."""
    return Topic(address, 3).create()


@pytest.mark.parametrize("seed", range(10))
def test_a_killed_run(spark: SparkSession, topic: Topic, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    run_and_kill(topic, seed, tmp_path, chance.uniform(0, 1.5))
    table = random_table(chance)
    captured(spark, table, topic)
    assert values_in(topic) == records_of(table)


def run_and_kill(topic: Topic, seed: int, folder: Path, runs: float) -> None:
    """Runs in a program of its own, which is killed so many runs after its second."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    told, said = folder / "told", folder / "said"
    arguments = [topic.address, topic.name, str(topic.partitions), str(seed), str(told)]
    with (
        said.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            env={**os.environ, **spark_environment(), "PYTHONPATH": paths}
            | {"PYSPARK_PYTHON": sys.executable},
            stdout=output,
            stderr=output,
        ) as program,
    ):

        def run_s() -> float | None:
            """How long a run takes, once the first one, with all that is started then, is over."""
            assert program.poll() is None, said.read_text(errors="replace")[-4000:]
            match told.read_text().split() if told.exists() else []:
                case [count, seconds, "s"] if int(count) > 0:
                    return float(seconds)
            return None

        try:
            time.sleep(runs * (wait_until(run_s, "a second run", 900) or 0.0))
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                top = psutil.Process(program.pid)
                for each in [*top.children(recursive=True), top]:
                    each.kill()
