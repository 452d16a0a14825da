"""A single ZooKeeper from Maven Central, with the offsets of old consumers in it.

Nothing happens on import. `Unavailable` says why a machine cannot have one; tests skip with it.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from rig.brokers.process import BrokerProcess
from rig.jvm.jars import jar_folder, java
from rig.jvm.java import SHORT_LIVED_JVM
from rig.ports import free_ports
from rig.servers.certificates import Certificates
from rig.servers.running import running
from rig.waiting import wait_until

_HEAP_MIB = 64
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_TICK_MS = 500


def _classpath() -> str:
    return f"{jar_folder('zookeeper-jars')}/*"


def check_available() -> None:
    """
    Raises:
        Unavailable: this machine cannot have one.
    """
    java()
    jar_folder("zookeeper-jars")


class ZooKeeper(BrokerProcess):
    """One server on loopback; it keeps its port and its data when it is started again.

    With certificates it has a second port, for clients that show one of theirs.
    """

    def __init__(
        self,
        directory: Path,
        certificates: Certificates | None = None,
        heap_mib: int = _HEAP_MIB,
    ) -> None:
        super().__init__(directory / "zookeeper.out")
        self.directory = directory
        self.port, self.secure_port = free_ports(2)
        self._certificates = certificates
        self._jvm = [f"-Xmx{heap_mib}m", *SHORT_LIVED_JVM.split()]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Start, and wait until it serves."""
        settings = {
            "dataDir": str(self.directory / "zookeeper"),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(_TICK_MS),
            "maxSessionTimeout": "60000",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            # What was written survives the end of the process, which is all that tests end.
            "forceSync": "no",
            "preAllocSize": "64",
        }
        if self._certificates is not None:
            settings |= {
                "secureClientPort": str(self.secure_port),
                "secureClientPortAddress": "127.0.0.1",
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": self._certificates.path("server.pem"),
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": self._certificates.path("ca.crt"),
                "ssl.trustStore.type": "PEM",
                "ssl.clientAuth": "need",
            }
        path = self.directory / "zoo.cfg"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.launch([java(), *self._jvm, "-cp", _classpath(), _MAIN, str(path)], cwd=self.directory)
        wait_until(self._is_ready, "ZooKeeper to be ready", timeout_s)

    @property
    def messages(self) -> int:
        """How many it was sent, since its start."""
        found = re.search(rb"^Received: (\d+)", self._status(), re.MULTILINE)
        assert found is not None, "ZooKeeper does not say"
        return int(found[1])

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        try:
            return b"Mode: standalone" in self._status()
        except OSError:
            return False

    def _status(self) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
            probe.sendall(b"srvr")
            return probe.recv(4096)


@contextlib.contextmanager
def running_zookeeper(
    directory: Path, certificates: Certificates | None = None, heap_mib: int = _HEAP_MIB
) -> Iterator[ZooKeeper]:
    """One that runs meanwhile; who asks for it is skipped where there can be none."""
    with running(ZooKeeper(directory, certificates, heap_mib)) as server:
        yield server
