"""The programs in docs/spark.md run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.topics import Topic

pytestmark = pytest.mark.spark

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"


def test_programs_run(spark: SparkSession, address: str, tmp_path: Path) -> None:
    Topic(address, 2, name="flights").create().fill(100)
    names: dict[str, Any] = {}
    for source in re.findall(
        r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL
    ):
        here = source.replace("127.0.0.1:9092", address).replace("/data/", f"{tmp_path}/")
        exec(compile(here, DOCUMENT.name, "exec"), names)
    assert names["flights"].count() == 100
    assert spark.read.parquet(str(tmp_path / "flights")).count() == 100
