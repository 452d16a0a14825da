"""A small HDFS from Maven Central: a name node and a data node in one JVM, on loopback.

Nothing happens on import. `Unavailable` says why a machine cannot have one; tests skip with it.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_SOURCE = Path(__file__).with_name("SmallHdfs.java")


@contextlib.contextmanager
def small_hdfs(directory: Path) -> Iterator[str]:
    """The address of one that runs meanwhile; the test is skipped where there can be none."""
    with skipped_where_unavailable():
        jars = f"{jar_folder('hadoop-jars')}/*"
        command = [java(), "-Xmx128m", *SHORT_LIVED_JVM.split(), "-cp", jars, str(_SOURCE)]
    output = directory / "hdfs.out"
    with (
        output.open("wb") as sink,
        subprocess.Popen(
            [*command, str(directory / "hdfs")], stdin=subprocess.PIPE, stdout=sink, stderr=sink
        ) as process,
    ):
        try:
            yield _address(process, output)
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], output: Path) -> str:
    found: list[str] = []

    def is_ready() -> bool:
        said = output.read_text(errors="replace")
        assert process.poll() is None, f"HDFS has ended with {process.returncode}:\n{said[-4000:]}"
        found.extend(re.findall(r"^ready (.*)$", said, re.MULTILINE))
        return bool(found)

    wait_until(is_ready, "HDFS to be ready", 120)
    return found[0]
