"""The pods of the example for Kubernetes as processes of this machine.

Commands, variables and files are those of the manifests; what differs on one machine is replaced:
names of pods by 127.0.0.1, ports by free ones, and mounted folders by folders of the test.
"""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.manifests import FOLDER, container, variables
from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.ports import free_ports
from rig.waiting import wait_until

COUNT: Final = 3
DIGEST: Final = "brokers:secret"


class Place:
    """What stands for the names, ports and folders of all pods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clients, self.brokers, self.metrics, self.zookeepers, following, electing = (
            free_ports(COUNT) for _ in range(6)
        )
        self._hosts: dict[str, str] = {}
        for n in range(COUNT):
            broker = f"drumlin-{n}.drumlin.drumlin.svc.cluster.local"
            self._hosts |= {
                f"{broker}:9092": f"127.0.0.1:{self.clients[n]}",
                f"{broker}:9093": f"127.0.0.1:{self.brokers[n]}",
                f"zookeeper-{n}.zookeeper:2181": f"127.0.0.1:{self.zookeepers[n]}",
                f"zookeeper-{n}.zookeeper:2888:3888": f"127.0.0.1:{following[n]}:{electing[n]}",
            }
        bootstrap = "drumlin-bootstrap.drumlin.svc.cluster.local:9092"
        self._hosts[bootstrap] = f"127.0.0.1:{self.clients[0]}"

    def here(self, text: str, number: int) -> str:
        """A text of pod `number`, as it is on this machine."""
        own = self.folder / str(number)
        for there, instead in {
            **self._hosts,
            "CLIENTS://:9092": f"CLIENTS://127.0.0.1:{self.clients[number]}",
            "BROKERS://:9093": f"BROKERS://127.0.0.1:{self.brokers[number]}",
            "0.0.0.0:9404": f"127.0.0.1:{self.metrics[number]}",
            "clientPort=2181": f"clientPort={self.zookeepers[number]}",
            "/etc/drumlin/tls": str(self.folder / "tls"),
            "/etc/drumlin/config": str(own / "config"),
        }.items():
            text = text.replace(there, instead)
        return re.sub(r"=/data(log)?\b", f"={own}/data\\1", text)

    def put(self, name: str, number: int) -> Path:
        """A file of the configuration, for a pod."""
        target = self.folder / str(number) / "config" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.here((FOLDER / name).read_text("utf-8"), number))
        return target


class ZooKeeperPod(BrokerProcess):
    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place.folder / f"zookeeper-{number}.out")
        self._settings = place.put("zoo.cfg", number)
        data = place.folder / str(number) / "data"
        data.mkdir()
        script = container("zookeeper")["command"][-1]
        assert "echo $((POD_INDEX + 1)) >/data/myid" in script
        (data / "myid").write_text(str(number + 1))

    def start(self) -> None:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        jars = f"{jar_folder('zookeeper-jars')}/*"
        self.launch([java(), "-Xmx64m", "-cp", jars, main, str(self._settings)])


class BrokerPod(BrokerProcess):
    def __init__(self, place: Place, number: int) -> None:
        super().__init__(place.folder / f"drumlin-{number}.out")
        place.put("server.properties", number)
        self.login = place.put("brokers.properties", number)
        told = variables("drumlin", number, {"drumlin-zookeeper": {"digest": DIGEST}})
        self.environment: Mapping[str, str] = {
            name: place.here(each, number) for name, each in told.items() if name != "POD_NAME"
        }
        self._command = [place.here(each, number) for each in container("drumlin")["args"]]
        self._probes = {
            name: f"http://127.0.0.1:{place.metrics[number]}{container('drumlin')[name]['httpGet']['path']}"
            for name in ("startupProbe", "readinessProbe", "livenessProbe")
        }

    def start(self) -> None:
        self.launch([sys.executable, "-m", "drumlin", *self._command])

    def await_ready(self) -> None:
        for probe in self._probes:
            wait_until(lambda probe=probe: self._passes(probe), f"{probe} to pass", 120)  # type: ignore[misc]

    def _passes(self, probe: str) -> bool:
        self.fail_if_ended()
        try:
            with urllib.request.urlopen(self._probes[probe], timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def environment_of_commands() -> dict[str, str]:
    """Of a terminal, in which nothing of a server is set."""
    return {name: each for name, each in os.environ.items() if not name.startswith("DRUMLIN_")}
