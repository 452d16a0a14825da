"""The jars of Spark's own Kafka connector from Maven Central, to be compared with.

Nothing happens on import.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from rig.apache_kafka import Unavailable, java

_SCRIPT = Path(__file__).parents[2] / "script" / "spark-kafka-jars"


@functools.cache
def connector_jars() -> str:
    """A value for `spark.jars`; fetched with Maven the first time.

    Raises:
        Unavailable: this machine cannot have them.
    """
    java()
    done = subprocess.run([_SCRIPT], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["script/spark-kafka-jars failed"]
        raise Unavailable(reason[-1])
    return ",".join(str(jar) for jar in sorted(Path(done.stdout.strip()).glob("*.jar")))
