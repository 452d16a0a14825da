"""The jars of Spark's own Kafka connector from Maven Central, to be compared with.

Nothing happens on import.
"""

from __future__ import annotations

from pathlib import Path

from rig.jvm.jars import jar_folder


def connector_jars() -> str:
    """A value for `spark.jars`; fetched with Maven the first time.

    Raises:
        Unavailable: this machine cannot have them.
    """
    folder = Path(jar_folder("spark-kafka-jars"))
    return ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))
