"""How PySpark finds the source, in sessions that use it and in those that never will."""

from __future__ import annotations

import json
import subprocess
import sys

from pyspark.sql import SparkSession

from drumlin.spark import register
from spark.topics import Topic

HEAVY = ["pyarrow", "numba", "numpy", "kio", "pandas", "asyncio"]


def python(*lines: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_looking_for_sources_loads_nothing_heavy() -> None:
    found = python(
        "import json, sys, pyspark.sql.datasource",
        "before = set(sys.modules)",
        "import pyspark_drumlin",
        "assert pyspark_drumlin.DefaultSource.name() == 'drumlin'",
        "print(json.dumps(sorted(set(sys.modules) - before)))",
    )
    loaded = {name.split(".")[0] for name in json.loads(found)}
    assert not loaded.intersection(HEAVY)


def test_a_session_can_be_told(spark: SparkSession, address: str) -> None:
    """As it has to be where the process that looks for data sources has no `drumlin`."""
    register(spark)
    topic = Topic(address, 1).create()
    topic.fill(5)
    assert spark.read.format("drumlin").options(**topic.options()).load().count() == 5


def test_what_cannot_be_loaded_is_not_offered() -> None:
    said = python(
        "import sys",
        "sys.modules['pyspark'] = None  # as if it were not installed, or too old",
        "import pyspark_drumlin",
        "print(hasattr(pyspark_drumlin, 'DefaultSource'))",
    )
    assert said == "False"
