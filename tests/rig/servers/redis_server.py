"""A Redis of its own for a test, that survives being killed. Debian has it: redis-server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rig.brokers.process import BrokerProcess
from rig.ports import free_ports
from rig.waiting import wait_until

#: Where it is not on the path; libraries beside it are found by LD_LIBRARY_PATH.
PROGRAM = os.environ.get("DRUMLIN_TEST_REDIS") or shutil.which("redis-server")
WHY_NOT = "there is no redis-server: apt-get install redis-server, or name it in DRUMLIN_TEST_REDIS"


class RedisServer(BrokerProcess):
    """With `always_flushes` each write is in its file before it is answered."""

    def __init__(self, directory: Path, *, always_flushes: bool = True) -> None:
        super().__init__(directory / "redis.out")
        self._persistence = ["--appendonly", "yes", "--appendfsync", "always"]
        if not always_flushes:
            self._persistence = ["--appendonly", "no"]
        self.directory = directory
        self.port = free_ports(1)[0]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        said_before = len(self.said())
        assert PROGRAM is not None
        command = [PROGRAM, "--port", str(self.port), "--dir", str(self.directory)]
        self.launch([*command, "--save", "", *self._persistence])

        def is_ready() -> bool:
            self.fail_if_ended()
            return "Ready to accept connections" in self.said()[said_before:]

        wait_until(is_ready, "redis-server to be ready")
