"""How Java and Spark run in tests: as quick to start as they can be."""

from __future__ import annotations

import functools
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

_CACHE = Path(__file__).parents[3] / ".cache"
#: For programs that are over before thorough compilation, or checking their classes, has paid.
SHORT_LIVED_JVM = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -XX:+IgnoreUnrecognizedVMOptions"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


def spark_environment() -> dict[str, str]:
    """What Spark is started with; it listens on the loopback interface alone."""
    archive = spark_classes()
    # A JVM whose class path is another does without, and need not say so.
    shared = f" -XX:SharedArchiveFile={archive} -Xlog:disable -Xlog:all=error:stderr"
    return spark_environment_with(shared if archive.exists() else "")


def spark_environment_with(jvm_options: str) -> dict[str, str]:
    """The same, with these options of the JVM's in place of the archive of classes."""
    return {
        "JDK_JAVA_OPTIONS": SHORT_LIVED_JVM + jvm_options,
        "SPARK_HOME": str(_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def spark_classes() -> Path:
    """The archive of the classes that Spark loads at its start, which `spark_classes.py` makes."""
    return _CACHE / f"spark-{version('pyspark')}.jsa"


@functools.cache
def _home() -> Path:
    """Spark's home without its `python` folder.

    Spark's Python processes load PySpark from the archive there, which Python compiles again in
    each of them; it takes longer than all else that they do. Without it they take the installed
    one. The path is the same for all: an archive of classes holds for one class path.
    """
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = _CACHE / f"spark-home-{version('pyspark')}"
    if any(
        (home / name).resolve() != Path(spec.origin).with_name(name) for name in ("bin", "jars")
    ):
        home.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "jars"):
            _link(home / name, Path(spec.origin).with_name(name))
    return home


def _link(path: Path, target: Path) -> None:
    """Make a link, or lead one elsewhere, while other processes do so or follow it."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder, path.name)
        made.symlink_to(target)
        made.replace(path)
