"""How Java and Spark run in tests: as quick to start as they can be."""

from __future__ import annotations

import functools
import tempfile
from importlib.util import find_spec
from pathlib import Path

#: For programs that are over before thorough compilation, or checking their classes, has paid.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:+IgnoreUnrecognizedVMOptions"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def spark_environment() -> dict[str, str]:
    """What Spark is started with; it listens on the loopback interface alone."""
    return {
        "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM,
        "SPARK_HOME": _home().name,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@functools.cache
def _home() -> tempfile.TemporaryDirectory[str]:
    """Spark's home without its `python` folder.

    Spark's Python processes load PySpark from the archive there, which Python compiles again in
    each of them; it takes longer than all else that they do. Without it they take the installed
    one.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    folder = tempfile.TemporaryDirectory(prefix="spark-home-")
    for name in ("bin", "jars"):
        Path(folder.name, name).symlink_to(Path(spec.origin).with_name(name))
    return folder
