"""`drumlin groups mirror` as a subprocess, and a group's offsets at the broker."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drumlin.client.admin import group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from rig.brokers.process import BrokerProcess
from rig.waiting import wait_until


class MirrorProcess(BrokerProcess):
    """One mirror, which remembers what it knew when it is started again."""

    def __init__(
        self, directory: Path, group: str, zookeeper: str, broker: str, *more: str
    ) -> None:
        super().__init__(directory / "mirror.out")
        self.state = directory / "mirror-state.json"
        self._command = [sys.executable, "-m", "drumlin", "groups", "mirror", group, "--json"]
        self._command += ["--zookeeper", zookeeper, "--bootstrap", broker]
        self._command += ["--state", str(self.state), "--interval-ms", "100", "--status-ms", "300"]
        self._command += more

    def start(self) -> None:
        """Start, and wait until it has made a pass."""
        statuses = len(self.events("status"))
        self.launch(self._command)

        def has_looked() -> bool:
            self.fail_if_ended()
            return len(self.events("status")) > statuses

        wait_until(has_looked, "the mirror's first pass", 60)

    def stop(self) -> None:
        code = self.terminate()
        assert code == 0, self.said()[-4000:]
        assert "Traceback" not in self.said()

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What it has said of one kind, by all of its runs."""
        lines = self.said().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "}"]
        return [each for each in found if each["event"] == kind]


class BrokerGroup:
    """Commits from outside, as simple consumers and those with `offsets.storage=kafka` do."""

    def __init__(self, address: str) -> None:
        self._runner = asyncio.Runner()
        self._connections: BrokerConnections | None = None
        self._address = address

    def committed(self, group: str) -> dict[int, int]:
        """By partition; for groups of one topic."""

        async def ask() -> dict[int, int]:
            found = await group_admin.fetch_committed(self._connected(), group)
            return {partition: each.offset for (_, partition), each in found.items()}

        return self._runner.run(ask())

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        async def ask() -> None:
            positions = {
                (topic, part): OffsetAndMetadata(offset) for part, offset in offsets.items()
            }
            assert await group_admin.commit(self._connected(), group, positions) == {}

        self._runner.run(ask())

    def close(self) -> None:
        if self._connections is not None:
            self._runner.run(self._connections.close())
        self._runner.close()

    def _connected(self) -> BrokerConnections:
        if self._connections is None:
            self._connections = BrokerConnections(parse_bootstrap(self._address), PeerOptions())
        return self._connections
