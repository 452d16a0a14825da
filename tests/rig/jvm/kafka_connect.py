"""A worker of Kafka Connect, with the connectors that `script/debezium-jars` fetches."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.ports import free_ports
from rig.servers.apache_kafka import JVM
from rig.waiting import wait_until

_WAIT_S = 900.0
_LOGGING = """
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c:%L)%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
"""


class Worker(BrokerProcess):
    """A worker of Kafka Connect, distributed or standalone; what it is told over REST."""

    def __init__(
        self, folder: Path, kind: str, settings: Mapping[str, str], jvm: Sequence[str] = JVM
    ) -> None:
        super().__init__(folder / "connect.out")
        self._folder, self._kind, self._jvm = folder, kind, jvm
        self._rest = f"http://127.0.0.1:{free_ports(1)[0]}"
        # Without looking into each class for plugins.
        own = {"listeners": self._rest, "plugin.discovery": "service_load"}
        self._properties = write(folder / "worker.properties", {**settings, **own})

    def start(self, *connectors: Path) -> None:
        """Connectors in files are for a standalone one."""
        logging = self._folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        jars = jar_folder("connect-jars")
        told = [*self._jvm, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{jars}/*"]
        main = f"org.apache.kafka.connect.cli.Connect{self._kind}"
        self.launch([java(), *told, main, str(self._properties), *map(str, connectors)])

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What it answers; asked until it is there, and has its connectors in order."""

        def answer() -> tuple[Any]:
            self.fail_if_ended()
            request = urllib.request.Request(
                f"{self._rest}{path}",
                None if body is None else json.dumps(body).encode(),
                {"Content-Type": "application/json"},
                method=method,
            )
            try:
                with urllib.request.urlopen(request, timeout=60) as said:
                    return (json.loads(said.read() or b"null"),)
            except urllib.error.HTTPError as error:
                assert error.code in (404, 409, 500, 503), error.read()
                return ()
            except OSError:
                return ()

        return wait_until(answer, f"an answer to {method} {path}", _WAIT_S)[0]

    def await_running(self, connector: str) -> None:
        def is_running() -> bool:
            told = self.ask("GET", f"/connectors/{connector}/status")
            states = [told["connector"], *told["tasks"]]
            assert not any("trace" in each for each in states), states
            return len(states) > 1 and all(each["state"] == "RUNNING" for each in states)

        wait_until(is_running, f"{connector} to run", _WAIT_S)


def write(path: Path, settings: Mapping[str, str]) -> Path:
    """A file of properties."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
