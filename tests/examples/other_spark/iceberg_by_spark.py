"""Reads Iceberg tables by Spark with Iceberg's own runtime, in a process of its own.

There is no runtime for the PySpark that is installed. As a program it imports nothing of Drumlin:
it stands for whoever has a table, a catalog and that Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from rig.jvm.jars import jar_folder

_PROGRAM = "examples.other_spark.iceberg_by_spark"
#: The newest one for which there is a runtime.
SPARK = "4.1"


class IcebergBySpark:
    """Spark with a catalog on SQLite that is called `lake`."""

    def __init__(self, catalog: Path, warehouse: Path) -> None:
        """
        Raises:
            Unavailable: this machine cannot have this Spark, or the runtime.
        """
        self._catalog, self._warehouse = catalog, warehouse
        self._jars = ",".join(map(str, sorted(Path(jar_folder("iceberg-jars")).glob("*.jar"))))
        self._pyspark = jar_folder("pyspark", SPARK)

    def answers(self, statements: Sequence[str], folder: Path) -> list[pa.Table]:
        """What it answers to these statements."""
        environment = {
            name: each for name, each in os.environ.items() if not name.startswith("SPARK_")
        }
        path = os.pathsep.join([self._pyspark, str(Path(__file__).parents[2])])
        environment |= {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
        places = [str(each) for each in (self._catalog, self._warehouse, folder)]
        program = [sys.executable, "-m", _PROGRAM, self._jars, *places, *statements]
        done = subprocess.run(
            program, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr[-5000:]
        found = []
        for number in range(len(statements)):
            with pa.OSFile(str(folder / f"{number}.arrow")) as file:
                found.append(pa.ipc.open_file(file).read_all())
        return found


def main(jars: str, catalog: str, warehouse: str, folder: str, *statements: str) -> None:
    """Answer the statements, each in a file of its own."""
    lake = "spark.sql.catalog.lake"
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", jars)
        .config(lake, "org.apache.iceberg.spark.SparkCatalog")
        .config(f"{lake}.type", "jdbc")
        .config(f"{lake}.uri", f"jdbc:sqlite:{catalog}")
        .config(f"{lake}.jdbc.schema-version", "V1")
        .config(f"{lake}.warehouse", f"file://{warehouse}")
        .getOrCreate()
    )
    if not session.version.startswith(SPARK):
        raise SystemExit(f"this is Spark {session.version}")
    for number, statement in enumerate(statements):
        rows = session.sql(statement).toArrow()
        with pa.ipc.new_file(f"{folder}/{number}.arrow", rows.schema) as writer:
            writer.write_table(rows)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
