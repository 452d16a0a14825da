"""An Apache Kafka of an older version that today's clients still speak to: KRaft, from 3.0 on.

Nothing happens on import.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from rig.data.raw import Closed, NoAnswer, RawClient
from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.servers.apache_kafka import ApacheKafka

_JVM = ["-Xmx512m", *SHORT_LIVED_JVM.split()]
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
#: The newest of each that is offered here.
_RELEASES = {"3.0": "3.0.2"}
_METADATA_VERSION = 11


def _classpath(version: str) -> str:
    return f"{jar_folder('kafka-jars', _RELEASES[version])}/*"


class OlderKafka(ApacheKafka):
    """One broker, which is its own controller."""

    def __init__(self, version: str, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(directory, settings, jvm=_JVM)
        self._command = [java(), *_JVM, "-cp", _classpath(version)]

    def begin(self) -> None:
        is_new = not (self.directory / "data").exists()
        properties = str(self._write_properties())
        if is_new:
            format_it = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", properties]
            subprocess.run([*self._command, *format_it], check=True, capture_output=True)
        self.launch([*self._command, "kafka.Kafka", properties], cwd=self.directory)

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        try:
            with RawClient(self.port, timeout_s=5) as client:
                return bool(client.ask("metadata", _METADATA_VERSION, topics=[]).brokers)
        except (OSError, Closed, NoAnswer):
            return False
