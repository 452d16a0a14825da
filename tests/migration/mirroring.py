"""`drumlin groups mirror` as a subprocess, and a group's offsets at the broker."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from drumlin.client import group_admin
from drumlin.client.group_admin import Committed
from drumlin.peer.broker_connections import BrokerConnections, parse_bootstrap
from drumlin.peer.options import PeerOptions
from rig.process import BrokerProcess
from rig.waiting import wait_until

T = TypeVar("T")


class MirrorProcess(BrokerProcess):
    """One mirror, which remembers what it knew when it is started again."""

    def __init__(
        self, directory: Path, group: str, zookeeper: str, broker: str, *more: str
    ) -> None:
        super().__init__(directory / "mirror.out")
        self.state = directory / "mirror-state.json"
        self._command = [sys.executable, "-m", "drumlin", "groups", "mirror", group, "--json"]
        self._command += ["--zookeeper", zookeeper, "--bootstrap", broker]
        self._command += ["--state", str(self.state), "--interval-ms", "50", "--status-ms", "100"]
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
        self._address = address

    def committed(self, group: str) -> dict[int, int]:
        """By partition; for groups of one topic."""

        async def ask(connections: BrokerConnections) -> dict[int, int]:
            found = await group_admin.fetch_committed(connections, group)
            return {partition: each.offset for (_, partition), each in found.items()}

        return self._run(ask)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        async def ask(connections: BrokerConnections) -> None:
            positions = {(topic, part): Committed(offset) for part, offset in offsets.items()}
            assert await group_admin.commit(connections, group, positions) == {}

        self._run(ask)

    def _run(self, ask: Any) -> Any:
        async def connected() -> Any:
            connections = BrokerConnections(parse_bootstrap(self._address), PeerOptions())
            try:
                return await ask(connections)
            finally:
                await connections.close()

        coroutine: Coroutine[Any, Any, Any] = connected()
        return asyncio.run(coroutine)
